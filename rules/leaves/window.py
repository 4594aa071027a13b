"""Decides whether an instant is in a weekly window, in the window's time zone."""

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from kubenode.api.v1alpha1.window import TimeWindow, Weekday

AHEAD = 9
"""Days beyond today that are searched; a weekly window has come again by then."""
_WEEK = tuple(Weekday)

DUSK = datetime.max.replace(tzinfo=UTC)
Span = tuple[datetime, datetime]


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
