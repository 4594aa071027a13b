"""Remarks on evidence and guards that do not mean what their author expects."""

from collections.abc import Iterator

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Disruption, Expression, NodeRemedier
from kubenode.api.v1alpha1.ladder import only_notifies
from kubenode.api.v1alpha1.leaves import (
    AnnotationLeaf,
    ConditionLeaf,
    EventLeaf,
    FactLeaf,
    Leaf,
    TaintLeaf,
)
from rules.builtin import SAME_FAULT
from rules.lint.conditions import KNOWN, LATCHED, near
from rules.lint.finding import Remark
from rules.lint.name_tables import split_names
from rules.lint.proof import Inferred
from rules.lint.walk import LeafPlace, field_of, members, places
from rules.polarity import HEALTHY_WHEN_TRUE

GUARDS = split_names(
    "maintenance.active time.inWindow node.foreignOwner node.cordonedBy node.attempts24h"
    " node.lastRepairAgo"
)
GUARD_ENDS = (".unhealthy", ".unhealthyRatio")
GUARD_MARKS = frozenset(
    {"kubenode.io/maintenance-until", "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"}
)
LONGEST_AGE_S = 3600


def remarks(rule: NodeRemedier, inferred: Inferred, conditions: frozenset[str]) -> Iterator[Remark]:
    spec = rule.spec
    acts = spec.disruption_class is not Disruption.NONE
    evidence = list(places(spec.when, "spec.when"))
    guards = list(places(spec.unless, "spec.unless")) if spec.unless is not None else []
    if spec.ladder is not None:
        yield from _guards_taken_for_evidence(evidence, inferred)
    if acts and spec.unless is None:
        yield (
            "spec",
            "no-guards",
            "the rule has no guards: add unless with maintenance.active and node.foreignOwner",
        )
    if spec.unless is not None:
        yield from _check_self_block(spec.when, spec.unless)
    yield from _windows(guards)
    if spec.once is None and only_notifies(spec.ladder or []):
        yield from _notices(evidence)
    for place in (*evidence, *guards):
        if isinstance(place.leaf, ConditionLeaf):
            yield from _condition(place, place.leaf, conditions)
    if acts:
        for place in evidence:
            yield from _acting_on(place)
    for number, rung in enumerate(spec.ladder or []):
        if rung.verify.cleared is not None:
            path = f"spec.ladder[{number}].verify.cleared"
            yield from _proof(list(places(rung.verify.cleared, path)), conditions)


def _windows(guards: list[LeafPlace]) -> Iterator[Remark]:
    for place in guards:
        leaf = place.leaf
        if isinstance(leaf, FactLeaf) and leaf.name == "time.inWindow" and place.negated:
            yield (
                place.path,
                "window-as-guard",
                "a guard under not says when the rule may act: write window on the rule or rung",
            )


def _notices(evidence: list[LeafPlace]) -> Iterator[Remark]:
    for place in evidence:
        leaf = place.leaf
        if isinstance(leaf, FactLeaf) and leaf.name in SAME_FAULT and leaf.above is not None:
            group = leaf.name.partition(".")[0]
            per = group[0].upper() + group[1:]
            yield (
                place.path,
                "notice-per-node",
                f"each node of the {group} gets a notification of its own: write once:"
                f" {{per: {'VMHost' if group == 'vmHost' else per}}}",
            )
            return


def _proof(cleared: list[LeafPlace], conditions: frozenset[str]) -> Iterator[Remark]:
    """Yield remarks on verify.cleared, which must ask for health and not for a guard."""
    for place in cleared:
        leaf = place.leaf
        if name := _guard(leaf):
            yield (
                place.path,
                "guard-in-evidence",
                f"{name} is a guard and no proof: when it changes, the node would count as healed:"
                " ask for what is so when the fault is gone",
            )
        elif isinstance(leaf, ConditionLeaf):
            ill = leaf.type in KNOWN and leaf.status != _healthy(leaf)
            if ill and not place.negated:
                yield (
                    f"{place.path}.status",
                    "polarity",
                    f"{leaf.type} is healthy when {_healthy(leaf)}: the repair would be proven by"
                    " the fault: check the status",
                )
            yield from _known(place, leaf, conditions)


def _healthy(leaf: ConditionLeaf) -> str:
    return "True" if leaf.type in HEALTHY_WHEN_TRUE else "False"


def _guards_taken_for_evidence(evidence: list[LeafPlace], inferred: Inferred) -> Iterator[Remark]:
    for place in evidence:
        if name := _guard(place.leaf):
            yield (
                place.path,
                "guard-in-evidence",
                f"{name} is a guard: when it changes, the node would count as healed: move it to"
                " unless",
            )
        elif isinstance(place.leaf, FactLeaf) and (guard := _behind(place.leaf.name, inferred)):
            yield (
                place.path,
                "guard-behind-fact",
                f"{place.leaf.name} is derived of the guard {guard}: when that changes, the node"
                " would count as healed: ask the guard in unless instead",
            )


def _guard(leaf: Leaf) -> str:
    """Return the guard's name; "" if the leaf is no guard."""
    match leaf:
        case FactLeaf() if leaf.name in GUARDS or leaf.name.endswith(GUARD_ENDS):
            return f"fact {leaf.name}"
        case AnnotationLeaf() | TaintLeaf() if leaf.key in GUARD_MARKS:
            return leaf.key
        case _:
            return ""


def _behind(name: str, inferred: Inferred, visited: frozenset[str] = frozenset()) -> str:
    """Return a guard among the leaves that the derived fact depends on; "" if there is none.

    Counts and shares of unhealthy nodes are ignored: a fact about a group may depend on them.
    """
    if name not in inferred or name in visited:
        return ""
    for place in places(inferred[name], ""):
        leaf = place.leaf
        if isinstance(leaf, FactLeaf) and leaf.name.endswith(GUARD_ENDS):
            continue
        if guard := _guard(leaf):
            return guard
        if isinstance(leaf, FactLeaf) and (guard := _behind(leaf.name, inferred, visited | {name})):
            return guard
    return ""


def _check_self_block(when: Expression, unless: Expression) -> Iterator[Remark]:
    needed = {_text(leaf) for leaf, _ in _each(when, "spec.when", "all")}
    for leaf, path in _each(unless, "spec.unless", "any"):
        if _text(leaf) in needed:
            yield (
                path,
                "evidence-in-guards",
                "the same leaf is needed in when: the rule can never act: take it out of unless",
            )


def _each(expression: Expression, path: str, op: str) -> Iterator[tuple[Expression, str]]:
    """Yield the leaves that are under nothing but `op`."""
    if expression.leaf is not None:
        yield expression, f"{path}.{field_of(expression)}"
    elif expression.not_ is None and (getattr(expression, op) or len(expression.members) == 1):
        for member, below in members(expression, path):
            yield from _each(member, below, op)


def _text(expression: Expression) -> str:
    return expression.model_dump_json(by_alias=True, exclude_none=True)


def _condition(
    place: LeafPlace, leaf: ConditionLeaf, conditions: frozenset[str]
) -> Iterator[Remark]:
    yield from _known(place, leaf, conditions)
    if leaf.type in KNOWN and leaf.status == _healthy(leaf) and not place.negated and place.alone:
        yield (
            f"{place.path}.status",
            "polarity",
            f"{leaf.type} is healthy when {leaf.status}: the rule would match healthy nodes: check"
            " the status",
        )
    if leaf.max_age.total_seconds() > LONGEST_AGE_S:
        yield (
            f"{place.path}.maxAge",
            "stale-evidence",
            f"a report of {leaf.type} counts for {format_duration(leaf.max_age)} after its detector"
            " died: write a few heartbeats, such as 15m",
        )


def _known(place: LeafPlace, leaf: ConditionLeaf, conditions: frozenset[str]) -> Iterator[Remark]:
    if leaf.type not in KNOWN and leaf.type not in conditions:
        meant = near(leaf.type, conditions)
        hint = f"did you mean {meant}?" if meant else "check the spelling, or is it your own?"
        yield f"{place.path}.type", "unknown-condition", f"{leaf.type} is not known: {hint}"


def _acting_on(place: LeafPlace) -> Iterator[Remark]:
    leaf = place.leaf
    if isinstance(leaf, ConditionLeaf) and not place.negated:
        if not leaf.for_:
            yield (
                place.path,
                "no-hold-time",
                f"the first report of {leaf.type} acts: write for, such as for: 1m",
            )
        if leaf.type in LATCHED and place.alone:
            yield (
                place.path,
                "latched-alone",
                f"{leaf.type} says what once was, not what is: ask for a probe or a condition that"
                " is taken back beside it",
            )
    elif isinstance(leaf, EventLeaf) and not place.negated and leaf.count == 1 and place.alone:
        what = leaf.reason or "with this message"
        yield (
            place.path,
            "one-event",
            f"a single Event {what} acts: ask for a count, or for a condition or probe beside it",
        )
