"""What a program should say of a node, by looking at one rule at a time from the top.

No rounds, no slots, no disjuncts: a derived fact is asked for by evaluating the rules that infer
it. It shares nothing with the engines but the meaning of a condition.
"""

from collections.abc import Sequence

from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import ConditionLeaf, FactLeaf
from rules.facts import FactSet
from rules.program import Rule

Three = bool | None


def evidence(rule: Rule, rules: Sequence[Rule], facts: FactSet) -> Three:
    return _value(rule.remedier.spec.when, rules, facts)


def guards(rule: Rule, rules: Sequence[Rule], facts: FactSet) -> Three:
    unless = rule.remedier.spec.unless
    return False if unless is None else _value(unless, rules, facts)


def _value(expression: Expression, rules: Sequence[Rule], facts: FactSet) -> Three:
    leaf = expression.leaf
    if isinstance(leaf, ConditionLeaf):
        return {"True": True, "False": False}.get(facts.conditions[leaf.type].status)
    if isinstance(leaf, FactLeaf):
        inferring = [
            r for r in rules if r.remedier.spec.infer and r.remedier.spec.infer.fact == leaf.name
        ]
        return _or([evidence(r, rules, facts) for r in inferring])
    members = [_value(member, rules, facts) for member in expression.members]
    if expression.not_ is not None:
        return _not(members[0])
    if expression.any is not None:
        return _or(members)
    return _not(_or([_not(member) for member in members]))


def _not(value: Three) -> Three:
    return None if value is None else not value


def _or(values: list[Three]) -> Three:
    if True in values:
        return True
    return None if None in values else False
