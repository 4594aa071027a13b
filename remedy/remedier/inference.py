"""Inferred facts of a rack, a zone or the cluster: concluded on one node, read by all of the group.

A rule with `infer` and a scope wider than Node evaluates its evidence on each node. The fact holds
for the group while the evidence is true on any node, and for the rule's `for` afterwards. It is
known not to hold when the evidence is known false on all nodes: not before the rule has evaluated
each of them once, and not while the evidence is unknown or disputed on one. A fact of a single node
with `for` counts as one of a group of one.

A fact that lasts for a time outlives a restart in the status of the rule (`entries`,
`rules_loaded`). An entry changes when evidence comes, goes or has been gone for long enough, never
with the clock.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from heapq import heappop, heappush
from itertools import islice

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.noderemedier import Infer, InferredFact, Scope
from remedy.remedier.fleet import CLUSTER, Group, NodeGroups
from rules.diagnose import Agreement, Match
from rules.facts import Value
from rules.truth import Truth

GROUP_OF = {
    Scope.NODE: "node",
    Scope.RACK: "rack",
    Scope.ZONE: "zone",
    Scope.POOL: "pool",
    Scope.VM_HOST: "vmHost",
    Scope.CLUSTER: "cluster",
    Scope.KERNEL: "kernel",
    Scope.IMAGE: "image",
    Scope.COMPONENT_REVISION: "componentRevision",
}
NODE = "node"
MOST_ENTRIES = 64
"""Most entries in the status of a rule."""
MOST_WITNESSES = 8
"""Most nodes named as evidence, first come first: in a storm not every node causes a write."""

MOST_CACHED = 1024
"""Most distinct results that are cached for nodes to share."""

Place = tuple[Group, bool]
"""A group and whether there is evidence on a node of it; False: the evidence is unknown or
disputed.
"""


def is_stored(infer: Infer | None) -> bool:
    """Report whether the fact outlives one evaluation of one node; the engines chain the others
    themselves.
    """
    return infer is not None and (infer.scope is not Scope.NODE or bool(infer.for_))


class Inferring:
    """State of one rule that infers. `waiting`: nodes that it has not evaluated yet."""

    def __init__(self, rule: NodeRemedier, waiting: Iterable[str]) -> None:
        assert rule.spec.infer is not None
        self.name = rule.metadata.name
        self.infer: Infer = rule.spec.infer
        self.scope = GROUP_OF[self.infer.scope]
        self.waiting = set(waiting)
        self.until: dict[Group, datetime] = {}
        """End of the time for which the fact still holds after its evidence is gone, by group."""
        self.unsure_until: datetime | None = None
        """Until when an earlier process may have known of more groups than its status
        had room for.
        """
        self.version = 0
        """Grows with each change of `entries`."""
        self._ends: list[tuple[datetime, Group]] = []
        """Heap of the values that are or were in `until`."""
        self._there: dict[Place, dict[str, None]] = {}
        """Nodes by place, in the order in which they came."""
        self._of: dict[str, Place] = {}

    def truth(self, group: Group, now: datetime) -> Truth:
        """Return whether the fact holds for the group."""
        if (group, True) in self._there or now < self.until.get(group, now):
            return Truth.TRUE
        waited = group[1] in self.waiting if self.scope == NODE else bool(self.waiting)
        perhaps = (group, False) in self._there or waited
        unsure = self.unsure_until is not None and now < self.unsure_until
        return Truth.UNKNOWN if perhaps or unsure else Truth.FALSE

    def count(self, node: str, place: Place | None, now: datetime) -> set[Group]:
        """Count the node in this place and no other; return the groups with a changed truth."""
        before = self._of.get(node)
        if before == place:
            return set()
        groups = {p[0] for p in (before, place) if p is not None}
        was = {group: self.truth(group, now) for group in groups}
        if before is not None:
            self._leave(node, before, now)
        if place is not None:
            self._enter(node, place)
        return {group for group in groups if self.truth(group, now) is not was[group]}

    def place(self, node: str) -> Place | None:
        """Return the place that counts the node; None for none."""
        return self._of.get(node)

    def judged(self, node: str) -> bool:
        """Record that the rule evaluated the node; report whether a group became known by it."""
        if node not in self.waiting:
            return False
        self.waiting.discard(node)
        if not self.waiting:
            self.waiting.clear()  # an emptied set keeps its table: 512 KB for 10,000 nodes
        return self.scope == NODE or not self.waiting

    def expired(self, now: datetime) -> set[Group]:
        """Remove expired facts; return their groups."""
        ended: set[Group] = set()
        while self._ends and self._ends[0][0] <= now:
            at, group = heappop(self._ends)
            if self.until.get(group) == at:
                del self.until[group]
                ended.add(group)
                self.version += 1
        return ended

    def end(self, group: Group) -> None:
        """End the fact of a group in `until`, however long it was to last."""
        del self.until[group]
        self.version += 1

    def keep(self, until: Mapping[Group, datetime]) -> None:
        """Take over facts of an earlier version of the rule or an earlier process."""
        for group, at in until.items():
            self._keep(group, at)

    def stepped(self, step: timedelta) -> None:
        """Move the ends after a step of the wall clock, so that facts last as long as before."""
        ends = {group: at + step for group, at in self.until.items()}
        self._ends.clear()
        self.keep(ends)
        self.version += bool(ends)
        if self.unsure_until is not None:
            self.unsure_until += step

    @property
    def holding(self) -> int:
        """Number of groups for which the fact holds."""
        return len(self.until) + sum(sure for _, sure in self._there)

    def list_ends(self, now: datetime) -> dict[Group, datetime]:
        """Return by group until when the fact holds if no more evidence comes."""
        there = {group: now + self.infer.for_ for group, sure in self._there if sure}
        return {**self.until, **there} if self.infer.for_ else {}

    def entries(self) -> list[InferredFact]:
        """Return the entries for the rule's status: first those with current evidence, which have
        no end, then those that last longest.
        """
        if not self.infer.for_:
            return []
        rows: list[tuple[str, datetime | None, list[str]]]
        there = sorted((p for p in self._there if p[1]), key=lambda place: place[0][1])
        rows = [(place[0][1], None, self._witnesses(place)) for place in there]
        ends = sorted(self.until.items(), key=lambda e: (-e[1].timestamp(), e[0]))
        rows += [(group[1], until, []) for group, until in ends]
        value = self.infer.value
        return [
            InferredFact(group=group, value=value, until=until, nodes=nodes)
            for group, until, nodes in rows[:MOST_ENTRIES]
        ]

    def _witnesses(self, place: Place) -> list[str]:
        return list(islice(self._there[place], MOST_WITNESSES))

    def _enter(self, node: str, place: Place) -> None:
        self._of[node] = place
        there = self._there.setdefault(place, {})
        self.version += place[1] and len(there) < MOST_WITNESSES
        there[node] = None
        if place[1]:
            self.until.pop(place[0], None)

    def _leave(self, node: str, place: Place, now: datetime) -> None:
        del self._of[node]
        self.version += place[1] and node in self._witnesses(place)
        del self._there[place][node]
        if self._there[place]:
            return
        del self._there[place]
        if place[1] and self.infer.for_:
            self._keep(place[0], now + self.infer.for_)

    def _keep(self, group: Group, until: datetime) -> None:
        self.until[group] = until
        heappush(self._ends, (until, group))


class WideFacts:
    """Inferred facts of all rules.

    one_engine_is_enough: the operator's policy `reference`
    changed: called with the name of a rule after its `entries` changed
    """

    def __init__(self, fleet: NodeGroups, accept_single_engine: bool = False) -> None:
        self._fleet = fleet
        self._enough = accept_single_engine
        self._rules: dict[str, Inferring] = {}
        self._started: set[str] = set()
        """Names of rules that were loaded before: their status adds nothing."""
        self.changed: Callable[[str], None] = lambda name: None
        self._cached_values = lru_cache(maxsize=MOST_CACHED)(self._valued)
        """Facts by the truths of the rules: nodes with the same truths share one mapping."""

    def rules_loaded(
        self, rules: Mapping[str, NodeRemedier], nodes: Iterable[str], now: datetime
    ) -> None:
        """Take in the loaded rules. An unchanged version keeps its state; a new one keeps facts
        whose time is not over, and so does a new process from the rule's status.
        """
        names, before, self._rules = set(nodes), self._rules, {}
        self._cached_values.cache_clear()
        for id_, rule in rules.items():
            if not is_stored(rule.spec.infer):
                continue
            self._rules[id_] = before.get(id_) or self._begun(rule, names, before.values(), now)
        self._started = {rule.name for rule in self._rules.values()}

    @property
    def unjudged(self) -> int:
        return sum(bool(rule.waiting) for rule in self._rules.values())

    def learned(self, node: str, matches: Mapping[str, Match], now: datetime) -> set[str]:
        """Take in the diagnosis of a node; return the nodes to evaluate again."""
        woken: set[str] = set()
        for id_, rule in self._rules.items():
            version, before = rule.version, rule.place(node)
            place = self._place(node, rule, matches.get(id_))
            for group in rule.count(node, place, now) | rule.expired(now):
                woken.update(self._members(group))
            if rule.judged(node):
                woken.update((node,) if rule.scope == NODE else self._fleet.members(CLUSTER))
            if before is not None and before[0] in rule.until:
                woken |= self._timekeeper(before[0], node)
            if rule.version != version:
                self.changed(rule.name)
        return woken

    def node_gone(self, node: str, now: datetime) -> set[str]:
        """Remove a node that was deleted, or whose name another machine has taken; return the
        nodes to evaluate again. Facts of a group outlive it, facts of the node itself do not.
        """
        woken = self.learned(node, {}, now)
        for rule in self._rules.values():
            if rule.scope == NODE and (NODE, node) in rule.until:
                rule.end((NODE, node))
                self.changed(rule.name)
        return woken

    def stepped(self, step: timedelta) -> None:
        for rule in self._rules.values():
            version = rule.version
            rule.stepped(step)
            if rule.version != version:
                self.changed(rule.name)

    def values(self, node: str, now: datetime) -> Mapping[str, Value | None]:
        """Return the inferred facts of a node; None: unknown. A fact that does not hold is False,
        also for a node without a group. Callers must not change the mapping, which is shared.
        """
        groups = ((rule, self._group(node, rule.scope)) for rule in self._rules.values())
        truths = tuple(
            rule.truth(group, now) if group is not None else Truth.FALSE for rule, group in groups
        )
        return self._cached_values(truths)

    def _valued(self, truths: tuple[Truth, ...]) -> Mapping[str, Value | None]:
        by_fact: dict[str, Value | None] = {}
        for rule, truth in zip(self._rules.values(), truths, strict=True):
            fact = rule.infer.fact
            if truth is Truth.TRUE:
                by_fact[fact] = rule.infer.value
            elif truth is Truth.FALSE:
                by_fact.setdefault(fact, False)
            elif not by_fact.get(fact):
                by_fact[fact] = None
        return by_fact

    def changes_at(self, node: str, now: datetime) -> datetime | None:
        """Return when the next inferred fact of the node's groups ends; None: none does."""
        times = [
            rule.until.get(group)
            for rule in self._rules.values()
            if (group := self._group(node, rule.scope)) is not None
        ]
        unsure = (rule.unsure_until for rule in self._rules.values())
        times += [at for at in unsure if at is not None and at > now]
        return min((at for at in times if at is not None), default=None)

    def loaded(self, name: str) -> bool:
        """Report whether a rule of this name infers a fact of a group."""
        return name in self._started

    @property
    def holding(self) -> int:
        """Number of groups for which a fact holds, with or without current evidence."""
        return sum(rule.holding for rule in self._rules.values())

    def entries(self, name: str) -> list[InferredFact]:
        """Return the entries for the status of this rule."""
        return [e for rule in self._rules.values() if rule.name == name for e in rule.entries()]

    def _begun(
        self, rule: NodeRemedier, nodes: set[str], before: Iterable[Inferring], now: datetime
    ) -> Inferring:
        made = Inferring(rule, nodes)
        same = [r for r in before if r.name == made.name and _alike(r, made)]
        if same:
            made.keep(same[0].list_ends(now))
        elif made.name not in self._started and made.infer.for_:
            again = now + made.infer.for_
            stored = [e for e in rule.status.inferred if e.value == made.infer.value]
            made.keep({(made.scope, e.group): min(e.until or again, again) for e in stored})
            if len(stored) >= MOST_ENTRIES:
                made.unsure_until = again
        return made

    def _timekeeper(self, group: Group, node: str) -> set[str]:
        """Return a node that notices when the group's fact ends, if this node has left
        the group.
        """
        members = self._members(group)
        return set() if node in members else set(islice(members, 1))

    def _place(self, node: str, rule: Inferring, match: Match | None) -> Place | None:
        group = self._group(node, rule.scope)
        if match is None or group is None:
            return None
        if match.agreement in (Agreement.DISPUTED, Agreement.TAINTED):
            return group, False
        if match.evidence is Truth.FALSE:
            return None
        agreed = match.agreement is Agreement.AGREED or self._enough
        return group, agreed and match.evidence is Truth.TRUE

    def _group(self, node: str, scope: str) -> Group | None:
        if scope == NODE:
            return NODE, node
        return next((g for g in self._fleet.groups(node) if g[0] == scope), None)

    def _members(self, group: Group) -> Collection[str]:
        return (group[1],) if group[0] == NODE else self._fleet.members(group)


def _alike(first: Inferring, other: Inferring) -> bool:
    a, b = first.infer, other.infer
    return (a.fact, a.scope, a.value) == (b.fact, b.scope, b.value)
