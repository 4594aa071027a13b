"""How many nodes of a group have the fault that a rule describes: counted as nodes are judged.

A node has the fault when all leaves of a rule's `when` but the counts themselves are plain true on
it. One on which they are unknown, because its reports are stale, does not count. Nobody knows a
count before every node was judged once by the rule, since a half counted group looks harmless.

A count matters to nobody until it passes a number that the rule compares it with. Only then the
nodes of the group have to look again, and only those that have the fault: 500 nodes that fail at
once wake each other once.

Nodes of the same groups are told one and the same mapping: whoever remembers what thousands of them
were told holds it once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.leaves import FactLeaf
from remedy.remedier.fleet import Group, NodeGroups
from rules.atoms import compares
from rules.builtin import SAME_FAULT
from rules.diagnose import Match
from rules.truth import Truth

MOST_TOLD = 4096
"""Different groups of nodes for which an answer is remembered."""


@dataclass(slots=True)
class _Rule:
    """leaves   by scope: how the rule compares the count
    waiting  nodes that it has not judged yet
    having   nodes that have the fault, with the groups that they were counted in
    version  another one whenever some count is, or becomes known
    """

    leaves: Mapping[str, tuple[FactLeaf, ...]]
    waiting: set[str]
    having: dict[str, tuple[Group, ...]] = field(default_factory=dict)
    members: dict[Group, set[str]] = field(default_factory=dict)
    version: int = 0

    def count(self, group: Group) -> int:
        return len(self.members.get(group, ()))

    def have(self, node: str, groups: tuple[Group, ...]) -> set[str]:
        """Count the node in these groups and in no other; who has to look again."""
        before = self.having.get(node, ())
        asked = tuple(group for group in groups if group[0] in self.leaves)
        if before == asked:
            return set()
        woken: set[str] = set()
        for group in set(before) - set(asked):
            woken |= self._moved(group, node, -1)
        for group in set(asked) - set(before):
            woken |= self._moved(group, node, 1)
        if asked:
            self.having[node] = asked
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
        """The node needs no more waiting for; once nobody does, all counts are known."""
        if node not in self.waiting:
            return set()
        self.waiting.discard(node)
        if self.waiting:
            return set()
        self.waiting.clear()  # an emptied set keeps its table: 512 KB for 10,000 nodes
        self.version += 1
        return set(self.having)


class SameFaults:
    def __init__(self, fleet: NodeGroups) -> None:
        self._fleet = fleet
        self._rules: dict[str, _Rule] = {}
        self._told = lru_cache(maxsize=MOST_TOLD)(self._counted)
        """What nodes of these groups are told, until a count changes."""

    def rules_loaded(self, rules: Mapping[str, NodeRemedier], nodes: Iterable[str]) -> None:
        """What was counted for a version of a rule that stays loaded is kept."""
        names = set(nodes)
        kept = {id_: rule for id_, rule in self._rules.items() if id_ in rules}
        for id_, rule in rules.items():
            if id_ not in kept and (leaves := _counts(rule)):
                kept[id_] = _Rule(leaves, set(names))
        self._rules = kept
        self._told.cache_clear()

    @property
    def unjudged(self) -> int:
        return sum(bool(rule.waiting) for rule in self._rules.values())

    def learned(self, node: str, matches: Mapping[str, Match]) -> set[str]:
        """What each rule says of a node; which nodes have to look again, it may be one of them."""
        woken: set[str] = set()
        groups = self._fleet.groups(node)
        for id_, rule in self._rules.items():
            match = matches.get(id_)
            has = match is not None and match.others is Truth.TRUE
            version = rule.version
            woken |= rule.have(node, groups if has else ())
            woken |= rule.judged(node)
            if rule.version != version:
                self._told.cache_clear()
        return woken

    def counts(self, node: str) -> Mapping[str, Mapping[str, int]]:
        """By rule id and scope, for the groups of the node. Not to be changed: others have it."""
        return self._told(self._fleet.groups(node))

    def _counted(self, groups: tuple[Group, ...]) -> Mapping[str, Mapping[str, int]]:
        return {
            id_: {group[0]: rule.count(group) for group in groups if group[0] in rule.leaves}
            for id_, rule in self._rules.items()
            if not rule.waiting
        }


def _counts(rule: NodeRemedier) -> dict[str, tuple[FactLeaf, ...]]:
    """The comparisons of counts in the evidence or the guards of a rule, by scope."""
    found: dict[str, tuple[FactLeaf, ...]] = {}
    for leaf in rule.spec.asked():
        if isinstance(leaf, FactLeaf) and leaf.name in SAME_FAULT:
            scope = leaf.name.partition(".")[0]
            found[scope] = (*found.get(scope, ()), leaf)
    return found
