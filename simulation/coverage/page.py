"""docs/reference/rule-coverage.md: each row of the vendor tables and the rules that serve it."""

from collections.abc import Iterator, Sequence

from simulation.coverage.matches import Served

HEAD = """<!-- Written by `python -m devtools.rule_coverage`; change the library, not this file. -->
# Which rule serves which row

Each row of the vendors' tables is turned into the signal that its detector sends, and the rules of
the library are asked whether they match: no line here is written by hand. The strongest rule stands
first. A rule in brackets matches once a probe of the host, the cloud or its peers agrees. What no
rule serves has a reason, from `rules/not-by-a-rule.yaml`. Many rules leave control plane nodes
alone; the last column names the strongest rule that acts or tells people there.

Sources: the tables name theirs; see `NOTICE` for licences. Rows of pages without an open licence
(ACK, TKE, CCE) are names and numbers only.
"""


def page(results: Sequence[Served]) -> str:
    """Return the page as Markdown."""
    served = sum(bool(s.rules or s.confirmed) for s in results)
    unanswered = sum(s.open for s in results)
    parts = [
        HEAD,
        f"{len(results)} rows: {served} served by a rule, {len(results) - served - unanswered}"
        f" answered with a reason, {unanswered} open.",
    ]
    for table in dict.fromkeys(s.row.table for s in results):
        parts += [f"\n## {table}\n", "| row | rules | control plane |", "| --- | --- | --- |"]
        parts += [
            f"| {s.row.name} | {_cell(s)} | {_there(s)} |" for s in results if s.row.table == table
        ]
    return "\n".join(parts) + "\n"


def _cell(served: Served) -> str:
    if served.rules or served.confirmed:
        return ", ".join(_links(served))
    return f"not by a rule: {served.because}" if served.because else "**open**"


def _there(served: Served) -> str:
    """Return a link to the strongest rule on a control plane node, "" if there is none."""
    return _link(served.control_plane[0]) if served.control_plane else ""


def _links(served: Served) -> Iterator[str]:
    for name in served.rules:
        yield _link(name)
    for name in served.confirmed:
        yield f"({_link(name)})"


def _link(name: str) -> str:
    return f"[{name}](../runbooks/{name}.md)"
