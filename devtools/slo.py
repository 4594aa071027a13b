"""charts/kubenode/alerts/slo.yaml: service level objectives as recording rules, and burn rate
alerts.

python -m devtools.slo            write it
python -m devtools.slo --check    exit 1 when it differs

An objective of 99 % leaves an error budget of one in a hundred. An alert fires when the budget of
30 days is consumed too fast in two windows: a long one, so that a single slow event does not
matter, and a short one, so that the alert ends soon after the problem does.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from devtools.generators import ROOT, run

FILE = ROOT / "charts" / "kubenode" / "alerts" / "slo.yaml"
HEAD = """# What we promise of detection, decision and healing, and alerts on the budgets of errors.
# Written by `make docs` from devtools/slo.py; change that, not this file. See docs/slo.md.
# runbook_url is a path in this repository: put the address of your copy of it before.
groups:
  - name: kubenode-slo
    rules:
"""
WINDOWS = ("5m", "30m", "1h", "6h", "3d", "30d")


@dataclass(frozen=True, slots=True)
class Burn:
    """A burn rate alert.

    factor: the burn rate; at 1 the budget lasts exactly 30 days.
    long, short: the windows.
    """

    name: str
    factor: float
    long: str
    short: str
    severity: str


OFTEN = (Burn("Fast", 14.4, "1h", "5m", "critical"), Burn("Slow", 6, "6h", "30m", "warning"))
SELDOM = (Burn("Fast", 14.4, "6h", "1h", "critical"), Burn("Slow", 3, "3d", "6h", "warning"))
"""For events that happen a few times a day: short windows would mostly be empty."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A service level objective.

    slo: the name in labels and of the runbook; capitalized in the names of alerts.
    share: the share of events that must be good.
    good: selector of the series that counts good events.
    total: selector of the series that counts all events.
    fewest: events in the long window below which no alert fires, since one of three would be many.
    """

    slo: str
    share: float
    good: str
    total: str
    fewest: int
    summary: str
    description: str
    burns: tuple[Burn, ...] = OFTEN


OBJECTIVES = (
    Objective(
        "detect",
        0.99,
        'kubenode_remedy_signal_seconds_bucket{le="10.0"}',
        "kubenode_remedy_signal_seconds_count",
        10,
        "Signals of nodes reach us late",
        "of the conditions that turned took longer than 10 s to reach us",
    ),
    Objective(
        "decide",
        0.99,
        'kubenode_remedy_decide_seconds_bucket{le="1.0"}',
        "kubenode_remedy_decide_seconds_count",
        10,
        "Jobs are made late",
        "of the jobs were made more than 1 s after they could have been",
    ),
    Objective(
        "heal",
        0.95,
        'kubenode_job_seconds_bucket{phase="Succeeded",le="3600.0"}',
        'kubenode_job_seconds_count{phase=~"Succeeded|Failed"}',
        4,
        "Nodes are not healed in time",
        "of the jobs that ended had failed or took longer than 1 h",
        SELDOM,
    ),
)


def text() -> str:
    rules = [line for goal in OBJECTIVES for line in (*_records(goal), *_alerts(goal))]
    return HEAD + "".join(f"      {line}\n" if line else "\n" for line in rules)


def _records(goal: Objective) -> Iterator[str]:
    yield "- record: kubenode:slo_objective:ratio"
    yield f"  expr: vector({goal.share:g})"
    yield f"  labels: {{slo: {goal.slo}}}"
    for window in WINDOWS:
        yield f"- record: kubenode:slo_errors:ratio_rate{window}"
        yield "  expr: >-"
        yield f"    1 - sum(rate({goal.good}[{window}]))"
        yield f"    / (sum(rate({goal.total}[{window}])) > 0)"
        yield f"  labels: {{slo: {goal.slo}}}"
    yield "- record: kubenode:slo_budget_left:ratio_rate30d"
    yield "  expr: >-"
    yield f'    1 - kubenode:slo_errors:ratio_rate30d{{slo="{goal.slo}"}} / {_budget(goal)}'
    yield f"  labels: {{slo: {goal.slo}}}"


def _alerts(goal: Objective) -> Iterator[str]:
    for burn in goal.burns:
        limit = f"{burn.factor * (1 - goal.share):g}"
        yield f"- alert: KubeNode{goal.slo.capitalize()}Burns{burn.name}"
        yield "  expr: >-"
        for window in (burn.long, burn.short):
            yield f'    kubenode:slo_errors:ratio_rate{window}{{slo="{goal.slo}"}} > {limit}'
            yield "    and on ()"
        yield f"    sum(increase({goal.total}[{burn.long}])) >= {goal.fewest}"
        yield f"  labels: {{severity: {burn.severity}, slo: {goal.slo}}}"
        yield "  annotations:"
        yield f"    summary: {goal.summary}"
        yield "    description: >-"
        yield f"      {{{{ $value | humanizePercentage }}}} {goal.description}, over {burn.long}."
        yield f"      The objective allows {_budget(goal) * 100:g} %."
        yield f"    runbook_url: docs/runbooks/alerts/slo-{goal.slo}.md"


def _budget(goal: Objective) -> float:
    return round(1 - goal.share, 6)


def main(arguments: list[str]) -> int:
    return run({FILE: text()}, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
