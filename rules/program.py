"""Compiles NodeRemediers to a RuleProgram for both engines. Pure.

A rule has up to two roots: its evidence (`when`) and its guards (`unless`). A root reads atoms
(leaves read by rules.atoms) and derived facts (of rules with `infer`). Rules are sorted into
strata, one above the highest derived fact that they read, so that a fact is final before a rule
negates it. For the second engine every root is expanded to disjuncts of literals (rules.disjuncts),
for "known true" and, where needed, for "known false".

A derived fact with a wider scope than its node, or one that is kept after its evidence (`for`), is
stored and read as an atom from FactSet.inferred. Its rules infer no slot, and its readers need no
higher stratum. Cycles are refused for all derived facts.

A rule that cannot be compiled is refused with the path to its fault; the others stay.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import AbsentLeaf, FactLeaf, ProbeLeaf
from kubenode.runtime.collector import paused_collector
from rules.atoms import AnyLeaf, Atom, CountedFact
from rules.builtin import SAME_FAULT, UNREAD
from rules.checks import check
from rules.disjuncts import (
    Disjunct,
    Literal,
    Root,
    Tree,
    VectorSlot,
    disjuncts,
    output_name,
    slots_of,
)
from rules.inference import facts_of, faults, fits, inferring, levels, stored_facts
from rules.leaves.unread import UnreadReports, index_evidence
from rules.rule import CompileError, RuleVersion

__all__ = [
    "CompileError",
    "CompiledRule",
    "Disjunct",
    "Literal",
    "Root",
    "RuleProgram",
    "RuleVersion",
    "Tree",
    "VectorSlot",
    "compile_program",
    "disjuncts",
    "facts_of",
    "output_name",
    "slots_of",
    "stored_facts",
]


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A compiled rule. number: forms the names of its outputs.

    reads: slots of derived facts that its roots read
    derived: those of them that its evidence reads
    infers: slots of derived facts that are true if its evidence is; empty for a stored fact
    given: outputs that the second engine knows, by name, with their alternatives
    same_fault: atoms of its evidence that are `<group>.sameFault`, in order
    probes: atoms of its evidence that are probes, also absent ones, in order
    """

    rule: RuleVersion
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
        """Yield name and tree of each root: `e` for the evidence, `g` for the guards."""
        yield "e", self.evidence
        if self.guards is not None:
            yield "g", self.guards

    def output(self, root: str, known: bool) -> str:
        return output_name(self.number, root, known)


@dataclass(frozen=True, slots=True)
class RuleProgram:
    """A compiled program. Slots below `len(atoms)` are atoms, those above are derived facts."""

    rules: tuple[CompiledRule, ...] = ()
    atoms: tuple[Atom, ...] = ()
    derived: tuple[str, ...] = ()
    rejected: tuple[CompileError, ...] = ()
    strata: tuple[tuple[CompiledRule, ...], ...] = field(default=())

    @property
    def width(self) -> int:
        return len(self.atoms) + len(self.derived)


def compile_program(rules: Sequence[RuleVersion], spoiled: Iterable[str] = ()) -> RuleProgram:
    """Compile the rules. Bad rules, and rules that depend on them, are in `rejected`.

    spoiled: derived facts of rules that were refused before. Their readers are refused too, because
        `not fact` must not become true when a rule that infers it is missing
    """
    rejected: list[CompileError] = []
    good, lost = list(rules), set(spoiled)
    while True:
        errors, program = _first_faults(good, lost), RuleProgram()
        if not errors:
            with paused_collector():
                program, errors = _Compiler(good).program()
        if not errors:
            return replace(program, rejected=tuple(rejected))
        rejected += errors.values()
        lost |= facts_of(rule for rule in good if rule.id in errors)
        good = [rule for rule in good if rule.id not in errors]


def _first_faults(rules: Sequence[RuleVersion], spoiled: Iterable[str]) -> dict[str, CompileError]:
    """Return the faults by rule id that show before anything is compiled."""
    errors: dict[str, CompileError] = {}
    for rule in rules:
        try:
            check(rule)
        except CompileError as error:
            errors[rule.id] = error
    return errors or faults(rules, spoiled)


class _Compiler:
    """Numbers the leaves of valid rules, and builds their trees."""

    def __init__(self, rules: Sequence[RuleVersion]) -> None:
        self._rules, self._inferring = rules, inferring(rules)
        self._stored = stored_facts(rules)
        self._evidence = index_evidence(rule.remedier for rule in rules)
        self._atoms: dict[str, int] = {}
        self._leaves: list[Atom] = []
        self._derived: dict[str, int] = {}
        """Canonical text of a leaf that reads a derived fact, to its number."""
        self._asks: dict[str, list[tuple[int, FactLeaf]]] = {}
        """Derived fact to the leaves that read it, with their numbers."""

    def program(self) -> tuple[RuleProgram, dict[str, CompileError]]:
        """Return the program, and by rule id why the second engine cannot be given a rule."""
        level = levels(self._rules)
        trees = {rule.id: self._trees(rule) for rule in self._rules}
        atoms = len(self._leaves)
        compiled, errors = [], dict[str, CompileError]()
        for number, rule in enumerate(self._rules):
            try:
                compiled.append(self._compiled(rule, number, level[rule.id], trees[rule.id], atoms))
            except CompileError as error:
                errors[rule.id] = error
        strata: list[list[CompiledRule]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
        for rule_ in compiled:
            strata[rule_.stratum].append(rule_)
        program = RuleProgram(
            tuple(compiled),
            tuple(self._leaves),
            tuple(self._derived),
            (),
            tuple(tuple(stratum) for stratum in strata),
        )
        return program, errors

    # -- trees

    def _trees(self, rule: RuleVersion) -> tuple[Root, Root | None]:
        spec = rule.remedier.spec
        guards = self._tree(rule, spec.unless) if spec.unless is not None else None
        return self._tree(rule, spec.when), guards

    def _tree(self, rule: RuleVersion, expression: Expression) -> Root:
        if (leaf := expression.leaf) is not None:
            return VectorSlot(self._slot(rule, leaf))
        op = "all" if expression.all is not None else "any" if expression.any is not None else "not"
        return Tree(op, tuple(self._tree(rule, member) for member in expression.members))

    def _slot(self, rule: RuleVersion, leaf: AnyLeaf) -> int:
        """Number a leaf: atoms from 0 upwards; derived facts from -1 downwards until all atoms
        are known.
        """
        if not isinstance(leaf, FactLeaf):
            return self._atom_slot(leaf)
        if leaf.name in SAME_FAULT:
            return self._atom_slot(CountedFact(rule.id, leaf))
        if leaf.name in UNREAD:
            return self._atom_slot(UnreadReports(leaf, self._evidence))
        if leaf.name in self._inferring and leaf.name not in self._stored:
            return -1 - self._derived_slot(leaf)
        return self._atom_slot(leaf)

    def _atom_slot(self, atom: Atom) -> int:
        leaf = atom.leaf if isinstance(atom, CountedFact | UnreadReports) else atom
        prefix = f"{atom.rule} " if isinstance(atom, CountedFact) else ""
        key = f"{prefix}{type(leaf).__name__}{leaf.model_dump_json(by_alias=True)}"
        if key not in self._atoms:
            self._atoms[key] = len(self._leaves)
            self._leaves.append(atom)
        return self._atoms[key]

    def _derived_slot(self, leaf: FactLeaf) -> int:
        key = leaf.model_dump_json(by_alias=True)
        if key not in self._derived:
            self._derived[key] = len(self._derived)
            self._asks.setdefault(leaf.name, []).append((self._derived[key], leaf))
        return self._derived[key]

    def _compiled(
        self,
        rule: RuleVersion,
        number: int,
        level: int,
        trees: tuple[Root, Root | None],
        atoms: int,
    ) -> CompiledRule:
        evidence, guards = (t if t is None else _renumbered(t, atoms) for t in trees)
        assert evidence is not None
        slots = {*slots_of(evidence), *(slots_of(guards) if guards is not None else ())}
        infers = self._infers(rule, atoms)
        evidence_atoms = [s for s in dict.fromkeys(slots_of(evidence)) if s < atoms]
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
            tuple(s for s in evidence_atoms if isinstance(self._leaves[s], CountedFact)),
            tuple(s for s in evidence_atoms if _is_probe(self._leaves[s])),
        )

    def _infers(self, rule: RuleVersion, atoms: int) -> tuple[int, ...]:
        infer = rule.remedier.spec.infer
        uses = self._asks.get(infer.fact, ()) if infer is not None else ()
        return tuple(atoms + n for n, leaf in uses if fits(leaf, rule))


def _is_probe(atom: Atom) -> bool:
    return isinstance(atom.leaf if isinstance(atom, AbsentLeaf) else atom, ProbeLeaf)


def _renumbered(root: Root, atoms: int) -> Root:
    if isinstance(root, VectorSlot):
        return root if root.index >= 0 else VectorSlot(atoms - 1 - root.index)
    return Tree(root.op, tuple(_renumbered(member, atoms) for member in root.members))


def _given(
    rule: RuleVersion, number: int, evidence: Root, guards: Root | None, read: bool
) -> dict[str, tuple[Disjunct, ...]]:
    """Return what the second engine is given, by name of the output. Raises CompileError.

    It must know what acts depend on: evidence known true, guards known false, and both for a fact
    that other rules read, because it may be under `not`. The other two outputs only tell known from
    unknown, and neither allows an act. If they have too many alternatives, only the reference knows
    them, and the engines are compared without them.
    """
    roots = [("e", evidence, "spec.when")]
    if guards is not None:
        roots.append(("g", guards, "spec.unless"))
    given = {}
    for name, root, path in roots:
        for known in (True, False):
            try:
                alternatives = disjuncts(root, known, rule.id, path)
            except CompileError:
                if read or known is (name == "e"):
                    raise
                continue
            given[output_name(number, name, known)] = alternatives
    return given
