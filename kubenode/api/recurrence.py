"""Decides whether an instant is in weekly windows, each in its own time zone. Pure."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from kubenode.api.v1alpha1.window import TimeWindow, Weekday

AHEAD = 9
"""Days beyond today that are searched; a weekly window has come again by then."""
_WEEK = tuple(Weekday)

DUSK = datetime.max.replace(tzinfo=UTC)
MOST_CHANGES = 1024
"""Greatest number of changes of single windows to examine. 32 windows a week stay below it."""
Span = tuple[datetime, datetime]
Fields = tuple[tuple[Weekday, ...], str, str, str]


def inside(window: TimeWindow, now: datetime) -> tuple[bool, datetime | None]:
    """Return whether `now` is in the window, and when that changes; None: never.

    A time of day that a clock change skips is read as the instant at which the clocks would have
    shown it. One that occurs twice is read as the first.
    """
    key = (tuple(window.days), window.from_, window.to, window.time_zone)
    spans = _spans(*key, now.astimezone(ZoneInfo(window.time_zone)).date())
    until: datetime | None = None
    for begin, end in spans:
        if until is None and now < begin:
            return False, begin
        if until is None and begin <= now < end:
            until = end
        elif until is not None and begin <= until:
            until = max(until, end)
    return until is not None, None if until is None or until >= spans[-1][1] else until


def opens_at(window: TimeWindow, now: datetime) -> datetime | None:
    """Return when the window opens; None while it is open. DUSK if it never opens."""
    is_open, changes_at = inside(window, now)
    return None if is_open else changes_at or DUSK


def find_state(windows: Sequence[TimeWindow], now: datetime) -> tuple[bool, datetime | None]:
    """Return whether one of the windows is open, and when that may next change, None for never.

    If none is open, that is when the first one opens. Windows open and close at whole minutes.
    """
    return _state_in(tuple(map(_fields, windows)), now.replace(second=0, microsecond=0))


def next_change(windows: Sequence[TimeWindow], now: datetime) -> tuple[datetime, bool] | None:
    """Return when the union of the windows next opens or closes, and whether it opens. None:
    never.
    """
    is_open, at = find_state(windows, now)
    for _ in range(MOST_CHANGES):
        if at is None:
            break
        state, later = find_state(windows, at)
        if state is not is_open:
            return at, state
        at = later
    return None


def _fields(window: TimeWindow) -> Fields:
    return tuple(window.days), window.from_, window.to, window.time_zone


@lru_cache(maxsize=1024)
def _state_in(windows: tuple[Fields, ...], minute: datetime) -> tuple[bool, datetime | None]:
    states = [
        inside(TimeWindow(days=list(days), from_=begin, to=end, time_zone=zone), minute)
        for days, begin, end, zone in windows
    ]
    is_open = any(open_ for open_, _ in states)
    changes = [at for open_, at in states if at is not None and open_ is is_open]
    return is_open, min(changes, default=None)


@lru_cache(maxsize=512)
def _spans(
    days: tuple[Weekday, ...], from_: str, to: str, time_zone: str, today: date
) -> tuple[Span, ...]:
    """Return the windows around `today`, in order."""
    zone, opens, closes = ZoneInfo(time_zone), time.fromisoformat(from_), time.fromisoformat(to)
    spans = []
    for offset in range(-2, AHEAD):
        day = today + timedelta(days=offset)
        if _WEEK[day.weekday()] not in days:
            continue
        last = day if closes > opens else day + timedelta(days=1)
        begin = datetime.combine(day, opens, zone).astimezone(UTC)
        end = datetime.combine(last, closes, zone).astimezone(UTC)
        if begin < end:
            spans.append((begin, end))
    return tuple(spans)
