"""A node's life in random steps: what its FactSets are, one after the other.

A step is a few small numbers, so that a failing life shrinks to a short one.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from support.clock import T0

from rules.facts import (
    AlertFact,
    ConditionFact,
    EventFact,
    FactSet,
    HostEventFact,
    ProbeFact,
)
from rules.sources import EVENTS, HOST_EVENTS

TYPES = ("A", "B", "C")
STATUSES = ("True", "False", "Unknown")
POOLS = ("gpu", "cpu", None)
SECONDS = (0, 1, 9, 10, 11, 29, 30, 31, 59, 60, 61, 600, 259_200, 863_999)
"""Around the times that `LEAVES` name."""


@dataclass(frozen=True, slots=True)
class Step:
    """`pause` seconds pass, then `kind` happens; what `a` and `b` mean depends on it."""

    pause: int
    kind: str
    a: int
    b: int


LEAVES: tuple[dict[str, Any], ...] = (
    *({"condition": {"type": t}} for t in TYPES),
    {"condition": {"type": "A", "for": "30s", "maxAge": "60s"}},
    {"condition": {"type": "B", "status": "False", "for": "10s", "maxAge": "60s"}},
    {"condition": {"type": "B", "reason": "Odd"}},
    {"absent": {"condition": {"type": "A"}, "for": "30s"}},
    {"event": {"reason": "Oops"}},
    {"event": {"reason": "Oops", "count": 3, "within": "60s"}},
    {"event": {"reason": "Oops", "count": 3, "within": "240h"}},
    {"event": {"message": "odd", "count": 2, "within": "30s"}},
    {"absent": {"event": {"reason": "Oops", "within": "30s"}, "for": "30s"}},
    {"hostEvent": {"class": "Reboot", "startsWithin": "30s"}},
    {"absent": {"hostEvent": {"class": "Reboot"}, "for": "30s"}},
    {"alert": {"name": "Hot", "for": "10s"}},
    {"absent": {"alert": {"name": "Hot"}, "for": "30s"}},
    {"label": {"key": "pool", "value": "gpu"}},
    {"absent": {"label": {"key": "pool"}, "for": "30s"}},
    {"annotation": {"key": "asked"}},
    {"taint": {"key": "t", "exists": False}},
    {"fact": {"name": "node.gpuCount", "above": 3}},
    {"fact": {"name": "node.age", "above": 60}},
    {"all": [{"condition": {"type": "C"}}, {"fact": {"name": "zone.sameFault", "above": 2}}]},
    {"fact": {"name": "node.unreadConditions", "above": 0}},
    {"fact": {"name": "node.unreadWarnings", "above": 0}},
    {"probe": {"name": "disk.used_pct", "above": 90, "maxAge": "30s"}},
    {"probe": {"name": "disk.used_pct", "above": 90, "maxAge": "30s", "for": "60s"}},
    {
        "all": [
            {"condition": {"type": "C"}},
            {"fact": {"name": "zone.sameFault", "within": "60s", "above": 1}},
        ]
    },
)
KINDS = (
    "condition", "beat", "silence", "event", "hostEvent", "alert", "watchdog", "label",
    "annotation", "taint", "pods", "probe", "inferred", "sameFault", "stale", "other node",
    "merge", "forget", "deaf",
)  # fmt: skip
STEPS = st.builds(
    Step, st.sampled_from(SECONDS), st.sampled_from(KINDS), st.integers(0, 2), st.integers(0, 2)
)
LIVES = st.lists(STEPS, max_size=10)


class Life:
    """`facts` is the node at `now`; rules with these ids have counts of the same fault."""

    def __init__(self, *rules: str) -> None:
        self.now = self._born = T0
        self._rules = rules
        self._heard_of_alerts: datetime | None = None
        conditions = {t: ConditionFact(t, "False", "", "", T0, T0) for t in (*TYPES, "Ready")}
        self.facts = FactSet("n1", "u1", conditions=conditions, watched=T0, unchanged_since=T0)

    def take(self, step: Step) -> FactSet:
        self.now += timedelta(seconds=step.pause)
        happens = getattr(self, f"_{step.kind.replace(' ', '_').lower()}")
        self.facts = happens(self.facts, step.a, step.b)
        values = {**self.facts.values, "node.age": (self.now - self._born).total_seconds()}
        self.facts = replace(self.facts, values=values)
        return self.facts

    def _condition(self, facts: FactSet, a: int, b: int) -> FactSet:
        type_, status = TYPES[a], STATUSES[b]
        old = facts.conditions.get(type_)
        same = old is not None and old.status == status
        since = old.since if old is not None and same else self.now
        reason = "Odd" if self.now.second % 2 else "Even"
        fact = ConditionFact(type_, status, reason, "", since, self.now)
        return replace(facts, conditions={**facts.conditions, type_: fact})

    def _beat(self, facts: FactSet, a: int, b: int) -> FactSet:
        """All reporters, or all but one, were heard from, perhaps a while ago."""
        heard = self.now - timedelta(seconds=SECONDS[a * 3])
        known = {
            t: replace(c, received_at=max(heard, c.received_at)) if t != TYPES[b] else c
            for t, c in facts.conditions.items()
        }
        return replace(facts, conditions=known)

    def _silence(self, facts: FactSet, a: int, b: int) -> FactSet:
        """One is gone, or settles first."""
        conditions = dict(facts.conditions)
        gone = conditions.pop(TYPES[a], None)
        if gone is not None and b:
            settles = self.now + timedelta(seconds=30)
            conditions[TYPES[a]] = replace(gone, settles=settles)
        return replace(facts, conditions=conditions)

    def _event(self, facts: FactSet, a: int, b: int) -> FactSet:
        event = EventFact("Oops" if a else "Other", "odd" if b else "", "", "Warning", 1, self.now)
        if a == 2 and b == 2:
            event = replace(event, forgotten=True, count=2)
        return replace(facts, events=(*facts.events, event))

    def _merge(self, facts: FactSet, a: int, b: int) -> FactSet:
        """An aggregated Event occurred again; since when is known, or not."""
        if not facts.events:
            return facts
        old = facts.events[0]
        first = old.first or old.at if b else None
        merged = replace(old, count=old.count + a, at=self.now, first=first)
        return replace(facts, events=(*facts.events[1:], merged))

    def _forget(self, facts: FactSet, a: int, b: int) -> FactSet:
        """The oldest Events leave the memory, or all that is known of how long we listen."""
        watched = facts.watched if b else (None, self.now, T0)[a]
        return replace(facts, events=facts.events[a:], watched=watched)

    def _hostevent(self, facts: FactSet, a: int, b: int) -> FactSet:
        phase = ("Active", "Scheduled", "Completed")[a]
        begin = self.now + timedelta(seconds=SECONDS[b * 4]) if a == 1 else None
        event = HostEventFact("e", "Reboot", "cloud", phase, "", "", self.now, self.now, begin)
        heard = {"cloud": self.now, **({"bmc": self._born} if b else {})}
        return replace(facts, host_events=(event,), sources_alive_at=heard)

    def _alert(self, facts: FactSet, a: int, b: int) -> FactSet:
        alerts = (AlertFact("Hot", {}, a > 0, self.now),) if b else ()
        return replace(facts, alerts=alerts)

    def _watchdog(self, facts: FactSet, a: int, b: int) -> FactSet:
        return replace(facts, alerts_alive_at=self.now if a else None)

    def _label(self, facts: FactSet, a: int, b: int) -> FactSet:
        labels = {} if (pool := POOLS[a]) is None else {"pool": pool}
        changed = {**facts.changed, "label:pool": self.now}
        return replace(facts, labels=labels, changed=changed if b else {})

    def _annotation(self, facts: FactSet, a: int, b: int) -> FactSet:
        return replace(facts, annotations={"asked": "yes"} if a else {})

    def _taint(self, facts: FactSet, a: int, b: int) -> FactSet:
        return replace(facts, taints={"t": ""} if a else {})

    def _pods(self, facts: FactSet, a: int, b: int) -> FactSet:
        return replace(facts, values={**facts.values, "node.gpuCount": (2, 5, None)[a]})

    def _probe(self, facts: FactSet, a: int, b: int) -> FactSet:
        """An answer; with `b` the answers before are remembered."""
        before = facts.probes.get("disk.used_pct")
        earlier = (*before.earlier, (before.answered_at, before.value)) if before and b else ()
        answer = ProbeFact((10, 95, None)[a], self.now, earlier)
        return replace(facts, probes={"disk.used_pct": answer})

    def _inferred(self, facts: FactSet, a: int, b: int) -> FactSet:
        return replace(facts, inferred={"d.wide": (True, False, None)[a]})

    def _samefault(self, facts: FactSet, a: int, b: int) -> FactSet:
        began = (self.now - timedelta(seconds=SECONDS[b * 4 + n]) for n in range(a + 1))
        onsets = tuple(sorted(began))
        return replace(
            facts,
            same_fault={rule: {"zone": 2 + a} for rule in self._rules},
            onsets={rule: {"zone": onsets} for rule in self._rules},
        )

    def _deaf(self, facts: FactSet, a: int, b: int) -> FactSet:
        """The API server was away for a while before now, or all outages are long ago."""
        start = self.now - timedelta(seconds=SECONDS[a * 3])
        # Outages do not overlap.
        start = max([start, *(end for _, end in facts.unheard)])
        return replace(facts, unheard=(*facts.unheard, (start, self.now)) if b else ())

    def _stale(self, facts: FactSet, a: int, b: int) -> FactSet:
        """Of all, or of one source."""
        source = (EVENTS, HOST_EVENTS, "")[b] if a == 1 else ""
        return replace(facts, fresh=a > 0, stale=frozenset({source} - {""}))

    def _other_node(self, facts: FactSet, a: int, b: int) -> FactSet:
        return replace(facts, uid=f"u{a}")
