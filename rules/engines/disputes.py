"""What the engines disagreed about, for those who look into it."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from rules.atoms import describe
from rules.engines.port import TRUTHS, EngineQuestion, Outputs
from rules.program import CompiledRule, RuleProgram


@dataclass(frozen=True, slots=True)
class DisputeRecord:
    """
    fact_hash  of what was asked: the same hash is the same question to the same rule
    fact       each leaf that the rule reads with what was known of it, such as
               `condition KernelDeadlock=True: true`
    reference  outputs that fired in the reference engine; `second` in the other one
    """

    rule_id: str
    at: datetime
    fact_hash: str
    fact: tuple[str, ...]
    reference: tuple[str, ...]
    second: tuple[str, ...]

    @property
    def summary(self) -> str:
        """One sentence for a status or an Event; the fact is named by its hash."""
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
    """What fired of the outputs that both engines were given."""
    return frozenset(name for name in rule.given if name in fired)


def _fact(program: RuleProgram, rule: CompiledRule, question: EngineQuestion) -> Iterator[str]:
    atoms = len(program.atoms)
    for slot in rule.slots:
        truth = TRUTHS[question.vector[slot]].name.lower()
        if slot < atoms:
            yield f"{describe(program.atoms[slot])}: {truth}"
        else:
            yield f"derived {program.derived[slot - atoms]}: {truth}"
