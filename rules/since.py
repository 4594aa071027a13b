"""Detects steps of the local wall clock, and tracks the changes of a node's keys."""

from collections.abc import Mapping
from datetime import datetime, timedelta

MOST_KEYS = 256
_NOTHING: Mapping[str, datetime] = {}
"""Shared by the many nodes without changes."""
SLEW = timedelta(seconds=1)
"""A smaller difference is a clock that is being slewed."""


class ClockSteps:
    """Detects that the machine's wall clock was set, by its monotonic clock."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float] | None = None

    def step(self, now: datetime, monotonic: float) -> timedelta:
        """Return by how much the wall clock was set since the last call; usually zero."""
        last, self._last = self._last, (now, monotonic)
        if last is None:
            return timedelta(0)
        step = (now - last[0]) - timedelta(seconds=monotonic - last[1])
        return step if abs(step) > SLEW else timedelta(0)


class KeyClock:
    """Tracks when each label, annotation and taint of one node last changed, by the local clock.

    It stores changes only, in `changed` by `label:KEY`, `annotation:KEY` or `taint:KEY`. Every
    other key has not changed since `unchanged_since`.
    """

    __slots__ = ("_values", "changed", "unchanged_since")

    def __init__(self, now: datetime) -> None:
        self.unchanged_since = now
        self.changed = _NOTHING
        self._values: dict[str, Mapping[str, str]] = {}

    def take(self, kind: str, values: Mapping[str, str], now: datetime) -> None:
        """Take all values of one kind: label, annotation or taint."""
        old = self._values.get(kind)
        self._values[kind] = values
        if old is None or old is values or old == values:
            return
        keys = [key for key in {**old, **values} if old.get(key) != values.get(key)]
        self.changed = {**self.changed, **{f"{kind}:{key}": now for key in keys}}
        if len(self.changed) > MOST_KEYS:
            self.changed, self.unchanged_since = _NOTHING, now

    def stepped(self, step: timedelta) -> None:
        self.unchanged_since += step
        if self.changed:
            self.changed = {key: at + step for key, at in self.changed.items()}
