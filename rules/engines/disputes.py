"""Records of disagreements between the engines, for people who investigate them."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from rules.atoms import describe
from rules.engines.port import TRUTHS, EngineQuestion, Outputs
from rules.program import CompiledRule, RuleProgram


@dataclass(frozen=True, slots=True)
class DisputeRecord:
    """A disagreement about one rule.

    fact_hash: hash of the question: equal hashes mean the same question to the same rule
    fact: each leaf that the rule reads with its truth, such as `condition KernelDeadlock=True:
        true`
    reference, second: outputs that fired in the reference engine and in the second one
    """

    rule_id: str
    at: datetime
    fact_hash: str
    fact: tuple[str, ...]
    reference: tuple[str, ...]
    second: tuple[str, ...]

    @property
    def summary(self) -> str:
        """Return a sentence for a status or an Event. It names the fact by its hash."""
        return f"the engines disagree about it on fact {self.fact_hash}: observed only"


def dispute(
    program: RuleProgram,
    rule: CompiledRule,
    question: EngineQuestion,
    reference: Outputs,
    second: Outputs,
    at: datetime,
) -> DisputeRecord:
    fact = tuple(_fact(program, rule, question))
    digest = hashlib.sha256("\n".join((rule.id, *fact)).encode(errors="replace")).hexdigest()[:16]
    names = [tuple(sorted(names_of(rule, fired))) for fired in (reference, second)]
    return DisputeRecord(rule.id, at, digest, fact, *names)


def names_of(rule: CompiledRule, fired: Outputs) -> Outputs:
    """Return the fired outputs that both engines know."""
    return frozenset(name for name in rule.given if name in fired)


def _fact(program: RuleProgram, rule: CompiledRule, question: EngineQuestion) -> Iterator[str]:
    atoms = len(program.atoms)
    for slot in rule.slots:
        truth = TRUTHS[question.vector[slot]].name.lower()
        if slot < atoms:
            yield f"{describe(program.atoms[slot])}: {truth}"
        else:
            yield f"derived {program.derived[slot - atoms]}: {truth}"
