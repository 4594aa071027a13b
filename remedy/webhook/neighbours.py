"""Which loaded rules a candidate has to do with: those that chain with it through derived facts.

All others neither change what it means nor are changed by it, so compiling ten thousand rules to
judge one is not needed. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping

from kubenode.api.v1alpha1 import Mode, NodeRemedier
from kubenode.api.v1alpha1.leaves import FactLeaf


def facts_asked(rule: NodeRemedier) -> frozenset[str]:
    """Names of all facts in its evidence and guards, built-in and derived."""
    return frozenset(leaf.name for leaf in rule.spec.asked() if isinstance(leaf, FactLeaf))


def inferred(rule: NodeRemedier) -> str:
    """The fact that it infers; "" for a rule with a ladder."""
    return rule.spec.infer.fact if rule.spec.infer is not None else ""


def loadable(rules: Iterable[NodeRemedier]) -> Iterator[NodeRemedier]:
    for rule in rules:
        if rule.spec.mode is not Mode.OFF and rule.metadata.deletion_timestamp is None:
            yield rule


def chained(candidate: NodeRemedier, others: Iterable[NodeRemedier]) -> list[NodeRemedier]:
    """Of `others`, what can be on one chain or cycle with the candidate, in their order."""
    known = list(loadable(others))
    facts = {fact for rule in known if (fact := inferred(rule))}
    if fact := inferred(candidate):
        facts.add(fact)
    asked = {rule.metadata.name: facts_asked(rule) & facts for rule in known}
    return [rule for rule in known if inferred(rule) or asked[rule.metadata.name]]


def upstream(rules: Iterable[NodeRemedier], others: Iterable[NodeRemedier]) -> list[NodeRemedier]:
    """Of `others`, those that infer what `rules` read, on and on: what it takes to judge them."""
    by_fact: dict[str, list[NodeRemedier]] = {}
    for rule in loadable(others):
        if fact := inferred(rule):
            by_fact.setdefault(fact, []).append(rule)
    found: dict[str, NodeRemedier] = {}
    seen: set[str] = set()
    # All rules that infer one fact belong together, so also those beside one of `rules`.
    wanted = {fact for rule in rules for fact in (*facts_asked(rule), inferred(rule))}
    while wanted := (wanted & by_fact.keys()) - seen:
        seen |= wanted
        new = {rule.metadata.name: rule for fact in wanted for rule in by_fact[fact]}
        found |= new
        wanted = {fact for rule in new.values() for fact in facts_asked(rule)}
    return list(found.values())


def readers(candidate: NodeRemedier, others: Iterable[NodeRemedier]) -> Mapping[str, NodeRemedier]:
    """By name, the rules whose matches follow from the candidate's: through its fact, on and on."""
    found: dict[str, NodeRemedier] = {}
    facts = {fact} if (fact := inferred(candidate)) else set()
    rules = list(others)
    while facts:
        new = [
            rule for rule in rules if rule.metadata.name not in found and facts_asked(rule) & facts
        ]
        found |= {rule.metadata.name: rule for rule in new}
        facts = {fact for rule in new if (fact := inferred(rule))}
    return found
