"""The instants that are told apart: those of the years 1970 to 9000.

An API server takes any year from 0 to 9999, and writers use the ends for "never" (the zero time of
Go is in year 1, "until 9999" is written by people). Arithmetic on such a time overflows `datetime`.
What is before the first instant is read as the first, what is after the last as the last: both are
further away than anything that is waited for. A time without a zone, which an API server refuses,
is read as UTC: Python compares it with no other.
"""

from datetime import UTC, datetime

FIRST_YEAR, LAST_YEAR = 1970, 9000
FIRST = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
LAST = datetime(LAST_YEAR, 12, 31, 23, 59, 59, tzinfo=UTC)


def bounded(at: datetime | None) -> datetime | None:
    """`at` with a zone, or the nearest instant that is told apart."""
    if at is None:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    if FIRST_YEAR <= at.year <= LAST_YEAR:
        return at
    return FIRST if at.year < FIRST_YEAR else LAST
