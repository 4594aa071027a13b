"""Collects all findings about a set of rules."""

from collections.abc import Collection, Iterator, Sequence

from kubenode.api.v1alpha1 import Expression, NodeRemedier
from rules.lint import durations, evidence, patterns, proof, steps, together
from rules.lint.finding import LintFinding, Remark, finding
from rules.nodekeys import NodeKeys

DEFAULT_KEYS = NodeKeys()


def lint(
    rules: Sequence[NodeRemedier],
    known: Sequence[NodeRemedier] = (),
    *,
    conditions: Collection[str] = (),
    node_keys: NodeKeys = DEFAULT_KEYS,
) -> list[LintFinding]:
    """Return the findings about `rules`, in their order. Does not compile them.

    known: other loaded rules, which are not judged
    conditions: further condition types that exist, such as those of a live cluster
    node_keys: labels and annotations that the operator lets rules set
    """
    inferred, types = _inferred(rules, known), frozenset(conditions)
    by_rule: dict[str, list[LintFinding]] = {rule.metadata.name: [] for rule in rules}
    for rule in rules:
        name = rule.metadata.name
        by_rule[name] += (finding(name, r) for r in _of(rule, inferred, types, node_keys))
    for name, remark in together.remarks(rules, known):
        by_rule[name].append(finding(name, remark))
    return [entry for several in by_rule.values() for entry in several]


def _of(
    rule: NodeRemedier,
    inferred: proof.Inferred,
    conditions: frozenset[str],
    node_keys: NodeKeys,
) -> Iterator[Remark]:
    yield from evidence.remarks(rule, inferred, conditions)
    yield from patterns.remarks(rule)
    yield from proof.remarks(rule, inferred)
    yield from steps.remarks(rule, node_keys)
    yield from durations.remarks(rule)


def _inferred(
    rules: Sequence[NodeRemedier], known: Sequence[NodeRemedier]
) -> dict[str, Expression]:
    """Return the evidence of each derived fact; for several inferring rules, any of their
    evidence.
    """
    by_fact: dict[str, list[Expression]] = {}
    judged = {rule.metadata.name for rule in rules}
    for rule in (*rules, *(other for other in known if other.metadata.name not in judged)):
        if rule.spec.infer is not None:
            by_fact.setdefault(rule.spec.infer.fact, []).append(rule.spec.when)
    return {
        fact: whens[0] if len(whens) == 1 else Expression.model_construct(any=whens)
        for fact, whens in by_fact.items()
    }
