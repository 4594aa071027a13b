"""When our wall clock was set, and since when the keys of a node are what they are."""

from collections.abc import Mapping
from datetime import datetime, timedelta

MOST_KEYS = 256
_NOTHING: Mapping[str, datetime] = {}
"""Of most nodes nothing changes."""
SLEW = timedelta(seconds=1)
"""Smaller differences between two looks are a clock that is being slowed or sped up."""


class ClockSteps:
    """Notices that the machine's wall clock was set, by a clock that never is."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float] | None = None

    def step(self, now: datetime, monotonic: float) -> timedelta:
        """By how much the wall clock was set since the last look; mostly zero."""
        last, self._last = self._last, (now, monotonic)
        if last is None:
            return timedelta(0)
        step = (now - last[0]) - timedelta(seconds=monotonic - last[1])
        return step if abs(step) > SLEW else timedelta(0)


class KeyClock:
    """Since when each label, annotation and taint of one node is what it is, by our own clock.

    Only changes are remembered: `changed` by `label:KEY`, `annotation:KEY`, `taint:KEY`; every
    other key is what it was at `unchanged_since`.
    """

    __slots__ = ("_values", "changed", "unchanged_since")

    def __init__(self, now: datetime) -> None:
        self.unchanged_since = now
        self.changed = _NOTHING
        self._values: dict[str, Mapping[str, str]] = {}

    def take(self, kind: str, values: Mapping[str, str], now: datetime) -> None:
        """`kind` is label, annotation or taint; `values` are all of this kind."""
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
