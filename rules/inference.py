"""Derived facts: which rules infer and read them, and which rules are therefore refused. Pure.

A derived fact lives within one evaluation of one node, and its rules are ordered in strata. Or it
is stored: if its scope is wider than the node, or if a rule keeps it after its evidence (`for`).
Faults of all rules are found in one pass, so that many bad rules cost little more than one.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import pairwise

from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import AbsentLeaf, FactLeaf, Leaf
from kubenode.api.v1alpha1.noderemedier import Scope
from rules.builtin import BUILTIN, near
from rules.leaves.compare import compares
from rules.rule import CompileError, RuleVersion
from rules.truth import Truth

MOST_NEIGHBOURS = 50
"""Bound on derived facts that a misspelt name is compared with, because a comparison is slow."""
Inferring = Mapping[str, Sequence[RuleVersion]]
"""Derived fact to the rules that infer it."""


def facts_of(rules: Iterable[RuleVersion]) -> set[str]:
    """Return the derived facts that `rules` infer."""
    inferring = (rule.remedier.spec.infer for rule in rules)
    return {infer.fact for infer in inferring if infer is not None}


def stored_facts(rules: Iterable[RuleVersion]) -> frozenset[str]:
    """Return the stored derived facts, which are read from FactSet.inferred.

    They have a wider scope than Node, or a rule keeps them after its evidence.
    """
    inferring = (rule.remedier.spec.infer for rule in rules)
    return frozenset(
        infer.fact
        for infer in inferring
        if infer is not None and (infer.scope is not Scope.NODE or infer.for_)
    )


def inferring(rules: Iterable[RuleVersion]) -> dict[str, list[RuleVersion]]:
    by_fact: dict[str, list[RuleVersion]] = {}
    for rule in rules:
        if (infer := rule.remedier.spec.infer) is not None:
            by_fact.setdefault(infer.fact, []).append(rule)
    return by_fact


def leaves(rule: RuleVersion) -> Iterator[tuple[str, Leaf | AbsentLeaf]]:
    """Yield every leaf of evidence and guards, with its path."""
    spec = rule.remedier.spec
    yield from _walk(spec.when, "spec.when")
    if spec.unless is not None:
        yield from _walk(spec.unless, "spec.unless")


def _walk(expression: Expression, path: str) -> Iterator[tuple[str, Leaf | AbsentLeaf]]:
    if (leaf := expression.leaf) is not None:
        yield path, leaf
    op = "all" if expression.all is not None else "any" if expression.any is not None else "not"
    for n, member in enumerate(expression.members):
        yield from _walk(member, f"{path}.{op}" + ("" if op == "not" else f"[{n}]"))


def faults(rules: Sequence[RuleVersion], spoiled: Iterable[str]) -> dict[str, CompileError]:
    """Return the first fault of each rule that other rules cause, by rule id.

    spoiled: facts of rules that were refused before
    """
    by_fact, stored, lost = inferring(rules), stored_facts(rules), set(spoiled)
    neighbours: dict[str, list[str]] = {}
    for fact in by_fact:
        neighbours.setdefault(_group(fact), []).append(fact)
    errors: dict[str, CompileError] = {}
    for rule in rules:
        for path, why in (*_alone(rule, by_fact, stored), *_reads(rule, by_fact, neighbours, lost)):
            errors.setdefault(rule.id, CompileError(rule.id, path, why))
    errors |= _of_cycles([rule for rule in rules if rule.id not in errors])
    return _spread(rules, errors, lost)


def _alone(
    rule: RuleVersion, by_fact: Inferring, stored: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Yield conflicts about one fact: different scopes, or different values of a stored fact."""
    infer = rule.remedier.spec.infer
    first = by_fact[infer.fact][0] if infer is not None else rule
    theirs = first.remedier.spec.infer
    if infer is None or theirs is None or first is rule:
        return
    if infer.scope is not theirs.scope:
        why = f"{infer.fact} has scope {theirs.scope} in rule {first.id}: use another name"
        yield "spec.infer.scope", why
    if infer.fact in stored and infer.value != theirs.value:
        why = f"{infer.fact} is {theirs.value} in rule {first.id}: name another fact"
        yield "spec.infer.value", why


def _group(fact: str) -> str:
    return fact.partition(".")[0]


def _reads(
    rule: RuleVersion,
    by_fact: Inferring,
    neighbours: Mapping[str, Sequence[str]],
    lost: Container[str],
) -> Iterator[tuple[str, str]]:
    """Yield faults of the derived facts that the rule reads.

    neighbours: derived facts by group, the word before the dot
    """
    for path, leaf in leaves(rule):
        inner = leaf.leaf if isinstance(leaf, AbsentLeaf) else leaf
        if not isinstance(inner, FactLeaf) or inner.name in BUILTIN or inner.name in lost:
            continue
        if inner.name not in by_fact:
            beside = neighbours.get(_group(inner.name), ())[:MOST_NEIGHBOURS]
            alike = near(inner.name, (*BUILTIN, *beside))
            why = f"{inner.name!r} is no built-in fact and no rule infers it{alike}"
            yield f"{path}.fact.name", why
        elif isinstance(leaf, AbsentLeaf):
            why = f"derived fact {inner.name} cannot be asked with absent: use not"
            yield f"{path}.absent", why
        elif not any(fits(inner, other) for other in by_fact[inner.name]):
            why = f"no rule infers {inner.name} with a value that fits this comparison"
            yield f"{path}.fact", why


def fits(leaf: FactLeaf, rule: RuleVersion) -> bool:
    """Return whether `leaf` is true of the value that `rule` infers."""
    infer = rule.remedier.spec.infer
    return infer is not None and compares(leaf, infer.value) is Truth.TRUE


def _spread(
    rules: Sequence[RuleVersion], errors: dict[str, CompileError], lost: set[str]
) -> dict[str, CompileError]:
    """Add errors for all readers of a lost fact: `not fact` must not be true because a rule is
    lost.
    """
    readers: dict[str, list[tuple[RuleVersion, str]]] = {}
    for rule in rules:
        for path, leaf in leaves(rule):
            inner = leaf.leaf if isinstance(leaf, AbsentLeaf) else leaf
            if isinstance(inner, FactLeaf):
                readers.setdefault(inner.name, []).append((rule, path))
    queue = sorted(lost | facts_of(rule for rule in rules if rule.id in errors))
    while queue:
        fact = queue.pop()
        for rule, path in readers.pop(fact, ()):
            if rule.id not in errors:
                why = f"a rule that infers {fact} was refused: it would read too little"
                errors[rule.id] = CompileError(rule.id, f"{path}.fact.name", why)
                queue += facts_of([rule])
    return errors


# -- order ----------------------------------------------------------------------------------------


def _facts_read(rule: RuleVersion, known: Iterable[str]) -> list[str]:
    inner = (x.leaf if isinstance(x, AbsentLeaf) else x for _, x in leaves(rule))
    names = {x.name for x in inner if isinstance(x, FactLeaf)}
    return sorted(names.intersection(known))


def _below(rules: Sequence[RuleVersion]) -> dict[str, list[str]]:
    """Return for each fact the facts that its inferring rules read."""
    by_fact = inferring(rules)
    return {
        fact: [name for rule in those for name in _facts_read(rule, by_fact)]
        for fact, those in by_fact.items()
    }


def _of_cycles(rules: Sequence[RuleVersion]) -> dict[str, CompileError]:
    """Return an error for the first rule of each cycle."""
    errors: dict[str, CompileError] = {}
    by_fact, place = inferring(rules), {rule.id: n for n, rule in enumerate(rules)}
    for facts in cycles(_below(rules)):
        why = f"derived facts form a cycle: {' -> '.join(facts)}; a fact cannot prove itself"
        on_it = [
            rule
            for fact, below in pairwise(facts)
            for rule in by_fact[fact]
            if _facts_read(rule, (below,))
        ]
        first = min(on_it, key=lambda rule: place[rule.id])
        errors.setdefault(first.id, CompileError(first.id, "spec.when", why))
    return errors


def cycles(below: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the cycles that a walk through the graph meets, each from a fact back to itself.

    Without one edge of each of them the graph has no cycle.
    """
    loops: list[list[str]] = []
    done: set[str] = set()
    for root in below:
        if root in done:
            continue
        path, place = [root], {root: 0}
        todo = [iter(below[root])]
        while todo:
            name = next(todo[-1], None)
            if name is None:
                todo.pop()
                last = path.pop()
                del place[last]
                done.add(last)
            elif name in place:
                loops.append([*path[place[name] :], name])
            elif name not in done:
                place[name] = len(path)
                path.append(name)
                todo.append(iter(below[name]))
    return loops


def levels(rules: Sequence[RuleVersion]) -> dict[str, int]:
    """Return the stratum of each rule by id: one above the highest derived fact that it reads.

    All rules that infer one fact share a stratum, after which the fact is final. Stored facts do
    not count. The rules must have no cycle.
    """
    here = inferring(rules).keys() - stored_facts(rules)
    below, level = _below(rules), dict[str, int]()
    for fact in TopologicalSorter(below).static_order():
        level[fact] = max((level[name] for name in below[fact] if name in here), default=-1) + 1

    def of_rule(rule: RuleVersion) -> int:
        infer = rule.remedier.spec.infer
        if infer is not None and infer.fact in here:
            return level[infer.fact]
        return max((level[name] for name in _facts_read(rule, here)), default=-1) + 1

    return {rule.id: of_rule(rule) for rule in rules}
