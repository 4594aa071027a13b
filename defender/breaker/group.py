"""The nodes of one group, counted: those of a breaker's scope, or those with one kernel.

Each change of a node costs the same however many nodes there are; only the times of the faults
are kept in order, in one flat list.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from defender.breaker.faults import Climb, NodeFault


@dataclass(frozen=True, slots=True)
class BreakerNode:
    """One node as breakers see it.

    counted  it is one of the nodes that shares are taken of
    ready    its Ready condition is True
    causes   what faults may have in common: (cause, value)
    """

    labels: dict[str, str]
    counted: bool
    ready: bool
    fault: NodeFault | None = None
    climbs: tuple[Climb, ...] = ()
    causes: tuple[tuple[str, str], ...] = ()
    unhealthy: bool = field(init=False)
    failed: datetime | None = field(init=False)
    """When its fault began, if shares are taken of it."""

    def __post_init__(self) -> None:
        fault = self.fault if self.counted else None
        object.__setattr__(self, "unhealthy", fault is not None and fault.open)
        object.__setattr__(self, "failed", fault.since if fault is not None else None)


@dataclass(slots=True, eq=False)
class BreakerGroup:
    """everyone     nodes that shares are not taken of, too
    unhealthy    nodes with a fault now
    unexplained  of these, nodes that no job gives a fault class
    classes      of these, nodes by fault class
    nodes        names, kept for scopes that can get dark
    starts       when the faults began, in order, those of closed jobs too
    climbs       by rule and rung, the jobs that climbed to it and when
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
        """fresh: the fault may be new here."""
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
        """Nodes whose fault began after `at`."""
        return len(self.starts) - bisect_right(self.starts, at)

    def climbed_since(self, at: datetime) -> tuple[int, str, int]:
        """Of all rules and rungs the most jobs that climbed after `at`: (count, rule, rung)."""
        counts = (
            (sum(when > at for when in jobs.values()), rule, rung)
            for (rule, rung), jobs in self.climbs.items()
        )
        return max(counts, default=(0, "", 0))
