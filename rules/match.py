"""What the engines say of one rule on one node."""

from dataclasses import dataclass
from enum import Enum

from rules.atoms import LeafReading
from rules.truth import Truth


class Agreement(Enum):
    """
    AGREED     both say the same of what both were given (rules.program._given), and nothing that
               the rule reads is disputed
    DISPUTED   exactly one of them says it
    TAINTED    the rule reads, directly or not, a fact that a disputed rule infers
    UNCHECKED  the second engine gave no answer, or there is none
    """

    AGREED = "agreed"
    DISPUTED = "disputed"
    TAINTED = "tainted"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Match:
    """What one rule says of one node that it selects.

    true_leaves  leaves of the evidence that are true, derived facts too
    readings     when the evidence is true: of its leaves that are no derived facts
    others       the evidence with every `sameFault` leaf taken as true
    probes       `probe.field` of those whose answers alone could complete the match
    """

    rule_id: str
    evidence: Truth
    guards: Truth
    agreement: Agreement
    true_leaves: int = 0
    readings: tuple[LeafReading, ...] = ()
    others: Truth = Truth.UNKNOWN
    probes: tuple[str, ...] = ()
