"""docs/reference/metrics.md: every registered metric with its labels and their bounds.

python -m devtools.metrics_reference            write it
python -m devtools.metrics_reference --check    exit 1 when it differs
"""

from collections.abc import Iterator, Sequence

from devtools.generators import ROOT, run
from devtools.metrics_reference.bounds import bound_of, most_series
from devtools.metrics_reference.registry import Metric, registered

FILE = ROOT / "docs" / "reference" / "metrics.md"
PARTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Faults and their jobs", "The remedy operator.", ("kubenode_remedy_", "kubenode_job_")),
    ("Rule engines", "The remedy operator.", ("kubenode_engine_",)),
    ("Host Doctor", "The remedy operator, on every replica.", ("kubenode_hostdoctor_",)),
    ("Notifications", "The remedy operator.", ("kubenode_notification",)),
    ("Kube Defender", "Every replica of it.", ("kubenode_defender_",)),
    ("Machines", "The Machine operator.", ("kubenode_machine", "kubenode_component_")),
    (
        "Providers of machines",
        "The remedy and the Machine operator.",
        ("kubenode_provider_", "kubenode_instance_"),
    ),
    ("Stream", "The remedy operator with --stream-url.", ("kubenode_stream_",)),
    ("Insight", "`kubenode run insight`.", ("kubenode_insight_",)),
    ("Member clusters", "`kubenode run captain`.", ("kubenode_captain_",)),
    ("Processes", "Every process.", ("kubenode_",)),
)
"""Title, programs, and beginnings of metric names. The first part that fits has the metric."""

HEAD = """<!-- Written by `make docs` from what is registered; change that, not this file. -->
# Metrics

Each central process serves them at `/metrics` of its health port. A state (a depth, an age, a
budget) is read when the page is asked for and is the same on every replica that knows it, so take
it by `max`; what happened is counted by whoever did it, so take it by `sum`.

No label holds the name of a node, a pod or a job, an address or the text of an error: those are in
Events, logs and the audit log. A **closed** label has its values listed at the end, and its series
begin at zero; of every other label the bound is named here, for one set of the others' values.
*Series* is the most that one process can have of a metric (of a histogram all its buckets),
whatever the fleet is like and whatever people name their objects.
"""
Values = tuple[str, ...]


def page() -> str:
    """Return the whole page as Markdown."""
    metrics = registered()
    closed: dict[tuple[str, Values], list[str]] = {}
    parts = [HEAD]
    remaining = metrics
    for title, who, names in PARTS:
        mine = [m for m in remaining if m.name.startswith(names)]
        remaining = [m for m in remaining if m not in mine]
        parts += [f"## {title}\n\n{who}\n", *_table(mine, closed)]
    parts += ["## Values of closed labels\n", *_values(closed)]
    return "\n".join(parts) + "\n"


def _table(metrics: Sequence[Metric], closed: dict[tuple[str, Values], list[str]]) -> Iterator[str]:
    yield "| metric | type | labels | series | what |\n| --- | --- | --- | --- | --- |"
    bounds: dict[str, str] = {}
    for metric in metrics:
        labels = []
        for label in metric.labels:
            bound = bound_of(metric, label)
            labels.append(f"`{label}` ≤ {bound.most}" if bound.by else f"`{label}` {bound.most}")
            if bound.by:
                bounds[f"`{label}` ≤ {bound.most}: {bound.by}"] = ""
            else:
                closed.setdefault((label, bound.values), []).append(metric.name)
        series = f"{most_series(metric):,}"
        cells = (f"`{metric.name}`", metric.type, ", ".join(labels), series, metric.text)
        yield f"| {' | '.join(cells)} |"
    yield ""
    if bounds:
        yield "\n".join(f"- {line}" for line in bounds) + "\n"


def _values(closed: dict[tuple[str, Values], list[str]]) -> Iterator[str]:
    for (label, values), names in sorted(closed.items()):
        listed = ", ".join(f"`{value}`" for value in values)
        yield f"- `{label}` of {', '.join(f'`{name}`' for name in names)}: {listed}"


def main(arguments: list[str]) -> int:
    return run({FILE: page()}, arguments)
