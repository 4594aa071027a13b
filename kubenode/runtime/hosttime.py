"""Stamps that a host made by its own clock, which may be wrong by any time.

Two stamps of one host tell how much time lay between them. A stamp and our own clock tell nothing:
so `HostTime` is no datetime for the type checker, and `now - stamp`, `stamp < now` or `stamp`
in the place of a datetime do not pass `make check`. While the program runs a HostTime is the
datetime that was decoded: nothing is wrapped, nothing costs time or memory.

`host_time` and `as_written` are the only ways in and out.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, cast

from kubenode.instants import bounded

if TYPE_CHECKING:

    class HostTime:
        """An instant by the clock of one host. Never compare those of two hosts."""

        def __sub__(self, other: "HostTime") -> timedelta: ...
        def __add__(self, other: timedelta) -> "HostTime": ...
        def __lt__(self, other: "HostTime") -> bool: ...
        def __le__(self, other: "HostTime") -> bool: ...
        def __gt__(self, other: "HostTime") -> bool: ...
        def __ge__(self, other: "HostTime") -> bool: ...
        def __hash__(self) -> int: ...
        def isoformat(self) -> str: ...
        def replace(self, *, microsecond: int) -> "HostTime": ...

else:
    HostTime = datetime


def host_time(at: datetime) -> HostTime:
    """What a host writes whose clock shows `at`: for who plays a host, and for parsers."""
    return cast(HostTime, at)


def as_written(stamp: HostTime) -> datetime:
    """The instant as it stands in the object: to show it, or where the control plane wrote it
    after all. No age may be made of it.
    """
    return cast(datetime, stamp)


def bounded_stamp(stamp: HostTime | None) -> HostTime | None:
    """`stamp`, or the nearest one that arithmetic does not overflow on; see kubenode.instants."""
    return cast("HostTime | None", bounded(cast("datetime | None", stamp)))
