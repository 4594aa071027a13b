"""Records when the fault of a rule began on each node of a group, for counts `within` a time.

`rack.sameFault` with `within: 5m` counts the nodes of the rack on which all other leaves became
true in the last five minutes, also if the fault has ended since. A node counts once, at its last
beginning. Unknown evidence begins and ends nothing.

A fault that is there at the first evaluation of its node, as after a restart, began when the
youngest part of its evidence did. Evidence without a start time, such as Events, counts as old.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.leaves import AlertLeaf, ConditionLeaf, FactLeaf
from remedy.remedier.fleet import Group
from remedy.remedier.since import began
from rules.builtin import SAME_FAULT
from rules.facts import FactSet
from rules.history import DAWN
from rules.leaves.compare import within_truth
from rules.truth import Truth

Began = Callable[[str, NodeRemedier], datetime | None]
"""Returns when the evidence of a rule on a node became true; None: it has no start time."""


def windowed_leaves(rule: NodeRemedier) -> dict[str, tuple[FactLeaf, ...]]:
    """Return the comparisons of counts within a time, by scope."""
    by_scope: dict[str, tuple[FactLeaf, ...]] = {}
    for leaf in rule.spec.unwrap_leaves():
        if isinstance(leaf, FactLeaf) and leaf.name in SAME_FAULT and leaf.within is not None:
            scope = leaf.name.partition(".")[0]
            by_scope[scope] = (*by_scope.get(scope, ()), leaf)
    return by_scope


def became_true(rule: NodeRemedier, facts: FactSet) -> datetime | None:
    """Return when evidence that is true now became true by its start times and `for`."""
    since = began(rule, facts)
    durations = [
        leaf.for_ for leaf in rule.spec.when.leaves() if isinstance(leaf, ConditionLeaf | AlertLeaf)
    ]
    return None if since is None else since + max(durations, default=timedelta(0))


class Onsets:
    """Beginnings of the fault of one rule. version: changes with `of`."""

    def __init__(self, rule: NodeRemedier, leaves: Mapping[str, tuple[FactLeaf, ...]]) -> None:
        self._rule, self._leaves, self.version = rule, leaves, 0
        times = [leaf.within for group in leaves.values() for leaf in group if leaf.within]
        self._longest = max(times, default=timedelta(0))
        self._healthy: set[str] = set()
        """Nodes that are known not to have the fault."""
        self.faulty: set[str] = set()
        """Nodes that have the fault, or had it before it became unknown."""
        self._began: dict[str, datetime] = {}
        self._placed: dict[str, tuple[Group, ...]] = {}
        self._members: dict[Group, set[str]] = {}

    @property
    def scopes(self) -> Collection[str]:
        return self._leaves.keys()

    def of(self, group: Group) -> tuple[datetime, ...]:
        """Return the beginnings on nodes of the group, in order."""
        return tuple(sorted(self._began[node] for node in self._members.get(group, ())))

    def learned(
        self, node: str, groups: tuple[Group, ...], truth: Truth | None, now: datetime, began: Began
    ) -> set[str]:
        """Take in whether the node has the fault; return the nodes with a changed comparison.

        groups: the groups that count the node
        truth: the other leaves of the rule; None: the rule does not select the node
        """
        counted = tuple(group for group in groups if group[0] in self._leaves)
        placed = self._placed.get(node, ())
        lasts = truth is Truth.TRUE and node in self.faulty and counted == placed
        if truth is Truth.UNKNOWN or lasts:
            return set()
        affected = {*placed, *counted}
        before = {group: self._truths(group, now) for group in affected}
        self._record(node, truth, now, began)
        self._place(node, counted if node in self._began else ())
        changed = (group for group in affected if self._truths(group, now) != before[group])
        return {n for group in changed for n in self._members.get(group, ()) if n in self.faulty}

    def stepped(self, step: timedelta) -> None:
        """Keep the age of the beginnings after a step of the wall clock."""
        self._began = {node: at + step for node, at in self._began.items()}
        self.version += 1

    def _record(self, node: str, truth: Truth | None, now: datetime, began: Began) -> None:
        """Record the beginning of a fault. Forget one that no window reaches any more."""
        if truth is Truth.TRUE and node not in self.faulty:
            at = now if node in self._healthy else began(node, self._rule) or DAWN
            self._began[node] = min(at, now)
        old = self._began.get(node, now) <= now - self._longest
        if truth is None or (truth is Truth.FALSE and old):
            self._began.pop(node, None)
        for nodes, wanted in ((self._healthy, Truth.FALSE), (self.faulty, Truth.TRUE)):
            (nodes.add if truth is wanted else nodes.discard)(node)

    def _place(self, node: str, counted: tuple[Group, ...]) -> None:
        """Count the node in these groups and no other."""
        self.version += 1
        for group in self._placed.pop(node, ()):
            self._members[group].discard(node)
            if not self._members[group]:
                del self._members[group]
        for group in counted:
            self._members.setdefault(group, set()).add(node)
        if counted:
            self._placed[node] = counted

    def _truths(self, group: Group, now: datetime) -> tuple[Truth, ...]:
        onsets = self.of(group)
        return tuple(within_truth(leaf, onsets, now) for leaf in self._leaves.get(group[0], ()))
