"""Checks: questions that a detector asks of its host again and again.

A check looks and says what it found. How often it is asked, how many looks in a row it takes until
a condition changes, and who hears of it are not its own matter (agent.detectors.checks.detector).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

CANNOT_RUN = "CheckCannotRun"
"""Reason of an Unknown condition whose check is broken, and of the Event that says so."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look found of one condition.

    faulty  True, False, or None: it cannot be told
    reason  one word
    message what was looked at and what it was, for people
    """

    faulty: bool | None
    reason: str
    message: str


Findings = Mapping[str, Finding]
"""By condition type."""


class Check(Protocol):
    """conditions  every type that a look may speak of; one left out of an answer is unchanged"""

    @property
    def name(self) -> str: ...

    @property
    def conditions(self) -> tuple[str, ...]: ...

    async def inspect(self) -> Findings:
        """Raises agent.probes.CannotAnswer when nothing can be told: the check is broken."""
        ...
