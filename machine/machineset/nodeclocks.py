"""Start times of Node conditions, by the clock of this process (see rules.condition_clock).

Only conditions that some set asks for are tracked. For most Nodes that is Ready alone.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from types import MappingProxyType

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.objects import Node
from rules.condition_clock import ConditionClock
from rules.facts import ConditionFact
from rules.nodereports import node_reports
from rules.since import ClockSteps

Conditions = Mapping[str, ConditionFact]
NONE: Conditions = MappingProxyType({})


class NodeClocks:
    """Tracker of Node conditions.

    nodes: returns all cached Nodes, when another condition is to be tracked.
    """

    def __init__(self, nodes: Callable[[], Collection[Node]], clock: Clock) -> None:
        self._nodes, self._clock, self._steps = nodes, clock, ClockSteps()
        self._types: frozenset[str] = frozenset()
        self._clocks: dict[str, tuple[str, ConditionClock]] = {}
        """By Node name, its UID and the clock of its conditions."""
        self._facts: dict[str, Conditions] = {}

    def follow(self, types: Collection[str]) -> None:
        """Track these condition types as well, for all Nodes."""
        if self._types.issuperset(types):
            return
        self._types |= frozenset(types)
        now = self._now()
        for node in self._nodes():
            self._take(node, now)

    def changed(self, key: str, new: Node | None) -> bool:
        """Record the Node, None if it is gone. Return whether a status or start time has
        changed.
        """
        if new is None:
            self._clocks.pop(key, None)
            self._facts.pop(key, None)
            return True
        return bool(self._types) and self._take(new, self._now())

    def conditions(self, node: str) -> Conditions:
        """Return the conditions by type. The object stays the same while only heartbeats change."""
        self._now()
        return self._facts.get(node, NONE)

    def _take(self, node: Node, now: datetime) -> bool:
        """Record the Node's conditions. Return whether a status or start time has changed."""
        name, uid = node.metadata.name, node.metadata.uid
        known, clock = self._clocks.get(name, ("", None))
        if clock is None or known != uid:
            clock = ConditionClock()
            self._clocks[name] = uid, clock
        clock.take([r for r in node_reports(node) if r.type in self._types], now)
        facts, before = clock.facts(), self._facts.get(name, NONE)
        if _beginnings(facts) == _beginnings(before):
            return False
        self._facts[name] = facts
        return True

    def _now(self) -> datetime:
        """Return the wall time, after shifting the start times if the wall clock was set."""
        now = self._clock.now()
        if step := self._steps.step(now, self._clock.monotonic()):
            for name, (_, clock) in self._clocks.items():
                clock.stepped(step, now)
                self._facts[name] = clock.facts()
        return now


def _beginnings(conditions: Conditions) -> dict[str, tuple[str, datetime]]:
    """Return status and start time of the conditions, by type."""
    return {type_: (fact.status, fact.since) for type_, fact in conditions.items()}
