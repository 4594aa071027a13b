"""Schedules which atoms of a node have to be read again because time passes. Pure.

An atom may be read before its answer flips, never after. So atoms that are due at about the same
time are read together at the earliest of their times. That keeps the schedule short and the reads
few.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from operator import itemgetter

Due = tuple[tuple[datetime, int], ...]
"""Slots by the time from which they are read again, in order. Bit `1 << slot` of a mask is a
slot.
"""
_TIME = itemgetter(0)


def passed(due: Due, now: datetime) -> tuple[set[int], Due]:
    """Return the slots that are due at `now`, and the rest of the schedule."""
    slots: set[int] = set()
    for n, (at, mask) in enumerate(due):
        if at > now:
            return slots, due[n:]
        slots.update(_slots(mask))
    return slots, ()


def planned(
    due: Due, slots: Iterable[int], flips: Iterable[tuple[datetime, int]], now: datetime
) -> Due:
    """Return the schedule after `slots` were read at `now`.

    flips: instant and slot of the answers that will flip, all after `now`

    An entry is merged with an earlier one if it is at most twice as far away.
    """
    was_read = 0
    for slot in slots:
        was_read |= 1 << slot
    entries = [(at, remaining) for at, mask in due if (remaining := mask & ~was_read)]
    entries += [(at, 1 << slot) for at, slot in flips]
    entries.sort(key=_TIME)
    merged: list[tuple[datetime, int]] = []
    with_it = now
    for at, mask in entries:
        if at <= with_it:
            first, others = merged[-1]
            merged[-1] = first, others | mask
        else:
            merged.append((at, mask))
            with_it = at + (at - now)
    return tuple((at, _same(mask)) for at, mask in merged)


@lru_cache(maxsize=1024)
def _same(mask: int) -> int:
    """Return the one object for equal masks: nodes share it, as a mask has a bit for each atom."""
    return mask


@lru_cache(maxsize=1024)
def _slots(mask: int) -> tuple[int, ...]:
    return tuple(n for n, bit in enumerate(reversed(f"{mask:b}")) if bit == "1")
