"""Counts of the nodes of one group: those of a breaker's scope, or those with one kernel.

The cost of a change of a node does not depend on the number of nodes, except that the start times
of faults are kept in a sorted list.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from defender.decision.breaker.faults import Climb, NodeFault


@dataclass(frozen=True, slots=True)
class BreakerNode:
    """One node as breakers observe it.

    counted: percentages are taken of it.
    ready: its Ready condition is True.
    causes: what its fault may have in common with others: (cause, value).
    """

    labels: dict[str, str]
    counted: bool
    ready: bool
    fault: NodeFault | None = None
    climbs: tuple[Climb, ...] = ()
    causes: tuple[tuple[str, str], ...] = ()
    unhealthy: bool = field(init=False)
    failed: datetime | None = field(init=False)
    """When its fault began, None without one or if the node does not count."""

    def __post_init__(self) -> None:
        fault = self.fault if self.counted else None
        object.__setattr__(self, "unhealthy", fault is not None and fault.open)
        object.__setattr__(self, "failed", fault.since if fault is not None else None)


@dataclass(slots=True, eq=False)
class BreakerGroup:
    """Counts of a group.

    everyone: all nodes, also those that do not count.
    members: nodes of which percentages are taken.
    unhealthy: members with a fault now.
    unexplained: unhealthy nodes without a fault class from a job.
    classes: unhealthy nodes by fault class.
    nodes: names, only for scopes that can become dark.
    starts: sorted start times of faults, including those of closed jobs.
    climbs: by rule and rung, the jobs that escalated to it, with the time.
    """

    everyone: int = 0
    members: int = 0
    unhealthy: int = 0
    unexplained: int = 0
    nodes: set[str] | None = None
    classes: Counter[str] = field(default_factory=Counter)
    starts: list[datetime] = field(default_factory=list)
    climbs: dict[tuple[str, int], dict[str, datetime]] = field(default_factory=dict)

    def add(self, name: str, view: BreakerNode, fresh: bool = True) -> None:
        """Count the node.

        fresh: whether its fault may be new in this group.
        """
        self.everyone += 1
        self.members += view.counted
        if self.nodes is not None:
            self.nodes.add(name)
        if fresh and view.failed is not None:
            insort(self.starts, view.failed)
        if view.unhealthy:
            self._explain(view, +1)
        for climb in view.climbs:
            self.climbs.setdefault((climb.rule, climb.rung), {})[climb.job] = climb.at

    def remove(self, name: str, view: BreakerNode, fresh: bool = True) -> None:
        self.everyone -= 1
        self.members -= view.counted
        if self.nodes is not None:
            self.nodes.discard(name)
        if fresh and view.failed is not None:
            del self.starts[bisect_left(self.starts, view.failed)]
        if view.unhealthy:
            self._explain(view, -1)
        for climb in view.climbs:
            jobs = self.climbs[climb.rule, climb.rung]
            jobs.pop(climb.job, None)
            if not jobs:
                del self.climbs[climb.rule, climb.rung]

    def _explain(self, view: BreakerNode, sign: int) -> None:
        assert view.fault is not None
        self.unhealthy += sign
        self.unexplained += sign * (not view.fault.classes)
        for class_ in view.fault.classes:
            self.classes[class_] += sign
            if not self.classes[class_]:
                del self.classes[class_]

    def failed_since(self, at: datetime) -> int:
        """Return the number of nodes whose fault began after `at`."""
        return len(self.starts) - bisect_right(self.starts, at)

    def climbed_since(self, at: datetime) -> tuple[int, str, int]:
        """Return the most escalations after `at` to one rung of one rule: (count, rule, rung)."""
        counts = (
            (sum(when > at for when in jobs.values()), rule, rung)
            for (rule, rung), jobs in self.climbs.items()
        )
        return max(counts, default=(0, "", 0))
