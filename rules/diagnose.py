"""Evaluates all loaded rules on the facts of many nodes.

It is synchronous, may block as long as the second engine may (rules.engines.durable), and is called
by one thread. For each node it remembers the readings of atoms and the answers. It reads only atoms
again that changed facts touch (rules.invalidation) or that are due (rules.due). It evaluates only
rules again that use an atom with a new truth (rules.engines.chain). Nodes with the same truths
share one answer. Both engines evaluate a match each time if an act depends on it.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rules.atoms import LeafReading, read
from rules.due import Due, passed, planned
from rules.engines.chain import EngineAnswers, EngineCase
from rules.engines.crosscheck import CrossCheck
from rules.engines.durable import REFUSALS, DurableEngine, Spawn
from rules.engines.port import EngineError, Vector, byte_of, vector_of
from rules.facts import FactSet
from rules.invalidation import Touched
from rules.load_limits import Limited, Sieve
from rules.match import Agreement, Match
from rules.program import CompiledRule, RuleProgram, RuleVersion, slots_of
from rules.selection import RuleSelection, Selections
from rules.truth import Truth

__all__ = ["Agreement", "Diagnoser", "Diagnosis", "LoadReport", "Match"]

MOST_SHARED = 4096
"""Bound on answers that nodes share, each some 20 bytes for each rule."""
MOST_NODES = 20_000
"""Bound on remembered nodes. Further nodes are evaluated from the start each time."""
_IDLE_LIMIT = timedelta(hours=1)
"""A node that was not evaluated for this long makes room for another one."""
_BLANK = FactSet(node="")
"""Facts of an unknown node, from which each node starts."""
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All rules that select the node, ordered by priority, most true leaves, name.

    flips_at: no reading changes by time alone before it; None: never
    """

    node: str
    matches: tuple[Match, ...] = ()
    flips_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LoadReport:
    """By rule id: why a rule was refused, and why a loaded one may not act."""

    rejected: Mapping[str, str] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)


class _SharedAnswer(NamedTuple):
    """Answer that nodes with the same truths share.

    vector: the one object for all nodes with these truths of their atoms
    quiet: no act depends on the answer and it is checked, so it may be reused
    """

    vector: Vector
    answers: EngineAnswers
    matches: tuple[Match, ...]
    quiet: bool
    true: tuple[int, ...]
    """Indices of `matches` with true evidence: their readings differ from node to node."""


@dataclass(slots=True)
class _NodeDiagnosis:
    """What is remembered of a node.

    `vector` has the truths of its atoms for `facts` at `at`. With the same facts each holds until
    it is `due`. Atoms that no rule of the node's selection uses stay blank.
    """

    facts: FactSet
    at: datetime
    due: Due
    vector: Vector
    selection: RuleSelection
    shared: _SharedAnswer | None = None


class Diagnoser:
    """Evaluates rules. spawn: starts the second engine's child; None: there is none, and all
    answers are unchecked.
    """

    def __init__(
        self, spawn: Spawn | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        durable = DurableEngine(spawn, monotonic) if spawn is not None else None
        self.check = CrossCheck(durable)
        self._program = RuleProgram()
        self._known_quarantines: dict[str, str] = {}
        self.forget()

    def load(self, rules: Sequence[RuleVersion]) -> LoadReport:
        """Replace the program by the rules that compile and that the second engine accepts.

        Never raises if the second engine fails: then all is unchecked, and `check.trouble` tells
        why.
        """
        limited = Limited(rules, {rule.id for rule in self._program.rules})
        program, rejected = limited.program, limited.refused
        try:
            self.check.load(program)
        except EngineError as error:
            program, refused = self._sifted(program, error)
            rejected |= refused
        self._program = program
        self.forget()
        return LoadReport(rejected, dict(self.check.quarantined))

    def close(self) -> None:
        if self.check.durable is not None:
            self.check.durable.close()

    def _sifted(
        self, program: RuleProgram, error: EngineError
    ) -> tuple[RuleProgram, dict[str, str]]:
        """Load what the second engine accepts; return that program and why the others are
        refused.
        """
        assert self.check.durable is not None
        trial = DurableEngine(*self.check.durable.parts)
        sieve = Sieve(trial, program, REFUSALS)
        try:
            accepted = sieve.sift()
            trial.close()
            self.check.load(accepted)
        except EngineError as failed:
            # The second engine is not consistent: no rule is at fault, and none may act.
            self.check.load_unchecked(program, f"{error}; then: {failed}")
            return program, {}
        finally:
            trial.close()
        return accepted, sieve.refused

    def diagnose(self, factsets: Sequence[FactSet], now: datetime) -> list[Diagnosis]:
        """Return one Diagnosis for each FactSet, in order."""
        self.check.tend()
        self._heed_quarantines()
        states = [self._observe(facts, now) for facts in factsets]
        pending = [state for state in states if state.shared is None]
        cases = [self._case(state) for state in pending]
        for state, answers in zip(pending, self.check.evaluate(cases, now), strict=True):
            state.shared = self._shared(state, answers)
            state.vector = state.shared.vector
        diagnoses = [self._make_diagnosis(state, now) for state in states]
        self._heed_quarantines()
        return diagnoses

    def _heed_quarantines(self) -> None:
        """Forget everything if the quarantined rules changed, because answers depend on them."""
        if self._known_quarantines != self.check.quarantined:
            self.forget()
            self._known_quarantines = dict(self.check.quarantined)

    def forget(self) -> None:
        """Forget all nodes, so that each is evaluated from the start."""
        program = self._program
        self._touched = Touched(program)
        self._evidence = {rule.id: _atoms_of(rule, len(program.atoms)) for rule in program.rules}
        self._selections = Selections(program)
        blank = [read(atom, _BLANK, _ANY_TIME) for atom in program.atoms]
        self._blank = vector_of(reading.truth for reading in blank)
        self._by_the_clock = {n for n, reading in enumerate(blank) if reading.flips_at is not None}
        """Atoms whose readings depend on time even if nothing is known of a node."""
        self._nodes: OrderedDict[str, _NodeDiagnosis] = OrderedDict()
        self._shares: OrderedDict[tuple[Vector, RuleSelection], _SharedAnswer] = OrderedDict()
        self._first: dict[RuleSelection, EngineAnswers] = {}
        """For each selection, an answer to start from."""

    # -- one node

    def _observe(self, facts: FactSet, now: datetime) -> _NodeDiagnosis:
        """Return the node's present state. `shared` is set if the node need not be evaluated."""
        known = self._nodes.get(facts.node)
        if known is not None and known.facts.labels == facts.labels:
            selection = known.selection
        else:
            selection = self._selections.of(facts.labels)
        if (
            known is None
            or known.selection is not selection
            or known.facts.uid != facts.uid
            or now < known.at
        ):
            known = _NodeDiagnosis(_BLANK, now, (), self._blank, selection)
        due, vector = known.due, known.vector
        slots = self._touched.between(known.facts, facts, vector)
        if due and due[0][0] <= now:
            late, due = passed(due, now)
            slots |= late
        if known.facts is _BLANK:
            slots |= self._by_the_clock
        slots &= selection.atoms
        if slots:
            due, read_now = self._read(slots, facts, now, due, vector)
            vector = vector if read_now == vector else read_now
        state = _NodeDiagnosis(facts, now, due, vector, selection)
        same = known.shared if vector == known.vector else None
        shared = same or self._shares.get((vector, selection))
        if shared is not None and shared.quiet:
            state.shared, state.vector = shared, shared.vector
        return state

    def _read(
        self, slots: set[int], facts: FactSet, now: datetime, due: Due, vector: Vector
    ) -> tuple[Due, Vector]:
        truths, flips = bytearray(vector), []
        for slot in slots:
            reading = read(self._program.atoms[slot], facts, now)
            truths[slot] = byte_of(reading.truth)
            if reading.flips_at is not None:
                flips.append((reading.flips_at, slot))
        if flips or due:
            due = planned(due, slots, flips, now)
        return due, bytes(truths)

    def _case(self, state: _NodeDiagnosis) -> EngineCase:
        known = self._nodes.get(state.facts.node)
        before = None
        if known is not None and known.shared is not None and known.selection is state.selection:
            before = known.shared.answers
        if before is None:
            before = self._first.get(state.selection)
        return EngineCase(state.vector, state.selection.numbers, before)

    def _shared(self, state: _NodeDiagnosis, answers: EngineAnswers) -> _SharedAnswer:
        """Return the one shared object for equal answers."""
        key = state.vector, state.selection
        shared = self._shares.get(key)
        if shared is not None and shared.answers == answers:
            return shared
        matches = state.selection.ordered(answers.matches)
        true = tuple(n for n, match in enumerate(matches) if match.evidence is Truth.TRUE)
        quiet = not answers.acting and not answers.unchecked
        created = _SharedAnswer(state.vector, answers, matches, quiet, true)
        first = self._first.get(state.selection)
        if first is None or first.unchecked:
            self._first[state.selection] = answers
        self._shares[key] = created
        while len(self._shares) > MOST_SHARED:
            self._shares.popitem(last=False)
        return created

    def _make_diagnosis(self, state: _NodeDiagnosis, now: datetime) -> Diagnosis:
        assert state.shared is not None
        facts = state.facts
        self._keep(state, now)
        matches = state.shared.matches
        if state.shared.true:
            own = list(matches)
            for n in state.shared.true:
                own[n] = replace(own[n], readings=self._readings(own[n].rule_id, facts, now))
            matches = tuple(own)
        return Diagnosis(facts.node, matches, state.due[0][0] if state.due else None)

    def _keep(self, state: _NodeDiagnosis, now: datetime) -> None:
        name = state.facts.node
        if name not in self._nodes and len(self._nodes) >= MOST_NODES:
            # Nodes in use are not evicted: evicting the oldest would evict each node of a larger
            # cluster in turn, right before it is evaluated.
            oldest = next(iter(self._nodes))
            if now - self._nodes[oldest].at < _IDLE_LIMIT:
                return
            del self._nodes[oldest]
        state.facts = self._touched.remembered(state.facts)
        self._nodes[name] = state
        self._nodes.move_to_end(name)

    def _readings(self, rule_id: str, facts: FactSet, now: datetime) -> tuple[LeafReading, ...]:
        slots = self._evidence[rule_id]
        return tuple(read(self._program.atoms[slot], facts, now) for slot in slots)


def _atoms_of(rule: CompiledRule, atoms: int) -> tuple[int, ...]:
    """Return the atoms of the rule's evidence, in order, without duplicates."""
    return tuple(slot for slot in dict.fromkeys(slots_of(rule.evidence)) if slot < atoms)
