"""Questions to this host: what is true here now. Reading only, so asking twice does no harm.

Names and units of the fields are those of the API's reference of probes. A field that cannot be
found out is left out of the answer: unknown, never guessed.
"""

from collections.abc import Mapping
from typing import Protocol

Value = bool | int | float | str
Answer = Mapping[str, Value]
"""By field, such as `used_pct`."""


class CannotAnswer(Exception):
    """The host cannot be asked, or did not answer in time; the text says what was tried."""


class Probes(Protocol):
    """Who answers; the demo simulates hundreds of hosts behind it."""

    async def answer(self, name: str, args: Mapping[str, str]) -> Answer:
        """`name` is a probe, such as `disk`. Raises CannotAnswer."""
        ...
