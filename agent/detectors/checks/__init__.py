"""Checks, which a detector runs repeatedly on its host.

A check inspects the host and returns findings. agent.detectors.checks.detector decides how often it
runs, how many equal findings change a condition, and who receives them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

CANNOT_RUN = "CheckCannotRun"
"""Reason of an UNKNOWN condition whose check is broken, and of the Event about it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one inspection for one condition.

    faulty: True, False, or None if it cannot be determined
    reason: one word
    message: what was inspected and its value, for people
    """

    faulty: bool | None
    reason: str
    message: str


Findings = Mapping[str, Finding]
"""Findings by condition type."""


class Check(Protocol):
    """A check. conditions: every type that it may report; a type without a finding is unchanged."""

    @property
    def name(self) -> str: ...

    @property
    def conditions(self) -> tuple[str, ...]: ...

    async def inspect(self) -> Findings:
        """Inspect the host. Raises agent.probes.CannotAnswer if the check is broken."""
        ...
