"""Compiles NodeRemedier rules to a Program that both engines take. Pure.

A rule has up to two roots: its evidence (`when`) and its guards (`unless`). Each root asks atoms
(leaves read by rules.atoms) and derived facts (of rules with `infer`). Rules are sorted into
strata: one above the highest derived fact that they read, so that a fact is finished before
anybody negates it. For the second engine every root is also expanded to disjuncts of literals,
once for "known true" and once for "known false" (where it needs both, see `_given`): what is
unknown satisfies neither.

A rule that cannot be compiled is refused with the path to what is wrong; the others stay.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import product

from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import AbsentLeaf, ConditionLeaf, FactLeaf
from rules.atoms import AnyLeaf, compares
from rules.builtin import BUILTIN
from rules.checks import check
from rules.engines.ruleset import MOST_PROPERTIES
from rules.rule import CompileError, Rule
from rules.truth import Truth

__all__ = ["CompileError", "CompiledRule", "Program", "Rule", "compile_program"]

MOST_DISJUNCTS = 64
"""Per root and polarity; engine.md section 2."""
MOST_LITERALS = MOST_PROPERTIES // 2
"""In one alternative: a ruleset of durable_rules has so many properties, two for each slot."""

Literal = tuple[int, bool]
"""A slot of the vector that must be known true (True) or known false (False)."""
Disjunct = frozenset[Literal]


@dataclass(frozen=True, slots=True)
class Slot:
    """A place of the vector as a leaf of a tree."""

    index: int


@dataclass(frozen=True, slots=True)
class Tree:
    """all, any or not of members; the original expression with its leaves numbered."""

    op: str
    members: "tuple[Tree | Slot, ...]"


Root = Tree | Slot


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule of the program; `number` makes the names of its outputs.

    reads   slots of derived facts that its roots ask
    derived those of them that its evidence asks
    infers  slots of derived facts that are true when its evidence is
    given   what the second engine is given of it: names of outputs with their alternatives
    """

    rule: Rule
    number: int
    stratum: int
    evidence: Root
    guards: Root | None
    slots: tuple[int, ...]
    reads: frozenset[int]
    infers: tuple[int, ...] = ()
    given: Mapping[str, tuple[Disjunct, ...]] = field(default_factory=dict)
    derived: frozenset[int] = frozenset()

    @property
    def id(self) -> str:
        return self.rule.id

    def roots(self) -> Iterator[tuple[str, Root]]:
        """Name and tree of each root; `ep` is "evidence known true", `en` "known false"."""
        yield "e", self.evidence
        if self.guards is not None:
            yield "g", self.guards

    def output(self, root: str, known: bool) -> str:
        return output_name(self.number, root, known)


@dataclass(frozen=True, slots=True)
class Program:
    """Slots below `len(atoms)` are atoms, those above are derived facts."""

    rules: tuple[CompiledRule, ...] = ()
    atoms: tuple[AnyLeaf, ...] = ()
    derived: tuple[str, ...] = ()
    rejected: tuple[CompileError, ...] = ()
    strata: tuple[tuple[CompiledRule, ...], ...] = field(default=())

    @property
    def width(self) -> int:
        return len(self.atoms) + len(self.derived)


def compile_program(rules: Sequence[Rule], spoiled: Iterable[str] = ()) -> Program:
    """Never raises for a bad rule: it is in `rejected`, and so is what depends on it.

    spoiled  derived facts of rules that were refused before: who reads them is refused too, since
             `not fact` must not come true because a rule that infers it is gone
    """
    rejected: list[CompileError] = []
    good, lost = list(rules), set(spoiled)
    while True:
        try:
            program = _Compiler(good, frozenset(lost)).program()
        except CompileError as error:
            rejected.append(error)
            lost |= facts_of(rule for rule in good if rule.id == error.rule)
            good = [rule for rule in good if rule.id != error.rule]
            continue
        return Program(
            program.rules, program.atoms, program.derived, tuple(rejected), program.strata
        )


def facts_of(rules: Iterable[Rule]) -> set[str]:
    """The derived facts that `rules` infer."""
    inferring = (rule.remedier.spec.infer for rule in rules)
    return {infer.fact for infer in inferring if infer is not None}


class _Compiler:
    """Numbers the leaves of all rules and builds their trees. Raises CompileError at the first."""

    def __init__(self, rules: Sequence[Rule], spoiled: frozenset[str]) -> None:
        self._rules, self._spoiled = rules, spoiled
        self._atoms: dict[str, int] = {}
        self._leaves: list[AnyLeaf] = []
        self._derived: dict[str, int] = {}
        """Canonical text of a leaf that asks a derived fact, to its place among the derived."""
        self._asks: list[FactLeaf] = []
        self._inferring: dict[str, list[Rule]] = {}
        for rule in rules:
            if (infer := rule.remedier.spec.infer) is not None:
                self._inferring.setdefault(infer.fact, []).append(rule)

    def program(self) -> Program:
        for rule in self._rules:
            check(rule)
        levels = self._levels()
        trees = {rule.id: self._trees(rule) for rule in self._rules}
        atoms = len(self._leaves)
        compiled = [
            self._compiled(rule, number, levels[rule.id], trees[rule.id], atoms)
            for number, rule in enumerate(self._rules)
        ]
        depth = max(levels.values(), default=-1) + 1
        strata = tuple(tuple(c for c in compiled if c.stratum == level) for level in range(depth))
        return Program(tuple(compiled), tuple(self._leaves), tuple(self._derived), (), strata)

    # -- strata

    def _levels(self) -> dict[str, int]:
        """Stratum of each rule: one above the highest derived fact that it reads.

        All rules that infer one fact share a stratum: the fact is finished after it.
        """
        reads = {rule.id: sorted(self._facts_read(rule)) for rule in self._rules}
        below = {
            fact: [name for rule in inferring for name in reads[rule.id]]
            for fact, inferring in self._inferring.items()
        }
        level: dict[str, int] = {}
        try:
            order = list(TopologicalSorter(below).static_order())
        except CycleError as error:
            raise self._cycle(error.args[1], reads) from error
        for fact in order:
            level[fact] = max((level[name] for name in below[fact]), default=-1) + 1

        def of_rule(rule: Rule) -> int:
            infer = rule.remedier.spec.infer
            if infer is not None:
                return level[infer.fact]
            return max((level[name] for name in reads[rule.id]), default=-1) + 1

        return {rule.id: of_rule(rule) for rule in self._rules}

    def _cycle(self, facts: Sequence[str], reads: Mapping[str, Sequence[str]]) -> CompileError:
        """Names the first rule on the cycle; each fact of `facts` is evidence for the next."""
        steps = set(zip(facts[1:], facts, strict=False))
        for rule in self._rules:
            infer = rule.remedier.spec.infer
            if infer is not None and any((infer.fact, name) in steps for name in reads[rule.id]):
                break
        cycle = " -> ".join(reversed(facts))
        why = f"derived facts form a cycle: {cycle}; a fact cannot be evidence for itself"
        return CompileError(rule.id, "spec.when", why)

    def _facts_read(self, rule: Rule) -> set[str]:
        spec = rule.remedier.spec
        both = [spec.when] + ([spec.unless] if spec.unless is not None else [])
        leaves = (leaf for root in both for leaf in root.leaves())
        return {x.name for x in leaves if isinstance(x, FactLeaf) and x.name in self._inferring}

    # -- trees

    def _trees(self, rule: Rule) -> tuple[Root, Root | None]:
        spec = rule.remedier.spec
        guards = None
        if spec.unless is not None:
            guards = self._tree(rule, spec.unless, "spec.unless")
        return self._tree(rule, spec.when, "spec.when"), guards

    def _tree(self, rule: Rule, expression: Expression, path: str) -> Root:
        if (leaf := expression.leaf) is not None:
            return Slot(self._slot(rule, leaf, path))
        op = "all" if expression.all is not None else "any" if expression.any is not None else "not"
        members = tuple(
            self._tree(rule, member, f"{path}.{op}" + ("" if op == "not" else f"[{i}]"))
            for i, member in enumerate(expression.members)
        )
        return Tree(op, members)

    def _slot(self, rule: Rule, leaf: AnyLeaf, path: str) -> int:
        """Atoms count up from 0; derived facts down from -1 until the atoms are all known."""
        inner = leaf.leaf if isinstance(leaf, AbsentLeaf) else leaf
        if isinstance(inner, FactLeaf) and inner.name in self._spoiled:
            why = f"a rule that infers {inner.name} was refused: it would read too little"
            raise CompileError(rule.id, f"{path}.fact.name", why)
        if isinstance(inner, FactLeaf) and inner.name in self._inferring:
            if isinstance(leaf, AbsentLeaf):
                why = f"derived fact {inner.name} cannot be asked with absent: use not"
                raise CompileError(rule.id, f"{path}.absent", why)
            return -1 - self._derived_slot(rule, inner, path)
        if isinstance(inner, FactLeaf) and inner.name not in BUILTIN:
            why = f"{inner.name!r} is no built-in fact and no rule infers it"
            raise CompileError(rule.id, f"{path}.fact.name", why)
        if isinstance(leaf, AbsentLeaf) and leaf.for_ and not isinstance(inner, ConditionLeaf):
            why = "absent with `for` is known for conditions only: leave `for` out"
            raise CompileError(rule.id, f"{path}.absent.for", why)
        key = f"{type(leaf).__name__}{leaf.model_dump_json(by_alias=True)}"
        if key not in self._atoms:
            self._atoms[key] = len(self._leaves)
            self._leaves.append(leaf)
        return self._atoms[key]

    def _derived_slot(self, rule: Rule, leaf: FactLeaf, path: str) -> int:
        if not self._able(leaf):
            why = f"no rule infers {leaf.name} with a value that fits this comparison"
            raise CompileError(rule.id, f"{path}.fact", why)
        key = leaf.model_dump_json(by_alias=True)
        if key not in self._derived:
            self._derived[key] = len(self._asks)
            self._asks.append(leaf)
        return self._derived[key]

    def _able(self, leaf: FactLeaf) -> list[Rule]:
        """The rules whose inferred value fulfils the leaf."""
        found = []
        for rule in self._inferring[leaf.name]:
            infer = rule.remedier.spec.infer
            if infer is not None and compares(leaf, infer.value) is Truth.TRUE:
                found.append(rule)
        return found

    def _compiled(
        self,
        rule: Rule,
        number: int,
        level: int,
        trees: tuple[Root, Root | None],
        atoms: int,
    ) -> CompiledRule:
        evidence, guards = (t if t is None else _renumbered(t, atoms) for t in trees)
        assert evidence is not None
        slots = {*slots_of(evidence), *(slots_of(guards) if guards is not None else ())}
        infers = self._infers(rule, atoms)
        return CompiledRule(
            rule,
            number,
            level,
            evidence,
            guards,
            tuple(sorted(slots)),
            frozenset(s for s in slots if s >= atoms),
            infers,
            _given(rule, number, evidence, guards, bool(infers)),
            frozenset(s for s in slots_of(evidence) if s >= atoms),
        )

    def _infers(self, rule: Rule, atoms: int) -> tuple[int, ...]:
        infer = rule.remedier.spec.infer
        if infer is None:
            return ()
        return tuple(
            atoms + n
            for n, leaf in enumerate(self._asks)
            if leaf.name == infer.fact and compares(leaf, infer.value) is Truth.TRUE
        )


def _renumbered(root: Root, atoms: int) -> Root:
    if isinstance(root, Slot):
        return root if root.index >= 0 else Slot(atoms - 1 - root.index)
    return Tree(root.op, tuple(_renumbered(member, atoms) for member in root.members))


def slots_of(root: Root) -> Iterable[int]:
    if isinstance(root, Slot):
        yield root.index
        return
    for member in root.members:
        yield from slots_of(member)


def _given(
    rule: Rule, number: int, evidence: Root, guards: Root | None, read: bool
) -> dict[str, tuple[Disjunct, ...]]:
    """What the second engine is given, by name of the output. Raises CompileError.

    It must have what acting rests on: evidence known true, guards known false, and of a fact that
    others read both, since it may stand under `not`. The two others only tell "known otherwise"
    from "unknown", both of which keep from acting: where they have too many alternatives they are
    left to the reference, and the engines are compared without them.
    """
    roots = [("e", evidence, "spec.when")]
    if guards is not None:
        roots.append(("g", guards, "spec.unless"))
    given = {}
    for name, root, path in roots:
        for known in (True, False):
            try:
                found = disjuncts(root, known, rule.id, path)
            except CompileError:
                if read or known is (name == "e"):
                    raise
                continue
            given[output_name(number, name, known)] = found
    return given


@lru_cache(maxsize=1 << 16)
def output_name(number: int, root: str, known: bool) -> str:
    return f"r{number}{root}{'p' if known else 'n'}"


def disjuncts(root: Root, known: bool, rule: str = "", path: str = "") -> tuple[Disjunct, ...]:
    """The root as alternatives of literals: when it is known true, or known false.

    Raises CompileError when there are too many, or too many literals in one.
    """

    def expand(node: Root, known: bool) -> set[Disjunct]:
        if isinstance(node, Slot):
            return {frozenset({(node.index, known)})}
        if node.op == "not":
            return expand(node.members[0], not known)
        members = [expand(member, known) for member in node.members]
        if (node.op == "all") == known:
            return _product(members, refused)
        return _bounded({d for member in members for d in member}, refused)

    def refused(why: str) -> CompileError:
        which = "" if known else " (counted for its being known false)"
        way_out = "give a part of it a name with an `infer` rule"
        return CompileError(rule, path, f"it has more than {why} once expanded{which}: {way_out}")

    return tuple(sorted(expand(root, known), key=sorted))


def _product(members: list[set[Disjunct]], error: Callable[[str], CompileError]) -> set[Disjunct]:
    """One alternative of each member; those that contradict themselves can never hold."""
    result: set[Disjunct] = {frozenset()}
    for member in members:
        joined = (a | b for a, b in product(result, member))
        result = {d for d in joined if not any((slot, not known) in d for slot, known in d)}
        _bounded(result, error)
    return result


def _bounded(found: set[Disjunct], error: Callable[[str], CompileError]) -> set[Disjunct]:
    if len(found) > MOST_DISJUNCTS:
        raise error(f"{MOST_DISJUNCTS} alternatives")
    if any(len(disjunct) > MOST_LITERALS for disjunct in found):
        raise error(f"{MOST_LITERALS} leaves in one alternative")
    return found
