"""Time stamps that a host wrote by its own clock, which may be wrong by any amount.

The difference of two stamps of one host is a valid duration. A stamp and our own clock must not be
compared. So `HostTime` is no datetime for the type checker: `now - stamp`, `stamp < now` and a
`stamp` in place of a datetime fail `make check`. At run time a HostTime is the decoded datetime,
without a wrapper and its cost.

Only `host_time` and `as_written` convert.
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
    """Return what a host writes whose clock shows `at`, for simulated hosts and for parsers."""
    return cast(HostTime, at)


def as_written(stamp: HostTime) -> datetime:
    """Return the instant as it is written in the object.

    For display, or if the control plane wrote it after all. Never compute an age from it.
    """
    return cast(datetime, stamp)


def bounded_stamp(stamp: HostTime | None) -> HostTime | None:
    """Return `stamp`, moved to the nearest bound of kubenode.instants if it is outside."""
    return cast("HostTime | None", bounded(cast("datetime | None", stamp)))
