"""Time in which nobody could tell us anything: it is no time for which a status was held. Pure.

Reporters speak through the API server. While it is away they cannot take back what they said, so a
fault that went in that time looks as if it had lasted. What a reporter says later with the same
lastTransitionTime was so all the time: spells before its last word do not matter.

A process that starts after an outage has no spell of it. It waits out a Lease then, 15 s: detectors
repeat a refused report within 10 s.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

Spell = tuple[datetime, datetime]
"""From when until when nobody was heard."""


class Told(Protocol):
    """A condition: since when it is what it is, and when its reporter spoke last, by its clock."""

    @property
    def since(self) -> datetime: ...
    @property
    def heard(self) -> datetime: ...


def not_held(spells: Sequence[Spell], told: Told, now: datetime) -> timedelta:
    """How much of the time that a condition seems to have lasted nobody could take it back in."""
    return unheard(spells, max(told.since, told.heard), now)


def unheard(spells: Sequence[Spell], heard: datetime, now: datetime) -> timedelta:
    """How much of the time until `now` nobody was heard in, since a reporter spoke at `heard`."""
    times = (min(until, now) - max(since, heard) for since, until in spells)
    return sum((max(time, timedelta(0)) for time in times), timedelta(0))
