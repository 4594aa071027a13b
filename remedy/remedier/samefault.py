"""Counts the nodes of a group that have the fault of a rule, as nodes are evaluated.

A node has the fault when all leaves of a rule's `when` except the counts themselves are known true
on it. A node with unknown leaves, because its reports are stale, does not count. A count is unknown
until the rule has evaluated every node once, since a half counted group looks harmless.

A changed count matters only when it passes a number that the rule compares it with. Only then the
nodes of the group that have the fault are evaluated again: 500 nodes that fail at once wake each
other once.

Nodes of the same groups share one mapping, so that thousands of fact sets hold it once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.leaves import FactLeaf
from remedy.remedier.fleet import Group, NodeGroups
from remedy.remedier.onsets import Began, Onsets, windowed_leaves
from rules.atoms import compares
from rules.builtin import SAME_FAULT
from rules.diagnose import Match
from rules.truth import Truth

MOST_CACHED = 4096
"""Most combinations of groups for which a result is cached."""


@dataclass(slots=True)
class _Rule:
    """Counts of one rule.

    leaves: by scope, how the rule compares the count
    onsets: beginnings of the fault, for counts within a time; None: the rule has no such count
    waiting: nodes that it has not evaluated yet
    having: nodes that have the fault, with the groups that count them
    version: changes whenever a count changes or becomes known
    """

    leaves: Mapping[str, tuple[FactLeaf, ...]]
    waiting: set[str]
    onsets: Onsets | None = None
    having: dict[str, tuple[Group, ...]] = field(default_factory=dict)
    members: dict[Group, set[str]] = field(default_factory=dict)
    version: int = 0

    @property
    def state(self) -> tuple[int, int]:
        """Changes with every change of what is counted."""
        return self.version, self.onsets.version if self.onsets is not None else 0

    def count(self, group: Group) -> int:
        return len(self.members.get(group, ()))

    def have(self, node: str, groups: tuple[Group, ...]) -> set[str]:
        """Count the node in these groups and no other; return the nodes to evaluate again."""
        before = self.having.get(node, ())
        counted = tuple(group for group in groups if group[0] in self.leaves)
        if before == counted:
            return set()
        woken: set[str] = set()
        for group in set(before) - set(counted):
            woken |= self._moved(group, node, -1)
        for group in set(counted) - set(before):
            woken |= self._moved(group, node, 1)
        if counted:
            self.having[node] = counted
        else:
            del self.having[node]
        return woken

    def _moved(self, group: Group, node: str, by: int) -> set[str]:
        members = self.members.setdefault(group, set())
        was = len(members)
        self.version += 1
        (members.add if by > 0 else members.discard)(node)
        if not members:
            del self.members[group]
        flips = any(compares(f, was) is not compares(f, was + by) for f in self.leaves[group[0]])
        return set(members) if flips and not self.waiting else set()

    def judged(self, node: str) -> set[str]:
        """Record that the rule evaluated the node; after the last one all counts are known. Return
        the nodes to evaluate again.
        """
        if node not in self.waiting:
            return set()
        self.waiting.discard(node)
        if self.waiting:
            return set()
        self.waiting.clear()  # an emptied set keeps its table: 512 KB for 10,000 nodes
        self.version += 1
        return set(self.having) | (self.onsets.faulty if self.onsets is not None else set())


class SameFaults:
    """Counts of all rules that use them."""

    def __init__(self, fleet: NodeGroups) -> None:
        self._fleet = fleet
        self._rules: dict[str, _Rule] = {}
        self._cached_counts = lru_cache(maxsize=MOST_CACHED)(self._counted)
        """Cached counts by groups, until a count changes."""
        self._cached_onsets = lru_cache(maxsize=MOST_CACHED)(self._began)
        """Cached beginnings by groups, until one changes."""

    def rules_loaded(self, rules: Mapping[str, NodeRemedier], nodes: Iterable[str]) -> None:
        """Take in the loaded rules. A version that stays loaded keeps its counts."""
        names = set(nodes)
        retained = {id_: rule for id_, rule in self._rules.items() if id_ in rules}
        for id_, rule in rules.items():
            if id_ in retained:
                continue
            leaves, windowed = _counts(rule), windowed_leaves(rule)
            if leaves or windowed:
                onsets = Onsets(rule, windowed) if windowed else None
                retained[id_] = _Rule(leaves, set(names), onsets)
        self._rules = retained
        self._clear()

    @property
    def unjudged(self) -> int:
        return sum(bool(rule.waiting) for rule in self._rules.values())

    def learned(
        self,
        node: str,
        matches: Mapping[str, Match],
        now: datetime,
        began: Began = lambda node, rule: None,
    ) -> set[str]:
        """Take in the diagnosis of a node; return the nodes to evaluate again, perhaps the same one
        too.

        began: returns when evidence that is there at the first evaluation became true
        """
        woken: set[str] = set()
        groups = self._fleet.groups(node)
        for id_, rule in self._rules.items():
            match = matches.get(id_)
            has = match is not None and match.others is Truth.TRUE
            version = rule.state
            woken |= rule.have(node, groups if has else ())
            if rule.onsets is not None:
                truth = match.others if match is not None else None
                changed = rule.onsets.learned(node, groups, truth, now, began)
                woken |= changed if not rule.waiting else set()
            woken |= rule.judged(node)
            if rule.state != version:
                self._clear()
        return woken

    def stepped(self, step: timedelta) -> None:
        """Keep the age of beginnings after a step of the wall clock."""
        for rule in self._rules.values():
            if rule.onsets is not None:
                rule.onsets.stepped(step)
                self._clear()

    def onsets(self, node: str) -> Mapping[str, Mapping[str, tuple[datetime, ...]]]:
        """Return when the fault began on nodes of the node's groups, by rule id and scope. Callers
        must not change the mapping, which is shared.
        """
        return self._cached_onsets(self._fleet.groups(node))

    def _began(self, groups: tuple[Group, ...]) -> Mapping[str, Mapping[str, tuple[datetime, ...]]]:
        return {
            id_: {g[0]: rule.onsets.of(g) for g in groups if g[0] in rule.onsets.scopes}
            for id_, rule in self._rules.items()
            if rule.onsets is not None and not rule.waiting
        }

    def _clear(self) -> None:
        self._cached_counts.cache_clear()
        self._cached_onsets.cache_clear()

    def counts(self, node: str) -> Mapping[str, Mapping[str, int]]:
        """Return the counts by rule id and scope, for the groups of the node. Callers must not
        change the mapping, which is shared.
        """
        return self._cached_counts(self._fleet.groups(node))

    def _counted(self, groups: tuple[Group, ...]) -> Mapping[str, Mapping[str, int]]:
        return {
            id_: {group[0]: rule.count(group) for group in groups if group[0] in rule.leaves}
            for id_, rule in self._rules.items()
            if not rule.waiting
        }


def _counts(rule: NodeRemedier) -> dict[str, tuple[FactLeaf, ...]]:
    """Return the comparisons of counts in the evidence or the guards of a rule, by scope."""
    by_scope: dict[str, tuple[FactLeaf, ...]] = {}
    for leaf in rule.spec.unwrap_leaves():
        if isinstance(leaf, FactLeaf) and leaf.name in SAME_FAULT and leaf.within is None:
            scope = leaf.name.partition(".")[0]
            by_scope[scope] = (*by_scope.get(scope, ()), leaf)
    return by_scope
