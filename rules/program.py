"""Compiles NodeRemedier rules to a Program that both engines take. Pure.

A rule has up to two roots: its evidence (`when`) and its guards (`unless`). Each root asks atoms
(leaves read by rules.atoms) and derived facts (of rules with `infer`). Rules are sorted into
strata: one above the highest derived fact that they read, so that a fact is finished before
anybody negates it. For the second engine every root is also expanded to disjuncts of literals
(rules.disjuncts), once for "known true" and once for "known false" where it needs both.

A derived fact that is wider than its node, or that is kept after its evidence (`for`), is stored
outside and read as an atom from FactSet.inferred: its rules have no slots here, and nobody stands a
stratum above them. Cycles are refused among derived facts of every kind.

A rule that cannot be compiled is refused with the path to what is wrong; the others stay.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import AbsentLeaf, FactLeaf, ProbeLeaf
from kubenode.api.v1alpha1.noderemedier import Scope
from rules.atoms import AnyLeaf, Atom, CountedFact, compares
from rules.builtin import BUILTIN, SAME_FAULT, near
from rules.checks import check
from rules.disjuncts import (
    Disjunct,
    Literal,
    Root,
    Slot,
    Tree,
    disjuncts,
    output_name,
    slots_of,
)
from rules.rule import CompileError, Rule
from rules.truth import Truth

__all__ = [
    "CompileError",
    "CompiledRule",
    "Disjunct",
    "Literal",
    "Program",
    "Root",
    "Rule",
    "Slot",
    "Tree",
    "compile_program",
    "disjuncts",
    "facts_of",
    "output_name",
    "slots_of",
    "stored_facts",
]


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule of the program; `number` makes the names of its outputs.

    reads       slots of derived facts that its roots ask
    derived     those of them that its evidence asks
    infers      slots of derived facts that are true when its evidence is; of a stored fact none
    given       what the second engine is given of it: names of outputs with their alternatives
    same_fault  atoms of its evidence that are `<group>.sameFault`, in order
    probes      atoms of its evidence that are probes, also absent ones, in order
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
    same_fault: tuple[int, ...] = ()
    probes: tuple[int, ...] = ()

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
    atoms: tuple[Atom, ...] = ()
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


def stored_facts(rules: Iterable[Rule]) -> frozenset[str]:
    """The derived facts that outlive one evaluation of one node: read from FactSet.inferred.

    Those of a scope wider than Node, and those that some rule keeps after its evidence.
    """
    inferring = (rule.remedier.spec.infer for rule in rules)
    return frozenset(
        infer.fact
        for infer in inferring
        if infer is not None and (infer.scope is not Scope.NODE or infer.for_)
    )


class _Compiler:
    """Numbers the leaves of all rules and builds their trees. Raises CompileError at the first."""

    def __init__(self, rules: Sequence[Rule], spoiled: frozenset[str]) -> None:
        self._rules, self._spoiled = rules, spoiled
        self._atoms: dict[str, int] = {}
        self._leaves: list[Atom] = []
        self._derived: dict[str, int] = {}
        """Canonical text of a leaf that asks a derived fact, to its place among the derived."""
        self._asks: list[FactLeaf] = []
        self._inferring: dict[str, list[Rule]] = {}
        for rule in rules:
            if (infer := rule.remedier.spec.infer) is not None:
                self._inferring.setdefault(infer.fact, []).append(rule)
        self._stored = stored_facts(rules)

    def program(self) -> Program:
        for rule in self._rules:
            check(rule)
        for rule in self._rules:
            self._agrees(rule)
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

    def _agrees(self, rule: Rule) -> None:
        """One fact has one scope, and one value if it is stored: it has one place to be."""
        infer = rule.remedier.spec.infer
        if infer is None:
            return
        for other in self._inferring[infer.fact]:
            theirs = other.remedier.spec.infer
            if other is rule or theirs is None:
                return
            if infer.scope is not theirs.scope:
                why = f"{infer.fact} has scope {theirs.scope} in rule {other.id}: use another name"
                raise CompileError(rule.id, "spec.infer.scope", why)
            if infer.fact in self._stored and infer.value != theirs.value:
                why = f"{infer.fact} is {theirs.value} in rule {other.id}: name another fact"
                raise CompileError(rule.id, "spec.infer.value", why)

    # -- strata

    def _levels(self) -> dict[str, int]:
        """Stratum of each rule: one above the highest derived fact that it reads.

        All rules that infer one fact share a stratum: the fact is finished after it. Stored facts
        count for cycles only.
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
        here = {name for name in below if name not in self._stored}
        for fact in order:
            level[fact] = max((level[name] for name in below[fact] if name in here), default=-1) + 1

        def of_rule(rule: Rule) -> int:
            infer = rule.remedier.spec.infer
            if infer is not None and infer.fact in here:
                return level[infer.fact]
            return max((level[name] for name in reads[rule.id] if name in here), default=-1) + 1

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
        if not isinstance(inner, FactLeaf):
            return self._atom_slot(leaf)
        if inner.name in self._spoiled:
            why = f"a rule that infers {inner.name} was refused: it would read too little"
            raise CompileError(rule.id, f"{path}.fact.name", why)
        if inner.name in SAME_FAULT:
            return self._atom_slot(CountedFact(rule.id, inner))
        if inner.name in BUILTIN:
            return self._atom_slot(leaf)
        if inner.name not in self._inferring:
            known = (*BUILTIN, *self._inferring)
            why = (
                f"{inner.name!r} is no built-in fact and no rule infers it{near(inner.name, known)}"
            )
            raise CompileError(rule.id, f"{path}.fact.name", why)
        if isinstance(leaf, AbsentLeaf):
            why = f"derived fact {inner.name} cannot be asked with absent: use not"
            raise CompileError(rule.id, f"{path}.absent", why)
        if not self._able(inner):
            why = f"no rule infers {inner.name} with a value that fits this comparison"
            raise CompileError(rule.id, f"{path}.fact", why)
        if inner.name in self._stored:
            return self._atom_slot(leaf)
        return -1 - self._derived_slot(inner)

    def _atom_slot(self, atom: Atom) -> int:
        leaf = atom.leaf if isinstance(atom, CountedFact) else atom
        whose = f"{atom.rule} " if isinstance(atom, CountedFact) else ""
        key = f"{whose}{type(leaf).__name__}{leaf.model_dump_json(by_alias=True)}"
        if key not in self._atoms:
            self._atoms[key] = len(self._leaves)
            self._leaves.append(atom)
        return self._atoms[key]

    def _derived_slot(self, leaf: FactLeaf) -> int:
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
        asked = [s for s in dict.fromkeys(slots_of(evidence)) if s < atoms]
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
            tuple(s for s in asked if isinstance(self._leaves[s], CountedFact)),
            tuple(s for s in asked if _is_probe(self._leaves[s])),
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


def _is_probe(atom: Atom) -> bool:
    return isinstance(atom.leaf if isinstance(atom, AbsentLeaf) else atom, ProbeLeaf)


def _renumbered(root: Root, atoms: int) -> Root:
    if isinstance(root, Slot):
        return root if root.index >= 0 else Slot(atoms - 1 - root.index)
    return Tree(root.op, tuple(_renumbered(member, atoms) for member in root.members))


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
