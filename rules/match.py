"""Answer of the engines about one rule on one node."""

from dataclasses import dataclass
from enum import Enum

from rules.atoms import LeafReading
from rules.truth import Truth


class Agreement(Enum):
    """Whether the engines agree.

    AGREED: both give the same outputs (of those in rules.program._given), and nothing that the rule
    reads is disputed
    DISPUTED: the rule is quarantined, because the engines differ
    TAINTED: the rule reads, directly or not, a fact that a disputed rule infers
    UNCHECKED: the second engine gave no answer, or there is none
    """

    AGREED = "agreed"
    DISPUTED = "disputed"
    TAINTED = "tainted"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Match:
    """Answer about one rule that selects the node.

    true_leaves: number of true leaves of the evidence, including derived facts
    readings: of the evidence's leaves that are not derived facts, if the evidence is true
    others: the evidence with every `sameFault` leaf assumed true
    probes: `probe.field` of probes whose answers alone could complete the match
    """

    rule_id: str
    evidence: Truth
    guards: Truth
    agreement: Agreement
    true_leaves: int = 0
    readings: tuple[LeafReading, ...] = ()
    others: Truth = Truth.UNKNOWN
    probes: tuple[str, ...] = ()
