"""Reading of a leaf."""

from dataclasses import dataclass
from datetime import datetime

from rules.truth import Truth


@dataclass(frozen=True, slots=True)
class LeafReading:
    """Reading of a leaf.

    subject: what was read, such as `condition KernelDeadlock`
    finding: what was found, without ticking values, such as `is True (DockerHung)`
    source: who reported it, such as `Node condition`; "" if nothing did
    observed_at: when it was reported; None if it has no time
    flips_at: when time alone changes the answer; None: never
    holds_at: when the leaf becomes true if its fault lasts; None: it is true, or has no fault
    """

    truth: Truth
    subject: str
    finding: str
    value: object = None
    source: str = ""
    observed_at: datetime | None = None
    flips_at: datetime | None = None
    holds_at: datetime | None = None

    @property
    def evidence(self) -> str:
        """Return a sentence without ticking values, which may go into an object's status."""
        return f"{self.subject} {self.finding}"


def earliest(*instants: datetime | None) -> datetime | None:
    """Return the earliest instant; None stands for never."""
    return min((at for at in instants if at is not None), default=None)
