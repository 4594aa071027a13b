"""Asks both engines, stratum by stratum, on the same vector, and labels what each rule got.

    agreed     both say the same of what both were given (rules.program._given), and nothing that
               the rule reads is disputed
    disputed   exactly one of them says it
    tainted    the rule reads, directly or not, a fact that a disputed rule infers
    unchecked  the second engine gave no answer

Chaining goes on with the reference's answers, never with the intersection of both: dropping a
disputed fact would make `not fact` true.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from rules.engines.durable import REFUSALS, DurableEngine
from rules.engines.port import EngineError, Outputs, Vector
from rules.engines.reference import ReferenceEngine
from rules.program import CompiledRule, Program
from rules.supposing import probes_of, without_counts, worth_asking
from rules.truth import Truth

SEVERAL = 3
"""So many rules disputed by one answer are no defect of a rule: the engine counts as down."""


class Agreement(Enum):
    AGREED = "agreed"
    DISPUTED = "disputed"
    TAINTED = "tainted"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the engines say of one rule on one node."""

    evidence: Truth
    guards: Truth
    agreement: Agreement
    derived: int = 0
    """How many derived facts among the leaves of its evidence are true."""
    others: Truth = Truth.UNKNOWN
    """The evidence with every `sameFault` leaf taken as true."""
    probes: tuple[str, ...] = ()
    """What to ask because nothing else is missing."""


@dataclass(slots=True)
class Stats:
    """Counters since the start, for metrics."""

    disagreements: int = 0
    unchecked: int = 0
    corrupted: int = 0


Outcomes = dict[str, Outcome]
"""By rule id."""


class CrossCheck:
    """durable None: there is no second engine, and everything is unchecked."""

    def __init__(self, durable: DurableEngine | None) -> None:
        self.reference = ReferenceEngine()
        self.durable = durable
        self.stats = Stats()
        self.quarantined: dict[str, str] = {}
        """Rule id to why its matches may not act."""
        self.trouble = "" if durable is not None else "there is no second engine"
        """Why the second engine gives no answers; "" while it does."""
        self._program = Program()
        self._probes: dict[int, str] = {}

    def load(self, program: Program) -> None:
        """Raises EngineError when the second engine refuses the program; the old one stays."""
        if self.durable is not None:
            try:
                self.durable.load(program)
                self.trouble = ""
            except EngineError as error:
                if error.reason in REFUSALS:
                    raise
                self.trouble = str(error)
        self._take(program)

    def load_unchecked(self, program: Program, why: str) -> None:
        """Take a program that the second engine could not be made to take; it is tried later."""
        if self.durable is not None:
            self.durable.adopt(program, why)
        self.trouble = why
        self._take(program)

    def _take(self, program: Program) -> None:
        self.reference.load(program)
        self._program, self._probes = program, probes_of(program)
        ids = {rule.id for rule in program.rules}
        self.quarantined = {id_: why for id_, why in self.quarantined.items() if id_ in ids}

    def evaluate(
        self, vectors: Sequence[Vector], selected: Sequence[frozenset[str]]
    ) -> list[Outcomes]:
        """`vectors` have the atoms' truths and any value for derived facts.

        selected  ids of the rules that select the node; of others the derived facts are false
        """
        atoms = len(self._program.atoms)
        width = self._program.width
        chains = [_Chain(v[:atoms], width, ids) for v, ids in zip(vectors, selected, strict=True)]
        for stratum, rules in enumerate(self._program.strata):
            now = [chain.vector for chain in chains]
            reference = self.reference.matches(stratum, now)
            second = self._second(stratum, now)
            if second is not None:
                second = self._settled(stratum, rules, now, reference, second, chains)
            for n, chain in enumerate(chains):
                answer = second[n] if second is not None else None
                chain.advance(rules, reference[n], answer, self.quarantined, self._probes)
        return [chain.outcomes for chain in chains]

    def _second(self, stratum: int, vectors: Sequence[Vector]) -> list[Outputs] | None:
        if self.durable is None:
            self.stats.unchecked += len(vectors)
            return None
        try:
            answers = self.durable.matches(stratum, vectors)
        except EngineError as error:
            self.trouble = str(error)
            self.stats.unchecked += len(vectors)
            return None
        self.trouble = ""
        return answers

    def _settled(
        self,
        stratum: int,
        rules: Sequence[CompiledRule],
        vectors: Sequence[Vector],
        reference: Sequence[Outputs],
        second: list[Outputs],
        chains: "Sequence[_Chain]",
    ) -> list[Outputs] | None:
        """Where they differ, ask a new child: if it agrees, the old one's memory was corrupt.

        None when the second engine counts as down. Only a rule that selects the node counts.
        """
        odd = [n for n, c in enumerate(chains) if _differing(rules, reference[n], second[n], c)]
        if not odd:
            return second
        self.stats.disagreements += len(odd)
        assert self.durable is not None
        try:
            self.durable.replace("disagreement")
            again = self.durable.matches(stratum, [vectors[n] for n in odd])
        except EngineError as error:
            self.trouble = str(error)
            self.stats.unchecked += len(vectors)
            return None
        disputed: set[str] = set()
        for n, answer in zip(odd, again, strict=True):
            differing = _differing(rules, reference[n], answer, chains[n])
            self.stats.corrupted += not differing
            disputed |= differing
            second[n] = answer
        if len(disputed) >= SEVERAL:
            self.trouble = f"the engines disagree about {len(disputed)} rules at once"
            self.stats.unchecked += len(vectors)
            return None
        for id_ in disputed:
            self.quarantined[id_] = "the engines disagree about it: observed only"
        return second


class _Chain:
    """One node on its way through the strata."""

    def __init__(self, atoms: Vector, width: int, selected: frozenset[str]) -> None:
        self.vector: Vector = (*atoms, *((Truth.FALSE,) * (width - len(atoms))))
        self.selected = selected
        self.outcomes: Outcomes = {}
        self._tainted: set[int] = set()
        self._unchecked: set[int] = set()

    def advance(
        self,
        rules: Sequence[CompiledRule],
        reference: Outputs,
        second: Outputs | None,
        quarantined: Container[str],
        probes: Mapping[int, str],
    ) -> None:
        """A rule once disputed stays so until its version changes."""
        derived: dict[int, Truth] = {}
        for rule in rules:
            if rule.id not in self.selected:
                for slot in rule.infers:
                    derived.setdefault(slot, Truth.FALSE)
                continue
            evidence = _truth(rule, "e", reference)
            guards = Truth.FALSE if rule.guards is None else _truth(rule, "g", reference)
            agreement = Agreement.DISPUTED
            if rule.id not in quarantined:
                agreement = self._label(rule, reference, second)
            true = sum(self.vector[slot] is Truth.TRUE for slot in rule.derived)
            others = without_counts(rule, self.vector)
            asked = worth_asking(rule, self.vector, probes)
            self.outcomes[rule.id] = Outcome(evidence, guards, agreement, true, others, asked)
            for slot in rule.infers:
                derived[slot] = derived.get(slot, Truth.FALSE) | evidence
                if agreement is Agreement.UNCHECKED:
                    self._unchecked.add(slot)
                elif agreement is not Agreement.AGREED:
                    self._tainted.add(slot)
        if derived:
            vector = list(self.vector)
            for slot, truth in derived.items():
                vector[slot] = truth
            self.vector = tuple(vector)

    def _label(self, rule: CompiledRule, reference: Outputs, second: Outputs | None) -> Agreement:
        if second is not None and names_of(rule, reference) != names_of(rule, second):
            return Agreement.DISPUTED
        if rule.reads & self._tainted:
            return Agreement.TAINTED
        if second is None or rule.reads & self._unchecked:
            return Agreement.UNCHECKED
        return Agreement.AGREED


def names_of(rule: CompiledRule, fired: Outputs) -> Outputs:
    """What fired of the outputs that both engines were given."""
    return frozenset(name for name in rule.given if name in fired)


def _truth(rule: CompiledRule, root: str, fired: Outputs) -> Truth:
    if rule.output(root, True) in fired:
        return Truth.TRUE
    return Truth.FALSE if rule.output(root, False) in fired else Truth.UNKNOWN


def _differing(
    rules: Sequence[CompiledRule], one: Outputs, other: Outputs, chain: _Chain
) -> set[str]:
    if one == other:
        return set()
    return {
        rule.id
        for rule in rules
        if rule.id in chain.selected and names_of(rule, one) != names_of(rule, other)
    }
