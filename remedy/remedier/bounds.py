"""Wakes the nodes of a group when a figure of it passes a value that some rule compares it with.

It covers figures such as `zone.unhealthyRatio` in the evidence of rules; guards are read before
each act anyway. So no periodic evaluation of every node is needed.
"""

from collections.abc import Iterable, Mapping

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.leaves import FactLeaf
from remedy.remedier.fleet import Group, NodeGroups, figures
from remedy.remedier.values import OF_THE_FLEET
from rules.atoms import compares
from rules.truth import Truth


class RuleBounds:
    """Bounds of all loaded rules."""

    def __init__(self, fleet: NodeGroups) -> None:
        self._fleet = fleet
        self._leaves: dict[str, dict[str, FactLeaf]] = {}
        """Comparisons by scope, each distinct one once."""
        self._truths: dict[Group, tuple[Truth, ...]] = {}

    def rules_loaded(self, rules: Mapping[str, NodeRemedier]) -> None:
        self._leaves, self._truths = {}, {}
        for rule in rules.values():
            for leaf in rule.spec.when.unwrap_leaves():
                if isinstance(leaf, FactLeaf) and leaf.name in OF_THE_FLEET:
                    scope = leaf.name.partition(".")[0]
                    self._leaves.setdefault(scope, {})[leaf.model_dump_json()] = leaf
        for group in self._fleet.all():
            self.passed((group,))

    def passed(self, groups: Iterable[Group]) -> set[str]:
        """Return the nodes of those groups of which a figure has passed a bound."""
        woken: set[str] = set()
        for group in groups:
            leaves = self._leaves.get(group[0])
            if leaves is None:
                continue
            values = figures(self._fleet.count(group))
            truths = tuple(
                compares(leaf, values[leaf.name.partition(".")[2]]) for leaf in leaves.values()
            )
            if truths != self._truths.get(group):
                self._truths[group] = truths
                woken.update(self._fleet.members(group))
        return woken
