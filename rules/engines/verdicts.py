"""Caches what is known of a rule for given truths of its slots.

The engines are functions: the same truths give the same answer. So the reference's answer is
cached, and that the second engine agreed. A match on which an act depends is checked again every
time.
"""

from typing import NamedTuple

from rules.engines.plan import EvaluationPlan
from rules.engines.port import FALSE, TRUE, TRUTHS, UNKNOWN, EngineQuestion, Outputs, Vector
from rules.engines.reference import ReferenceEngine
from rules.hypotheses import without_counts, worth_asking
from rules.match import Agreement, Match
from rules.program import CompiledRule

MOST_VERDICTS = 1 << 16
"""Bound on verdicts, some 400 bytes each. Then all are dropped."""


class EngineVerdict:
    """Answer about one rule.

    agreed: the second engine agreed at least once
    matches: Match objects by label
    """

    __slots__ = ("agreed", "evidence", "guards", "matches", "true_leaves")

    def __init__(self, evidence: int, guards: int, true_leaves: int) -> None:
        self.evidence, self.guards, self.true_leaves = evidence, guards, true_leaves
        self.agreed = False
        self.matches: dict[Agreement, Match] = {}


class Truths(NamedTuple):
    evidence: int
    guards: int


class Verdicts:
    def __init__(self, plan: EvaluationPlan, reference: ReferenceEngine) -> None:
        self._plan, self._reference = plan, reference
        self._known: dict[tuple[int, object], EngineVerdict] = {}

    def of(self, number: int, vector: Vector) -> EngineVerdict:
        """Return the verdict on a rule. vector: has the derived facts that the rule reads."""
        key = number, self._plan.project[number](vector)
        verdict = self._known.get(key)
        if verdict is None:
            if len(self._known) >= MOST_VERDICTS:
                self._known.clear()
            verdict = self._known[key] = self._new(self._plan.rules[number], vector)
        return verdict

    def match(self, number: int, verdict: EngineVerdict, label: Agreement, vector: Vector) -> Match:
        """Return the Match. Nodes with the same answer share one object."""
        match = verdict.matches.get(label)
        if match is None:
            rule = self._plan.rules[number]
            match = verdict.matches[label] = Match(
                rule.id,
                TRUTHS[verdict.evidence],
                TRUTHS[verdict.guards],
                label,
                verdict.true_leaves,
                (),
                without_counts(rule, vector),
                worth_asking(rule, vector, self._plan.probes),
            )
        return match

    def _new(self, rule: CompiledRule, vector: Vector) -> EngineVerdict:
        question = EngineQuestion(rule.stratum, vector, frozenset((rule.number,)))
        truths = truths_of(rule, self._reference.matches([question])[0])
        true_leaves = sum(vector[slot] == TRUE for slot in self._plan.evidence_slots[rule.number])
        return EngineVerdict(truths.evidence, truths.guards, true_leaves)


def truths_of(rule: CompiledRule, fired: Outputs) -> Truths:
    guards = FALSE if rule.guards is None else _truth(rule, "g", fired)
    return Truths(_truth(rule, "e", fired), guards)


def _truth(rule: CompiledRule, root: str, fired: Outputs) -> int:
    if rule.output(root, True) in fired:
        return TRUE
    return FALSE if rule.output(root, False) in fired else UNKNOWN
