"""Bounds of the instants that KubeNode computes with: the years 1970 to 9000.

An API server accepts any year from 0 to 9999, and clients use both ends to mean "never" (the zero
time of Go is in year 1; people write "until 9999"). Arithmetic on such a time overflows `datetime`.
A time outside the bounds is therefore read as the nearest bound, which is further away than any
deadline. A time without a zone, which an API server refuses, is read as UTC, because Python cannot
compare it with a time that has a zone.
"""

from datetime import UTC, datetime

FIRST_YEAR, LAST_YEAR = 1970, 9000
FIRST = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
LAST = datetime(LAST_YEAR, 12, 31, 23, 59, 59, tzinfo=UTC)


def bounded(at: datetime | None) -> datetime | None:
    """Return `at` with a zone, moved to the nearest bound if it is outside; None for None."""
    if at is None:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    if FIRST_YEAR <= at.year <= LAST_YEAR:
        return at
    return FIRST if at.year < FIRST_YEAR else LAST
