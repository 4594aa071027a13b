"""Selects the rules for a node, in the order of choice.

The result depends only on labels that a selector names, so that a fleet has few different
selections.
"""

from collections.abc import Mapping, Sequence

from kubenode.api.meta import NodeSelection
from rules.match import Match
from rules.program import CompiledRule, RuleProgram

MOST_SELECTIONS = 4096
MOST_LEAVES = 1 << 12
"""More leaves than a rule may have, so that true leaves never outweigh a step of priority."""


class RuleSelection:
    """The rules that select a node, and the atoms that they read."""

    def __init__(self, rules: Sequence[CompiledRule], atoms: int) -> None:
        self._rules = sorted(rules, key=_age)
        self._weights = [-rule.rule.remedier.spec.priority * MOST_LEAVES for rule in self._rules]
        self.numbers = frozenset(rule.number for rule in rules)
        self.atoms = frozenset(slot for rule in rules for slot in rule.slots if slot < atoms)

    def ordered(self, matches: Sequence[Match | None]) -> tuple[Match, ...]:
        """Order `matches` (indexed by number of the rule) by priority, most true leaves, name,
        age.
        """
        weighted = []
        for weight, rule in zip(self._weights, self._rules, strict=True):
            match = matches[rule.number]
            assert match is not None
            weighted.append((weight - match.true_leaves, match))
        weighted.sort(key=_weight)
        return tuple([match for _, match in weighted])


class Selections:
    def __init__(self, program: RuleProgram) -> None:
        self._program = program
        self._keys = sorted({key for rule in program.rules for key in _keys(rule)})
        self._by_labels: dict[tuple[str | None, ...], RuleSelection] = {}
        self._by_rules: dict[frozenset[int], RuleSelection] = {}

    def of(self, labels: Mapping[str, str]) -> RuleSelection:
        key = tuple([labels.get(name) for name in self._keys])
        selection = self._by_labels.get(key)
        if selection is None:
            if len(self._by_labels) >= MOST_SELECTIONS:
                self._by_labels.clear()
                self._by_rules.clear()
            selection = self._by_labels[key] = self._made(labels)
        return selection

    def _made(self, labels: Mapping[str, str]) -> RuleSelection:
        have = dict(labels)
        rules = [r for r in self._program.rules if r.rule.remedier.spec.nodes.matches(have)]
        numbers = frozenset(rule.number for rule in rules)
        selection = self._by_rules.get(numbers)
        if selection is None:
            selection = self._by_rules[numbers] = RuleSelection(rules, len(self._program.atoms))
        return selection


def _keys(rule: CompiledRule) -> set[str]:
    """Return the labels that decide whether the rule selects a node."""
    return label_keys(rule.rule.remedier.spec.nodes)


def label_keys(nodes: NodeSelection) -> set[str]:
    """Return the labels that decide whether the selection contains a node."""
    selectors = [s for s in (nodes.selector, nodes.exclude) if s is not None]
    keys = {requirement.key for s in selectors for requirement in s.match_expressions}
    return keys.union(*(s.match_labels for s in selectors))


def _age(rule: CompiledRule) -> tuple[str, int]:
    """Return the sort key: by name, then the older generation first."""
    name, _, generation = rule.id.partition("@")
    return name, int(generation) if generation.isdecimal() else 0


def _weight(entry: tuple[int, Match]) -> int:
    return entry[0]
