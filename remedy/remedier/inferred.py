"""Derived facts of a rack, a zone, the cluster: inferred on one node, read by all of the group.

A rule with `infer` and a scope wider than Node says of each node whether its evidence is there.
The fact holds for the group while it is there on any node, and for the rule's `for` after it last
was. Nobody knows it before every node was judged once by the rule. Where only nodes about which
the engines do not agree speak for it, it is unknown.

What is kept for a time outlives a restart in the status of the rule (`entries`, `rules_loaded`).
An entry changes when evidence comes, goes or has been gone for long enough, never with the clock.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.noderemedier import Infer, InferredFact, Scope
from remedy.remedier.fleet import CLUSTER, Fleet, Group
from rules.diagnose import Agreement, Match
from rules.facts import Value
from rules.truth import Truth

GROUP_OF = {
    Scope.RACK: "rack",
    Scope.ZONE: "zone",
    Scope.POOL: "pool",
    Scope.CLUSTER: "cluster",
    Scope.KERNEL: "kernel",
    Scope.IMAGE: "image",
    Scope.COMPONENT_REVISION: "componentRevision",
}
"""Scope Node is not here: the engines chain such facts themselves."""
MOST_ENTRIES = 64

Place = tuple[Group, bool]
"""A group for which a node is evidence, and whether both engines agree about it."""


class Inferring:
    """One rule. `waiting`: nodes that it has not judged yet."""

    def __init__(self, rule: NodeRemedier, waiting: Iterable[str]) -> None:
        assert rule.spec.infer is not None
        self.name, self.priority = rule.metadata.name, rule.spec.priority
        self.infer: Infer = rule.spec.infer
        self.scope = GROUP_OF[self.infer.scope]
        self.waiting = set(waiting)
        self.until: dict[Group, datetime] = {}
        """How long the fact is kept for a group although its evidence is gone."""
        self.version = 0
        """Grows with each change of `entries`."""
        self._there: dict[Place, set[str]] = {}
        self._of: dict[str, Place] = {}

    def truth(self, group: Group, now: datetime) -> Truth:
        if (group, True) in self._there or now < self.until.get(group, now):
            return Truth.TRUE
        doubted = (group, False) in self._there
        return Truth.UNKNOWN if doubted or self.waiting else Truth.FALSE

    def count(self, node: str, place: Place | None, now: datetime) -> set[Group]:
        """The node is evidence there and nowhere else; groups of which the truth changed."""
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

    def judged(self, node: str) -> bool:
        """Whether this was the last node that was waited for."""
        if node not in self.waiting:
            return False
        self.waiting.discard(node)
        return not self.waiting

    def expired(self, now: datetime) -> set[Group]:
        over = {group for group, at in self.until.items() if at <= now}
        for group in over:
            del self.until[group]
            self.version += 1
        return over

    def keep(self, until: Mapping[Group, datetime]) -> None:
        """What an earlier version or an earlier run of us had found."""
        self.until = dict(until)

    @property
    def holding(self) -> int:
        return len(self.until) + sum(agreed for _, agreed in self._there)

    def kept(self, now: datetime) -> dict[Group, datetime]:
        """By group until when the fact holds if no evidence comes any more."""
        there = {group: now + self.infer.for_ for group, agreed in self._there if agreed}
        return {**self.until, **there} if self.infer.for_ else {}

    def entries(self) -> list[InferredFact]:
        """Evidence that is there has no end; those kept longest come first."""
        if not self.infer.for_:
            return []
        found: list[tuple[str, datetime | None]]
        found = sorted((group[1], None) for group, agreed in self._there if agreed)
        ends = sorted(self.until.items(), key=lambda e: (-e[1].timestamp(), e[0]))
        found += [(group[1], until) for group, until in ends]
        value = self.infer.value
        return [InferredFact(group=g, value=value, until=u) for g, u in found[:MOST_ENTRIES]]

    def _enter(self, node: str, place: Place) -> None:
        self._of[node] = place
        if place not in self._there:
            self._there[place] = set()
            self.version += 1
        self._there[place].add(node)
        if place[1]:
            self.until.pop(place[0], None)

    def _leave(self, node: str, place: Place, now: datetime) -> None:
        del self._of[node]
        self._there[place].discard(node)
        if self._there[place]:
            return
        del self._there[place]
        self.version += 1
        if place[1] and self.infer.for_:
            self.until[place[0]] = now + self.infer.for_


class WideFacts:
    """one_engine_is_enough  the operator's policy `reference`
    changed  called with the name of a rule whose `entries` are others now
    """

    def __init__(self, fleet: Fleet, one_engine_is_enough: bool = False) -> None:
        self._fleet = fleet
        self._enough = one_engine_is_enough
        self._rules: dict[str, Inferring] = {}
        self._by_fact: dict[str, list[Inferring]] = {}
        self._started: set[str] = set()
        """Names of the rules that were loaded before: their status tells us nothing new."""
        self.changed: Callable[[str], None] = lambda name: None

    def rules_loaded(
        self, rules: Mapping[str, NodeRemedier], nodes: Iterable[str], now: datetime
    ) -> None:
        """A version that stays keeps what it knows; a new one keeps what was to be kept, and so do
        we after a restart.
        """
        names, before, self._rules = set(nodes), self._rules, {}
        for id_, rule in rules.items():
            infer = rule.spec.infer
            if infer is None or infer.scope not in GROUP_OF:
                continue
            self._rules[id_] = before.get(id_) or self._begun(rule, names, before.values(), now)
        self._started = {rule.name for rule in self._rules.values()}
        self._by_fact = {}
        for each in sorted(self._rules.values(), key=lambda r: (-r.priority, r.name)):
            self._by_fact.setdefault(each.infer.fact, []).append(each)

    @property
    def unjudged(self) -> int:
        return sum(bool(rule.waiting) for rule in self._rules.values())

    def learned(self, node: str, matches: Mapping[str, Match], now: datetime) -> set[str]:
        """What each rule says of a node; which nodes have to look again."""
        woken: set[str] = set()
        for id_, rule in self._rules.items():
            version = rule.version
            place = self._place(node, rule, matches.get(id_))
            for group in rule.count(node, place, now) | rule.expired(now):
                woken.update(self._fleet.members(group))
            if rule.judged(node):
                woken.update(self._fleet.members(CLUSTER))
            if rule.version != version:
                self.changed(rule.name)
                woken |= self._timekeepers(rule, node)
        return woken

    def values(self, node: str, now: datetime) -> Mapping[str, Value | None]:
        """None: unknown. A fact for which nothing speaks is False, also of a node in no group."""
        if not self._rules:
            return {}
        groups = {group[0]: group for group in self._fleet.groups(node)}
        return {fact: _value(rules, groups, now) for fact, rules in self._by_fact.items()}

    def changes_at(self, node: str) -> datetime | None:
        """When the next fact of the node's groups is kept no longer."""
        if not self._rules:
            return None
        groups = self._fleet.groups(node)
        times = (rule.until.get(group) for rule in self._rules.values() for group in groups)
        return min((at for at in times if at is not None), default=None)

    def loaded(self, name: str) -> bool:
        """Whether a rule of this name infers a fact of a group."""
        return name in self._started

    @property
    def holding(self) -> int:
        """Groups of which a fact holds, also of those that are kept without evidence."""
        return sum(rule.holding for rule in self._rules.values())

    def entries(self, name: str) -> list[InferredFact]:
        """What the status of this rule has to say."""
        return [e for rule in self._rules.values() if rule.name == name for e in rule.entries()]

    def _begun(
        self, rule: NodeRemedier, nodes: set[str], before: Iterable[Inferring], now: datetime
    ) -> Inferring:
        made = Inferring(rule, nodes)
        same = [r for r in before if r.name == made.name and _alike(r, made)]
        if same:
            made.keep(same[0].kept(now))
        elif made.name not in self._started and made.infer.for_:
            again = now + made.infer.for_
            said = [e for e in rule.status.inferred if e.value == made.infer.value]
            made.keep({(made.scope, e.group): min(e.until or again, again) for e in said})
        return made

    def _timekeepers(self, rule: Inferring, node: str) -> set[str]:
        """One node of each group that this one has left, to notice the end of what is kept."""
        left = [self._fleet.members(group) for group in rule.until]
        return {next(iter(members)) for members in left if members and node not in members}

    def _place(self, node: str, rule: Inferring, match: Match | None) -> Place | None:
        if match is None:
            return None
        group = next((g for g in self._fleet.groups(node) if g[0] == rule.scope), None)
        if group is None:
            return None
        if match.agreement in (Agreement.DISPUTED, Agreement.TAINTED):
            return group, False
        if match.evidence is not Truth.TRUE:
            return None
        return group, match.agreement is Agreement.AGREED or self._enough


def _alike(one: Inferring, other: Inferring) -> bool:
    a, b = one.infer, other.infer
    return (a.fact, a.scope, a.value) == (b.fact, b.scope, b.value)


def _value(rules: Sequence[Inferring], groups: Mapping[str, Group], now: datetime) -> Value | None:
    """Of several rules that say something the one with the highest priority decides."""
    truths = [
        rule.truth(groups[rule.scope], now) if rule.scope in groups else Truth.FALSE
        for rule in rules
    ]
    for rule, truth in zip(rules, truths, strict=True):
        if truth is Truth.TRUE:
            return rule.infer.value
    if Truth.UNKNOWN in truths or any(rule.infer.value is False for rule in rules):
        return None
    return False
