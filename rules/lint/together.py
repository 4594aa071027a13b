"""Remarks on rules that duplicate or hide one another."""

import json
from collections.abc import Iterator, Mapping, Sequence

from kubenode.api.v1alpha1 import Expression, Mode, NodeRemedier
from rules.lint.finding import Remark

ACTING = (Mode.ENFORCE, Mode.APPROVE)
MOST_COMPARED = 64
"""Bound on rules with the same evidence that one is compared with, highest priority first."""
Named = tuple[str, Remark]


def remarks(rules: Sequence[NodeRemedier], known: Sequence[NodeRemedier]) -> Iterator[Named]:
    """Yield findings by rule name, for `rules` compared with one another and with `known`."""
    judged = {rule.metadata.name for rule in rules}
    others = (*rules, *(other for other in known if other.metadata.name not in judged))
    enough: dict[str, list[NodeRemedier]] = {}
    for other in filter(_competes, others):
        for text in _enough(other.spec.when):
            enough.setdefault(text, []).append(other)
    for several in enough.values():
        several.sort(key=lambda other: -other.spec.priority)
    for rule in filter(_competes, rules):
        if (remark := _against(rule, enough)) is not None:
            yield rule.metadata.name, remark


def _competes(rule: NodeRemedier) -> bool:
    return rule.spec.ladder is not None and rule.spec.mode is not Mode.OFF


def _against(rule: NodeRemedier, enough: Mapping[str, list[NodeRemedier]]) -> Remark | None:
    """Return a remark for the first rule that matches whenever this one does and has precedence."""
    whole = _evidence(rule.spec.when)
    for text in _needed(rule.spec.when):
        for other in enough.get(text, ())[:MOST_COMPARED]:
            if other.spec.priority < rule.spec.priority:
                break
            if other is rule or not _covers(other, rule):
                continue
            name, mine, theirs = other.metadata.name, rule.spec.priority, other.spec.priority
            if mine == theirs and whole == _evidence(other.spec.when):
                return (
                    "spec.when",
                    "duplicate",
                    f"{name} asks for the same evidence at the same priority {mine}: delete one, or"
                    " change a priority",
                )
            acts = other.spec.mode in ACTING or rule.spec.mode is other.spec.mode
            if mine < theirs and acts:
                return (
                    "spec.when",
                    "shadowed",
                    f"{name} matches whenever this rule does, at priority {theirs}, so this one at"
                    f" {mine} is never chosen: give it a higher priority, or delete it",
                )
    return None


def _covers(other: NodeRemedier, rule: NodeRemedier) -> bool:
    """Return whether `other` certainly selects every node of `rule` and has no other guards."""
    same = other.spec.nodes == rule.spec.nodes
    everyone = other.spec.nodes.all is True and other.spec.nodes.exclude is None
    return (same or everyone) and other.spec.unless in (None, rule.spec.unless)


def _needed(when: Expression) -> Iterator[str]:
    """Yield texts of what must be true for `when`: itself, and each member of an `all`."""
    yield _evidence(when)
    for member in when.all or ():
        yield from _needed(member)


def _enough(when: Expression) -> Iterator[str]:
    """Yield texts of what makes `when` true: itself, and each member of an `any`."""
    yield _evidence(when)
    for member in when.any or ():
        yield from _enough(member)


def _evidence(expression: Expression) -> str:
    """Return a text that is equal for equal evidence, whatever the order of its members."""
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
