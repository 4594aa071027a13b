"""When which atoms of a node have to be read again because time has passed. Pure.

An atom may always be read before its answer flips, never after. So those that are due at about the
same time are read together, at the earliest of their times: a node has few entries, and is looked
at few times.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from operator import itemgetter

Due = tuple[tuple[datetime, int], ...]
"""By time: from when on the slots of a mask are read again. A mask has bit `1 << slot` set."""
_TIME = itemgetter(0)


def passed(due: Due, now: datetime) -> tuple[set[int], Due]:
    """Slots that are due at `now`, and what is due later."""
    slots: set[int] = set()
    for n, (at, mask) in enumerate(due):
        if at > now:
            return slots, due[n:]
        slots.update(_slots(mask))
    return slots, ()


def planned(
    due: Due, slots: Iterable[int], flips: Iterable[tuple[datetime, int]], now: datetime
) -> Due:
    """`slots` were read at `now`: `flips` says which of them flip, and when; all lie after `now`.

    What would come within twice the time to another one is read with that one.
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
    """One object for all nodes that have it: a mask has a bit for each of hundreds of atoms."""
    return mask


@lru_cache(maxsize=1024)
def _slots(mask: int) -> tuple[int, ...]:
    return tuple(n for n, bit in enumerate(reversed(f"{mask:b}")) if bit == "1")
