"""The time range of a plot. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

INTERVALS = 24


@dataclass(frozen=True, slots=True)
class PlotWindow:
    """A time range in intervals of equal length. The last interval contains the present."""

    begin: datetime
    interval: timedelta
    intervals: int = INTERVALS

    @classmethod
    def until(cls, now: datetime, span: timedelta) -> "PlotWindow":
        """Return the window of this length that ends with the interval of `now`."""
        seconds = span.total_seconds() / INTERVALS
        end = datetime.fromtimestamp((now.timestamp() // seconds + 1) * seconds, UTC)
        return cls(end - span, span / INTERVALS)

    @property
    def end(self) -> datetime:
        return self.start(self.intervals)

    def start(self, index: int) -> datetime:
        return self.begin + self.interval * index

    def place(self, at: datetime | None) -> int | None:
        """Return the index of the interval that contains `at`, None if no interval does."""
        if at is None or not self.begin <= at < self.end:
            return None
        return (at - self.begin) // self.interval
