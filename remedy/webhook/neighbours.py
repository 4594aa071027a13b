"""Finds the loaded rules that chain with a candidate through inferred facts.

Other rules neither affect the candidate nor are affected, so checking one rule does not need the
compilation of ten thousand. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping

from kubenode.api.v1alpha1 import Mode, NodeRemedier
from kubenode.api.v1alpha1.leaves import FactLeaf


def list_facts(rule: NodeRemedier) -> frozenset[str]:
    """Return the names of all facts in its evidence and guards, built-in and inferred."""
    return frozenset(leaf.name for leaf in rule.spec.unwrap_leaves() if isinstance(leaf, FactLeaf))


def inferred(rule: NodeRemedier) -> str:
    """Return the fact that it infers; "" for a rule with a ladder."""
    return rule.spec.infer.fact if rule.spec.infer is not None else ""


def loadable(rules: Iterable[NodeRemedier]) -> Iterator[NodeRemedier]:
    for rule in rules:
        if rule.spec.mode is not Mode.OFF and rule.metadata.deletion_timestamp is None:
            yield rule


def chained(candidate: NodeRemedier, others: Iterable[NodeRemedier]) -> list[NodeRemedier]:
    """Return the rules that can be on one chain or cycle with the candidate, in their order."""
    known = list(loadable(others))
    facts = {fact for rule in known if (fact := inferred(rule))}
    if fact := inferred(candidate):
        facts.add(fact)
    facts_by_rule = {rule.metadata.name: list_facts(rule) & facts for rule in known}
    return [rule for rule in known if inferred(rule) or facts_by_rule[rule.metadata.name]]


def upstream(rules: Iterable[NodeRemedier], others: Iterable[NodeRemedier]) -> list[NodeRemedier]:
    """Return the rules that infer what `rules` read, transitively: all that their
    evaluation needs.
    """
    by_fact: dict[str, list[NodeRemedier]] = {}
    for rule in loadable(others):
        if fact := inferred(rule):
            by_fact.setdefault(fact, []).append(rule)
    needed: dict[str, NodeRemedier] = {}
    visited: set[str] = set()
    # Rules that infer the same fact belong together, so those of `rules` are included too.
    wanted = {fact for rule in rules for fact in (*list_facts(rule), inferred(rule))}
    while wanted := (wanted & by_fact.keys()) - visited:
        visited |= wanted
        new = {rule.metadata.name: rule for fact in wanted for rule in by_fact[fact]}
        needed |= new
        wanted = {fact for rule in new.values() for fact in list_facts(rule)}
    return list(needed.values())


def readers(candidate: NodeRemedier, others: Iterable[NodeRemedier]) -> Mapping[str, NodeRemedier]:
    """Return by name the rules that depend on the candidate's fact, transitively."""
    dependents: dict[str, NodeRemedier] = {}
    facts = {fact} if (fact := inferred(candidate)) else set()
    rules = list(others)
    while facts:
        new = [
            rule
            for rule in rules
            if rule.metadata.name not in dependents and list_facts(rule) & facts
        ]
        dependents |= {rule.metadata.name: rule for rule in new}
        facts = {fact for rule in new if (fact := inferred(rule))}
    return dependents
