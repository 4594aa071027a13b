"""What rules do to one another: duplicates, and rules that are never chosen."""

import json
from collections.abc import Iterator, Sequence

from kubenode.api.v1alpha1 import Expression, Mode, NodeRemedier
from rules.lint.finding import Remark

ACTING = (Mode.ENFORCE, Mode.APPROVE)
Named = tuple[str, Remark]


def remarks(rules: Sequence[NodeRemedier], known: Sequence[NodeRemedier]) -> Iterator[Named]:
    """Findings of `rules` by name, against one another and against `known`."""
    alike: dict[str, list[NodeRemedier]] = {}
    judged = {rule.metadata.name for rule in rules}
    for rule in (*rules, *(other for other in known if other.metadata.name not in judged)):
        if rule.spec.ladder is not None and rule.spec.mode is not Mode.OFF:
            alike.setdefault(_evidence(rule.spec.when), []).append(rule)
    for several in alike.values():
        for rule in several:
            if len(several) > 1 and rule.metadata.name in judged:
                yield from ((rule.metadata.name, found) for found in _among(rule, several))


def _among(rule: NodeRemedier, several: Sequence[NodeRemedier]) -> Iterator[Remark]:
    for other in several:
        if other is rule or not _covers(other, rule):
            continue
        name, mine, theirs = other.metadata.name, rule.spec.priority, other.spec.priority
        if mine == theirs:
            yield (
                "spec.when",
                "duplicate",
                f"{name} asks for the same evidence at the same priority {mine}: delete one, or"
                " change a priority",
            )
            return
        if mine < theirs and (other.spec.mode in ACTING or rule.spec.mode is other.spec.mode):
            yield (
                "spec.when",
                "shadowed",
                f"{name} asks for the same evidence at priority {theirs}, so this rule at {mine} is"
                " never chosen: delete one of them, or make their evidence differ",
            )
            return


def _covers(other: NodeRemedier, rule: NodeRemedier) -> bool:
    """Whether `other` certainly means every node that `rule` means, and never steps aside."""
    same = other.spec.nodes == rule.spec.nodes
    everyone = other.spec.nodes.all is True and other.spec.nodes.exclude is None
    return (same or everyone) and other.spec.unless in (None, rule.spec.unless)


def _evidence(expression: Expression) -> str:
    """One text for evidence that asks the same, whatever the order of its members."""
    return json.dumps(_canonical(expression.to_dict()), sort_keys=True)


def _canonical(value: object) -> object:
    if isinstance(value, dict):
        if len(value) == 1 and (key := next(iter(value))) in ("all", "any"):
            members = [_canonical(member) for member in value[key]]
            if len(members) == 1:
                return members[0]
            return {key: sorted(members, key=lambda m: json.dumps(m, sort_keys=True))}
        return {key: _canonical(inner) for key, inner in value.items()}
    return value
