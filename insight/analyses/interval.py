"""Intervals of time that rows are counted in."""

from datetime import timedelta
from enum import StrEnum

from sqlalchemy import BigInteger, ColumnElement, cast

from insight.store.schema import DAY, MONDAY


class Interval(StrEnum):
    """Length of one row's time. Weeks begin on Monday, in UTC."""

    DAY = "day"
    WEEK = "week"

    @property
    def length(self) -> timedelta:
        return timedelta(days=1 if self is Interval.DAY else 7)

    def start_of(self, time: int) -> int:
        """Return the begin of the interval that contains a time, both in milliseconds."""
        length, offset = self._grid
        return (time + offset) // length * length - offset

    def start(self, time: ColumnElement[int]) -> ColumnElement[int]:
        """Return the begin of the interval that contains the time of a row."""
        length, offset = self._grid
        number = (time + offset) // cast(length, BigInteger)
        return number * length - offset

    @property
    def _grid(self) -> tuple[int, int]:
        return (DAY, 0) if self is Interval.DAY else (7 * DAY, MONDAY)
