"""Facts of many nodes in, what each loaded rule says of them out.

Synchronous: it may block as long as the second engine may (rules.engines.durable). One thread
calls it. Nodes on which no evidence is true are remembered by what their leaves read, so that the
engines are not asked again, and by what they were made of, so that a heartbeat costs no reading
either (rules.unchanged); a match is asked of both engines every time.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rules.atoms import Reading, read
from rules.engines.crosscheck import Agreement, CrossCheck, Outcome, Outcomes
from rules.engines.durable import REFUSALS, DurableEngine, Spawn
from rules.engines.port import EngineError, Vector
from rules.facts import FactSet
from rules.loading import Sieve
from rules.program import CompiledRule, Program, Rule, compile_program, slots_of
from rules.truth import Truth
from rules.unchanged import Unchanged

__all__ = ["Agreement", "Diagnoser", "Diagnosis", "LoadReport", "Match"]

MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Match:
    """What one rule says of one node that it selects.

    true_leaves  leaves of the evidence that are true, derived facts too
    readings     of the leaves of the evidence that are no derived facts
    others       the evidence with every `sameFault` leaf taken as true
    probes       `probe.field` of those whose answers alone could complete the match
    """

    rule_id: str
    evidence: Truth
    guards: Truth
    agreement: Agreement
    true_leaves: int = 0
    readings: tuple[Reading, ...] = ()
    others: Truth = Truth.UNKNOWN
    probes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All rules that select the node, in the order of choice: priority, most true leaves, name.

    flips_at  the earliest instant at which a reading changes with nothing but time
    """

    node: str
    matches: tuple[Match, ...] = ()
    flips_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LoadReport:
    """By rule id: why a rule was refused, and why a loaded one may not act."""

    rejected: Mapping[str, str] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)


class Diagnoser:
    """spawn  starts the second engine's child; None: there is none, everything is unchecked"""

    def __init__(
        self, spawn: Spawn | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        durable = DurableEngine(spawn, monotonic) if spawn is not None else None
        self.check = CrossCheck(durable)
        self._program = Program()
        self._quiet: OrderedDict[tuple[Vector, frozenset[str]], Outcomes] = OrderedDict()
        self._quiet_under: dict[str, str] = {}
        self._unchanged: Unchanged[Diagnosis] = Unchanged(self._program)
        self._selected: dict[frozenset[tuple[str, str]], _Selection] = {}

    def load(self, rules: Sequence[Rule]) -> LoadReport:
        """Replace the program by the rules that compile and that the second engine takes.

        Never raises for the second engine: without it all stays unchecked, `check.trouble` why.
        """
        program = compile_program(rules)
        rejected = {error.rule: f"{error.path}: {error.message}" for error in program.rejected}
        try:
            self.check.load(program)
        except EngineError as error:
            program, refused = self._sifted(program, error)
            rejected |= refused
        self._program = program
        self._quiet.clear()
        self._unchanged = Unchanged(program)
        self._selected.clear()
        return LoadReport(rejected, dict(self.check.quarantined))

    def close(self) -> None:
        if self.check.durable is not None:
            self.check.durable.close()

    def _sifted(self, program: Program, error: EngineError) -> tuple[Program, dict[str, str]]:
        """Load what the second engine takes; what was loaded, and why it refuses the others."""
        assert self.check.durable is not None
        trial = DurableEngine(*self.check.durable.parts)
        sieve = Sieve(trial, program, REFUSALS)
        try:
            found = sieve.sift()
            trial.close()
            self.check.load(found)
        except EngineError as failed:
            # It takes them one time and not another: no rule is to blame, and none may act.
            self.check.load_unchecked(program, f"{error}; then: {failed}")
            return program, {}
        finally:
            trial.close()
        return found, sieve.refused

    def diagnose(self, factsets: Sequence[FactSet], now: datetime) -> list[Diagnosis]:
        """One Diagnosis for each FactSet, in order."""
        if self._quiet_under != self.check.quarantined:  # what was remembered was said before it
            self._quiet.clear()
            self._unchanged.clear()
            self._quiet_under = dict(self.check.quarantined)
        said = [self._unchanged.recall(facts, now) for facts in factsets]
        new = [facts for facts, known in zip(factsets, said, strict=True) if known is None]
        found = iter(self._diagnosed(new, now))
        return [known if known is not None else next(found) for known in said]

    def _diagnosed(self, factsets: Sequence[FactSet], now: datetime) -> list[Diagnosis]:
        program = self._program
        cases = [_Case(program, facts, self._selection(facts.labels), now) for facts in factsets]
        unknown = [case for case in cases if (case.vector, case.selected) not in self._quiet]
        asked = self.check.evaluate([c.vector for c in unknown], [c.selected for c in unknown])
        fresh = {id(case): outcomes for case, outcomes in zip(unknown, asked, strict=True)}
        for case, outcomes in zip(unknown, asked, strict=True):
            self._remember(case, outcomes)
        found = []
        for case in cases:
            outcomes = fresh[id(case)] if id(case) in fresh else self._recall(case)
            found.append(case.diagnosis(outcomes))
            if _quiet(outcomes):
                self._unchanged.keep(case.facts, now, case.flips_at, found[-1])
        return found

    def _selection(self, labels: Mapping[str, str]) -> "_Selection":
        """The rules that select a node with these labels: most nodes have those of many others."""
        key = frozenset(labels.items())
        found = self._selected.get(key)
        if found is None:
            if len(self._selected) >= MOST_REMEMBERED:
                self._selected.clear()
            found = self._selected[key] = _Selection(self._program, labels)
        return found

    def _remember(self, case: "_Case", outcomes: Outcomes) -> None:
        if not _quiet(outcomes):
            return
        self._quiet[case.vector, case.selected] = outcomes
        while len(self._quiet) > MOST_REMEMBERED:
            self._quiet.popitem(last=False)

    def _recall(self, case: "_Case") -> Outcomes:
        key = case.vector, case.selected
        found = self._quiet.get(key)
        if found is None:  # pushed out by the others of this batch
            found = self.check.evaluate([case.vector], [case.selected])[0]
        return found


def _quiet(outcomes: Outcomes) -> bool:
    """Both engines agree that nothing matches."""
    return all(
        o.evidence is not Truth.TRUE and o.agreement is Agreement.AGREED for o in outcomes.values()
    )


class _Selection:
    """The rules that select a node, and the atoms that they read."""

    def __init__(self, program: Program, labels: Mapping[str, str]) -> None:
        have = dict(labels)
        self.rules = [r for r in program.rules if r.rule.remedier.spec.nodes.matches(have)]
        self.ids = frozenset(rule.id for rule in self.rules)
        atoms = len(program.atoms)
        self.atoms = {slot for rule in self.rules for slot in rule.slots if slot < atoms}


class _Case:
    """One node: what its leaves read, and which rules select it."""

    def __init__(
        self, program: Program, facts: FactSet, selection: _Selection, now: datetime
    ) -> None:
        self.facts = facts
        self._rules, self.selected = selection.rules, selection.ids
        self._readings = [read(leaf, facts, now) for leaf in program.atoms]
        truths = (reading.truth for reading in self._readings)
        self.vector: Vector = (*truths, *((Truth.FALSE,) * len(program.derived)))
        flips = (self._readings[slot].flips_at for slot in selection.atoms)
        self.flips_at = min((at for at in flips if at is not None), default=None)
        """The earliest instant at which a reading of the rules that select it changes."""

    def diagnosis(self, outcomes: Outcomes) -> Diagnosis:
        found = [(rule, self._match(rule, outcomes[rule.id])) for rule in self._rules]
        found.sort(key=_choice)
        matches = tuple(match for _, match in found)
        return Diagnosis(self.facts.node, matches, self.flips_at)

    def _match(self, rule: CompiledRule, outcome: Outcome) -> Match:
        slots = dict.fromkeys(slots_of(rule.evidence))
        atoms = [slot for slot in slots if slot < len(self._readings)]
        readings = tuple(self._readings[slot] for slot in atoms)
        return Match(
            rule.id,
            outcome.evidence,
            outcome.guards,
            outcome.agreement,
            sum(reading.truth is Truth.TRUE for reading in readings) + outcome.derived,
            readings,
            outcome.others,
            outcome.probes,
        )


def _choice(found: tuple[CompiledRule, Match]) -> tuple[int, int, str, int]:
    """Of one name the older generation comes first."""
    rule, match = found
    name, _, generation = rule.id.partition("@")
    age = int(generation) if generation.isdecimal() else 0
    return (-rule.rule.remedier.spec.priority, -match.true_leaves, name, age)
