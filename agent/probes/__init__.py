"""Probes of this host: its present state. Probes only read, so that repeating one is harmless.

Names and units of the fields are those of the API's reference of probes. A field that cannot be
determined is omitted: unknown, never guessed.
"""

from collections.abc import Mapping
from typing import Protocol

Value = bool | int | float | str
Answer = Mapping[str, Value]
"""Values by field, such as `used_pct`."""


class CannotAnswer(Exception):
    """The host cannot be asked, or did not answer in time. The text holds the attempt."""


class Probes(Protocol):
    """Answers probes. The demo simulates hundreds of hosts behind it."""

    async def answer(self, name: str, args: Mapping[str, str]) -> Answer:
        """Answer a probe, such as `disk`. Raises CannotAnswer.

        name: of the probe
        """
        ...
