"""Dry runs: what each rule in DryRun would have done, where, and with which verdict. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from defender.dashboard.natural import natural
from defender.dashboard.scene import Scene
from defender.overview.records import DryRunView, WouldHaveView
from kubenode.api.step_text import GRANTED_VERDICT, NO_PERMIT_VERDICT
from kubenode.runtime.site.parts import PagePart, Summary

MOST, MOST_NODES = 1000, 8
GRANTED_VERDICTS = (GRANTED_VERDICT, NO_PERMIT_VERDICT)


@dataclass(frozen=True, slots=True)
class WouldHaveRow:
    """One rule.

    times: how often it would have begun a repair.
    nodes, more: names of nodes, those whose fault lasts first, and how many are not named.
    lasting: number of nodes whose fault lasts.
    granted, refused: verdicts among the repairs that are remembered one by one.
    steps, verdict, last: of the last repair.
    """

    template: ClassVar[str] = "parts/would_have.html"
    key: str
    severity: str
    times: int
    nodes: tuple[str, ...]
    more: int
    lasting: int
    granted: int
    refused: int
    steps: str
    verdict: str
    last: datetime | None


def view(scene: Scene, params: Mapping[str, str]) -> dict[str, Sequence[PagePart]]:
    """Return the rules, those whose faults last on the most nodes first."""
    by_rule: dict[str, list[tuple[str, bool, DryRunView]]] = {}
    for name, current, run in _results(scene):
        by_rule.setdefault(run.remedier, []).append((name, current, run))
    rows = [_row(scene, rule, runs) for rule, runs in by_rule.items()]
    rows.sort(key=lambda row: (-row.lasting, -row.times, row.key))
    idle = sum(rule.spec.mode == "DryRun" for rule in scene.rules.values()) - len(rows)
    return {"found": [Summary(_sentence(rows, idle), True, "found")], "rules": rows[:MOST]}


def _results(scene: Scene) -> Iterator[tuple[str, bool, DryRunView]]:
    """Yield (node, whether the fault lasts, result) of rules that are in DryRun now."""
    for name, record in scene.records.items():
        node = scene.nodes.get(name)
        if node is None or record.spec.node_uid != node.metadata.uid:
            continue
        for run in record.spec.dry_runs:
            rule = scene.rules.get(run.remedier)
            if rule is not None and rule.spec.mode == "DryRun":
                yield name, run.false_since is None, run


def _row(scene: Scene, rule: str, runs: Sequence[tuple[str, bool, DryRunView]]) -> WouldHaveRow:
    recent = [each for _, _, run in runs for each in run.recent]
    last = max(recent, key=_at, default=None)
    names = [name for name, _, _ in sorted(runs, key=lambda run: (not run[1], natural(run[0])))]
    granted = sum(each.verdict in GRANTED_VERDICTS for each in recent)
    return WouldHaveRow(
        key=rule,
        severity=scene.rules[rule].spec.severity or "Warning",
        times=sum(run.count for _, _, run in runs),
        nodes=tuple(names[:MOST_NODES]),
        more=max(0, len(names) - MOST_NODES),
        lasting=sum(current for _, current, _ in runs),
        granted=granted,
        refused=sum(bool(each.verdict) for each in recent) - granted,
        steps="" if last is None else last.steps or last.rung,
        verdict="" if last is None else last.verdict,
        last=None if last is None else last.at,
    )


def _at(result: WouldHaveView) -> float:
    return result.at.timestamp() if result.at is not None else 0.0


def _sentence(rows: Sequence[WouldHaveRow], idle: int) -> str:
    if not rows:
        rules = f"{idle} {'rule is' if idle == 1 else 'rules are'} in DryRun"
        return f"{rules}, and would have begun no repair." if idle else "No rule is in DryRun."
    times = sum(row.times for row in rows)
    repairs = f"{times} {'repair' if times == 1 else 'repairs'}"
    rules = f"{len(rows)} {'rule' if len(rows) == 1 else 'rules'} in DryRun"
    return f"{rules} would have begun {repairs}."
