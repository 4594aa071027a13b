"""Evaluates one node through the strata, starting from its previous answers.

Only rules that read a changed slot are evaluated again. Derived facts follow the reference's
answers, not the intersection of both engines: dropping a disputed fact would make `not fact` true.
"""

from typing import NamedTuple

from rules.engines.plan import EvaluationPlan
from rules.engines.port import FALSE, TRUE, EngineQuestion, Vector
from rules.engines.verdicts import EngineVerdict, Verdicts
from rules.match import Agreement, Match


class EngineAnswers(NamedTuple):
    """Answers of the engines about all rules that select a node.

    vector: truths of atoms and derived facts
    matches: by number of the rule; None: the rule does not select the node
    acting: matching rules on which an act depends
    unchecked: rules without an answer of the second engine, though there is one
    """

    vector: Vector
    matches: tuple[Match | None, ...]
    acting: frozenset[int]
    unchecked: frozenset[int]


class EngineCase(NamedTuple):
    """A node to evaluate.

    atoms: truths of the atoms, one byte each as in a vector
    selected: numbers of the rules that select the node; derived facts of others are false
    before: previous answers for the same selection; None: there are none
    """

    atoms: Vector
    selected: frozenset[int]
    before: EngineAnswers | None = None


class Chain:
    def __init__(self, plan: EvaluationPlan, verdicts: Verdicts, case: EngineCase) -> None:
        self._plan, self._verdicts, self._case = plan, verdicts, case
        before = case.before
        if before is None:
            self.vector: Vector = case.atoms + bytes(len(plan.inferring) - plan.atoms)
            self._touched = set(case.selected)
            acting: frozenset[int] = frozenset()
        else:
            self.vector = case.atoms + before.vector[plan.atoms :]
            self._touched = self._readers(_differing(case.atoms, before.vector))
            acting = before.acting
        self._known: dict[int, EngineVerdict] = {}
        self._advance()
        self.acting = (acting - self._known.keys()) | {
            number for number, verdict in self._known.items() if verdict.evidence == TRUE
        } & plan.acting
        self._questioned: frozenset[int] = frozenset()

    def _readers(self, slots: list[int]) -> set[int]:
        readers = {number for slot in slots for number in self._plan.readers[slot]}
        return readers & self._case.selected

    def _advance(self) -> None:
        for members in self._plan.strata:
            if not self._touched:
                return
            now = self._touched & members
            for number in now:
                self._known[number] = self._verdicts.of(number, self.vector)
            self._touched -= now
            slots = {slot for number in now for slot in self._plan.rules[number].infers}
            changed = [slot for slot in slots if self._infer(slot)]
            self._touched |= self._readers(changed)

    def _infer(self, slot: int) -> bool:
        """Set the derived fact, which is true if a rule infers it; return whether it changed."""
        numbers = [n for n in self._plan.inferring[slot] if n in self._case.selected]
        value = max((self._verdict(number).evidence for number in numbers), default=FALSE)
        if self.vector[slot] == value:
            return False
        vector = bytearray(self.vector)
        vector[slot] = value
        self.vector = bytes(vector)
        return True

    def _verdict(self, number: int) -> EngineVerdict:
        known = self._known.get(number)
        return known if known is not None else self._verdicts.of(number, self.vector)

    def questions(self, quarantined: frozenset[int]) -> list[EngineQuestion]:
        """Return the questions for the second engine.

        They cover matching rules on which an act depends, with the rules they depend on, and
        answers that were not checked before.
        """
        plan, before = self._plan, self._case.before
        acting = self.acting - quarantined
        questioned = set(acting).union(*(plan.upstream[number] for number in acting))
        questioned &= self._case.selected
        questioned |= {number for number, verdict in self._known.items() if not verdict.agreed}
        if before is not None:
            questioned |= {n for n in before.unchecked if not self._verdict(n).agreed}
        questioned -= quarantined
        self._questioned = frozenset(questioned)
        if len(plan.strata) == 1:
            return [EngineQuestion(0, self.vector, self._questioned)] if questioned else []
        by_stratum = enumerate(members & questioned for members in plan.strata)
        return [EngineQuestion(stratum, self.vector, some) for stratum, some in by_stratum if some]

    def answers(
        self, quarantined: frozenset[int], *, second: bool, answered: bool
    ) -> EngineAnswers:
        """Return the answers with their labels.

        second: there is a second engine
        answered: it answered like the reference, except about quarantined rules
        """
        if answered:
            for number in self._questioned - quarantined:
                self._verdict(number).agreed = True
        before = self._case.before
        even = not quarantined and (answered or not second)
        if before is not None and not before.unchecked and even:
            if not self._known:
                return before
            label = Agreement.AGREED if second else Agreement.UNCHECKED
            matches = list(before.matches)
            for number, verdict in self._known.items():
                matches[number] = self._verdicts.match(number, verdict, label, self.vector)
            return EngineAnswers(self.vector, tuple(matches), self.acting, frozenset())
        return self._labelled(quarantined, second, answered)

    def _labelled(self, quarantined: frozenset[int], second: bool, answered: bool) -> EngineAnswers:
        """Label all rules, stratum by stratum, because a label may follow from an inferring
        rule.
        """
        matches: list[Match | None] = [None] * len(self._plan.rules)
        tainted: set[int] = set()
        unsure: set[int] = set()
        unchecked = set()
        for members in self._plan.strata:
            for number in members & self._case.selected:
                rule, verdict = self._plan.rules[number], self._verdict(number)
                if number in quarantined:
                    label = Agreement.DISPUTED
                elif rule.reads & tainted:
                    label = Agreement.TAINTED
                elif self._silent(number, verdict, answered) or rule.reads & unsure:
                    label = Agreement.UNCHECKED
                    unchecked.add(number)
                else:
                    label = Agreement.AGREED
                if label is Agreement.UNCHECKED:
                    unsure.update(rule.infers)
                elif label is not Agreement.AGREED:
                    tainted.update(rule.infers)
                matches[number] = self._verdicts.match(number, verdict, label, self.vector)
        unanswered = frozenset(unchecked) if second else frozenset[int]()
        return EngineAnswers(self.vector, tuple(matches), self.acting - quarantined, unanswered)

    def _silent(self, number: int, verdict: EngineVerdict, answered: bool) -> bool:
        """Return whether the second engine has not answered about the rule, now or before."""
        return not verdict.agreed or (number in self._questioned and not answered)


def _differing(first: Vector, other: Vector) -> list[int]:
    """Return the slots that differ. `other` may be longer."""
    if other.startswith(first):
        return []
    return [slot for slot, (a, b) in enumerate(zip(first, other, strict=False)) if a != b]
