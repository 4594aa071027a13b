"""Evaluates with both engines, and labels each rule's answer (rules.match.Agreement).

The reference evaluates the strata in order (rules.engines.chain). Then the second engine answers
questions about the resulting vectors of all strata at once. A disputed rule stays quarantined until
its version changes or a person releases it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from rules.engines.chain import Chain, EngineAnswers, EngineCase
from rules.engines.disputes import DisputeRecord, dispute, names_of
from rules.engines.durable import REFUSALS, DurableEngine
from rules.engines.plan import EvaluationPlan
from rules.engines.port import EngineError, EngineQuestion, Outputs
from rules.engines.reference import ReferenceEngine
from rules.engines.verdicts import Verdicts
from rules.program import RuleProgram

SEVERAL = 3
"""If this many rules are disputed at once, the second engine counts as down, not the rules."""


@dataclass(slots=True)
class CrosscheckStats:
    """Counters since the start, for metrics. `unchecked` counts evaluations of nodes."""

    disagreements: int = 0
    unchecked: int = 0
    corrupted: int = 0


class CrossCheck:
    """Compares both engines. durable: None: there is no second engine, and all is unchecked."""

    def __init__(self, durable: DurableEngine | None) -> None:
        self.reference = ReferenceEngine()
        self.durable = durable
        self.stats = CrosscheckStats()
        self.quarantined: dict[str, str] = {}
        """Rule id to the reason why its matches may not act."""
        self.disputes: dict[str, DisputeRecord] = {}
        """Rule id to the last dispute about it."""
        self.trouble = "" if durable is not None else "there is no second engine"
        """Why the second engine gives no answers; "" while it does."""
        self._down = False
        """Whether the trouble is that the second engine has no child."""
        self.plan = EvaluationPlan(RuleProgram())
        self._verdicts = Verdicts(self.plan, self.reference)

    # -- programs

    def load(self, program: RuleProgram) -> None:
        """Load a program. Raises EngineError if the second engine refuses it: then the old one
        stays.
        """
        if self.durable is not None:
            try:
                self.durable.load(program)
                self._down, self.trouble = False, ""
            except EngineError as error:
                if error.reason in REFUSALS:
                    raise
                self._down, self.trouble = True, str(error)
        self._take(program)

    def load_unchecked(self, program: RuleProgram, why: str) -> None:
        """Take a program that the second engine could not load; it is loaded there later."""
        if self.durable is not None:
            self.durable.adopt(program, why)
        self._down, self.trouble = self.durable is not None, why
        self._take(program)

    def _take(self, program: RuleProgram) -> None:
        self.reference.load(program)
        self.plan = EvaluationPlan(program)
        self._verdicts = Verdicts(self.plan, self.reference)
        ids = {rule.id for rule in program.rules}
        self.quarantined = {id_: why for id_, why in self.quarantined.items() if id_ in ids}
        self.disputes = {id_: record for id_, record in self.disputes.items() if id_ in ids}

    def release(self, rule_id: str) -> bool:
        """Release a rule after a person's decision; return whether it was quarantined.

        Its answers are compared again.
        """
        self.disputes.pop(rule_id, None)
        return self.quarantined.pop(rule_id, None) is not None

    # -- questions

    def tend(self) -> None:
        """Restart a second engine that is down, once it is due. Called between evaluations."""
        if self._down and self._second().revived():
            self._down, self.trouble = False, ""

    def evaluate(self, cases: Sequence[EngineCase], now: datetime) -> list[EngineAnswers]:
        if not cases:
            return []
        chains = [Chain(self.plan, self._verdicts, case) for case in cases]
        if self.durable is None:
            self.stats.unchecked += len(chains)
            return [self._answers(chain, answered=False) for chain in chains]
        quarantined = self._quarantined_numbers()
        questions = dict.fromkeys(
            question for chain in chains for question in chain.questions(quarantined)
        )
        answered = not questions or self._agree(list(questions), now)
        if not answered:
            self.stats.unchecked += len(chains)
        return [self._answers(chain, answered=answered) for chain in chains]

    def _answers(self, chain: Chain, *, answered: bool) -> EngineAnswers:
        return chain.answers(
            self._quarantined_numbers(), second=self.durable is not None, answered=answered
        )

    def _quarantined_numbers(self) -> frozenset[int]:
        """Return the numbers of the quarantined rules."""
        return self.plan.of(self.quarantined) if self.quarantined else frozenset()

    def _agree(self, questions: Sequence[EngineQuestion], now: datetime) -> bool:
        """Compare the engines; return False if the second one counts as down.

        Rules that it disputes are in `quarantined` afterwards.
        """
        reference = self.reference.matches(questions)
        try:
            second = self._second().matches(questions)
            odd = self._odd(questions, reference, second)
            if odd:
                self.stats.disagreements += len(odd)
                return self._settle([questions[n] for n in odd], [reference[n] for n in odd], now)
        except EngineError as error:
            self._down, self.trouble = True, str(error)
            return False
        self._down, self.trouble = False, ""
        return True

    def _second(self) -> DurableEngine:
        assert self.durable is not None
        return self.durable

    def _settle(
        self, questions: Sequence[EngineQuestion], reference: Sequence[Outputs], now: datetime
    ) -> bool:
        """Ask a new child. If it agrees, the memory of the old one was corrupt."""
        self._second().replace("disagreement")
        again = self._second().matches(questions)
        disputed: dict[int, DisputeRecord] = {}
        for question, first, other in zip(questions, reference, again, strict=True):
            differing = self._differing(question, first, other)
            self.stats.corrupted += not differing
            for number in differing:
                rule = self.plan.rules[number]
                record = dispute(self.plan.program, rule, question, first, other, now)
                disputed.setdefault(number, record)
        if len(disputed) >= SEVERAL:
            self.trouble = f"the engines disagree about {len(disputed)} rules at once"
            return False
        self.trouble = ""
        for record in disputed.values():
            self._quarantine(record)
        return True

    def _quarantine(self, record: DisputeRecord) -> None:
        self.quarantined[record.rule_id] = record.summary
        self.disputes[record.rule_id] = record

    def _odd(
        self,
        questions: Sequence[EngineQuestion],
        reference: Sequence[Outputs],
        second: Sequence[Outputs],
    ) -> list[int]:
        answers = enumerate(zip(questions, reference, second, strict=True))
        return [n for n, (question, a, b) in answers if a != b and self._differing(question, a, b)]

    def _differing(
        self, question: EngineQuestion, first: Outputs, other: Outputs
    ) -> Collection[int]:
        assert question.rules is not None
        rules = self.plan.rules
        return {n for n in question.rules if names_of(rules[n], first) != names_of(rules[n], other)}
