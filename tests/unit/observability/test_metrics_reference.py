"""The reference of metrics: complete, up to date, and its bounds hold whatever a fleet is like."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from support.clock import FakeClock
from support.defender_core import Core, a_node, a_policy
from support.documented import ROOT
from support.remedy_builders import a_job

from defender.metrics import DefenderMetrics as DefenderMetrics
from devtools import metrics_reference
from devtools.metrics_reference.bounds import bound_of, most_series
from devtools.metrics_reference.registry import BOUND, Metric, registered
from kubenode.api.v1alpha1 import Machine, MachineComponentSet
from kubenode.api.v1alpha1.remedyoperationjob import Hold
from kubenode.runtime.telemetry.metrics import RuntimeMetrics as RuntimeMetrics
from machine.insight.metrics import InsightCollector
from machine.insight.rollouts import RolloutCollector
from remedy.hostdoctor.parsers.about import ABOUT
from remedy.job.metrics import JobMetrics as JobMetrics

NAME = re.compile(r"\bkubenode_[a-z0-9_]*[a-z0-9]\b")
ENDINGS = ("_bucket", "_sum", "_count")
HOSTILE = ("node-{}", '"}} 1\nfake{{a="{}', "Ünïcode-{}", "a" * 200 + "{}", "../{}")
MANY = 400


@pytest.fixture(scope="module")
def metrics() -> dict[str, Metric]:
    return {metric.name: metric for metric in registered()}


@pytest.mark.exhaustive
def test_the_page_names_every_metric(metrics: dict[str, Metric]) -> None:
    page = metrics_reference.page()
    assert [name for name in metrics if f"| `{name}` |" not in page] == []


def test_every_metric_says_what_it_is_and_has_a_bound(metrics: dict[str, Metric]) -> None:
    assert len(metrics) > 90
    for metric in metrics.values():
        assert metric.text[:1].isupper() or metric.text[:1].isdigit(), metric.name
        assert 0 < most_series(metric) <= 100_000, metric.name


def test_names_end_as_their_type_asks(metrics: dict[str, Metric]) -> None:
    for metric in metrics.values():
        assert (metric.type == "counter") == metric.name.endswith("_total"), metric.name
        assert metric.type in ("counter", "gauge", "histogram"), metric.name


def named() -> Iterator[tuple[str, str]]:
    """Where a metric is named, and which."""
    files = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    files += [*(ROOT / "charts/kubenode").rglob("*.yaml")]
    files += [*(ROOT / "charts/kubenode/dashboards").glob("*.json")]
    for file in files:
        for name in NAME.findall(file.read_text(encoding="utf-8")):
            yield file.name, name


def test_every_metric_that_is_named_anywhere_exists(metrics: dict[str, Metric]) -> None:
    known = {*metrics, *(f"{name}{end}" for name in metrics for end in ENDINGS)}
    found = set(named())
    assert len(found) > 150
    assert {one for one in found if one[1] not in known and one[1] != ABOUT} == set()


def test_a_label_that_nothing_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing bounds its label node"):
        bound_of(Metric("kubenode_x", "gauge", "Words", ("node",)), "node")


# -- hostile fleets ----------------------------------------------------------------------------


def hostile(count: int = MANY) -> list[str]:
    """Names that nobody should give, each another one."""
    return [HOSTILE[n % len(HOSTILE)].format(n) for n in range(count)]


def a_defender(registry: CollectorRegistry) -> None:
    """Many policies, each with limits and breakers by labels that have a value for every node."""
    scopes = [{"scope": "Cluster"}, *({"scope": "Label", "label": f"l{n}"} for n in range(7))]
    limits = [{"scope": "Label", "label": f"l{n % 8}", "maxConcurrent": 1} for n in range(32)]
    policies = [a_policy("a", limits=limits, breaker={"scopes": scopes})]
    policies += [a_policy(f"p{n}", limits=limits[:1]) for n in range(60)]
    core = Core(*policies)
    for n, name in enumerate(hostile(80)):
        core.nodes(a_node(f"n{n}", {f"l{label}": name for label in range(8)}))
    DefenderMetrics(registry, core.control, lambda: True, FakeClock())


def a_machine(n: int, version: str) -> Machine:
    """With a component that no other has, and with one that all have in another version."""
    families = (f"only-{n}", "shared")
    hashes = {"revision": "1-90d2c7e1fa", "configHash": "1-44c0b7d2e1"}
    assigned = [{"name": name, "component": f"{name}-1"} | hashes for name in families]
    said = [{"name": name, "version": version[-128:]} | hashes for name in families]
    return Machine.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": f"m{n}"},
            "spec": {"addresses": ["10.0.0.7"], "components": assigned},
            "status": {"components": said},
        }
    )


def a_set(n: int) -> MachineComponentSet:
    return MachineComponentSet.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "MachineComponentSet",
            "metadata": {"name": f"set-{n}"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "component": "c-1"},
        }
    )


def a_machine_operator(registry: CollectorRegistry) -> None:
    machines = [a_machine(n, version) for n, version in enumerate(hostile())]
    sets = [a_set(n) for n in range(MANY)]
    registry.register(InsightCollector(lambda: machines))
    registry.register(RolloutCollector(lambda: machines, lambda: sets, lambda: ""))


def a_client(registry: CollectorRegistry) -> None:
    """Answers of a server, or of what stands before it, with any status."""
    meter = RuntimeMetrics(registry).client("main")
    for code in (*map(str, range(100, 1000, 7)), "none", "", "teapot"):
        meter.request("GET", code, 0.1)


def a_job_controller(registry: CollectorRegistry) -> None:
    """Reasons for which Kube Defender of another version refuses."""
    jobs = JobMetrics(registry)
    for reason in hostile():
        before = a_job()
        jobs.changed(before, before.having(hold=Hold(reason=reason[:64])))


@pytest.mark.parametrize(
    "fleet", [a_defender, a_machine_operator, a_client, a_job_controller], ids=lambda f: f.__name__
)
@pytest.mark.exhaustive
def test_series_stay_within_the_bounds_of_the_reference(
    metrics: dict[str, Metric], fleet: Callable[[CollectorRegistry], None]
) -> None:
    registry = CollectorRegistry()
    fleet(registry)
    values: dict[tuple[str, str, frozenset[tuple[str, str]]], set[str]] = defaultdict(set)
    series: dict[str, int] = defaultdict(int)
    for family in registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        for sample in family.samples:
            series[name] += 1
            for label, value in sample.labels.items():
                others = frozenset(sample.labels.items() - {(label, value)})
                values[name, label, others].add(value)
    assert max(map(len, values.values())) > 10
    for name, count in series.items():
        assert count <= most_series(metrics[name]), name
    for (name, label, _), found in values.items():
        if label != BOUND:
            bound = bound_of(metrics[name], label)
            assert len(found) <= bound.most, (name, label, len(found))
            assert not bound.values or found <= set(bound.values), (name, label)


@pytest.mark.exhaustive
def test_a_page_of_hostile_names_is_read_back_as_it_was_meant() -> None:
    registry = CollectorRegistry()
    a_machine_operator(registry)
    text = generate_latest(registry).decode()
    names = {family.name for family in text_string_to_metric_families(text)}
    assert names == {family.name for family in registry.collect()}
