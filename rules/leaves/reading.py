"""What a leaf was found to be."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from rules.truth import Truth


@dataclass(frozen=True, slots=True)
class Reading:
    """What a leaf was found to be.

    evidence     a sentence without ticking values
    source       who said so, such as `Node condition`; "" for nobody
    observed_at  when that was reported; None for what has no time
    flips_at     when the answer would change with nothing but time; None for never
    """

    truth: Truth
    evidence: str
    value: object = None
    source: str = ""
    observed_at: datetime | None = None
    flips_at: datetime | None = None


def span(time: timedelta) -> str:
    """Such as `90s`."""
    return f"{time.total_seconds():g}s"


def earliest(*instants: datetime | None) -> datetime | None:
    """None stands for never."""
    return min((at for at in instants if at is not None), default=None)
