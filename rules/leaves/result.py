"""What a leaf was found to be."""

from dataclasses import dataclass
from datetime import datetime

from rules.truth import Truth


@dataclass(frozen=True, slots=True)
class LeafReading:
    """What a leaf was found to be.

    subject      what was looked at, such as `condition KernelDeadlock`
    finding      what was found of it, without ticking values, such as `is True (DockerHung)`
    source       who said so, such as `Node condition`; "" for nobody
    observed_at  when that was reported; None for what has no time
    flips_at     when the answer would change with nothing but time; None for never
    """

    truth: Truth
    subject: str
    finding: str
    value: object = None
    source: str = ""
    observed_at: datetime | None = None
    flips_at: datetime | None = None

    @property
    def evidence(self) -> str:
        """A sentence without ticking values: it may go into the status of an object."""
        return f"{self.subject} {self.finding}"


def earliest(*instants: datetime | None) -> datetime | None:
    """None stands for never."""
    return min((at for at in instants if at is not None), default=None)
