"""Reads the query of a request for an analysis. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeVar

from insight.analyses.interval import Interval
from insight.analyses.selection import HistorySelection

E = TypeVar("E", bound=StrEnum)
PERIOD_DAYS = 30
LEAST_FAULTS = 3
MOST_LEAST = 2**31 - 1
MOST_DAYS = 36_500
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
MOST_DAILY = timedelta(days=62)
MOST_INTERVALS = 800
LONGEST_NAME = 253
VALUES = {name: name for name in ("cluster", "rule", "node", "job")} | {"class": "fault_class"}
"""Fields of a selection by their parameters."""


class ParameterError(ValueError):
    """A parameter that cannot be used. The message names it, its value, and what is allowed."""


def read_selection(query: Mapping[str, str], now: datetime) -> HistorySelection:
    """Read the period and the values of faults. By default the period is the last 30 days.

    Raises ParameterError.
    """
    until = _instant(query, "until") or now
    days = read_number(query, "days", PERIOD_DAYS, MOST_DAYS)
    since = _instant(query, "since") or max(until - timedelta(days=days), EARLIEST)
    if since >= until:
        raise ParameterError(f"since: {since.isoformat()} is not before until, {until.isoformat()}")
    values = {field: _name(query, name) for name, field in VALUES.items()}
    return HistorySelection(since, until, **values)


def read_interval(query: Mapping[str, str], selection: HistorySelection) -> Interval:
    """Read `every`. By default it is a day in a period of up to MOST_DAILY, else a week.

    Raises ParameterError, also for a period of too many intervals.
    """
    length = selection.until - selection.since
    default = Interval.DAY if length <= MOST_DAILY else Interval.WEEK
    interval = read_choice(query, "every", Interval, default)
    if length > MOST_INTERVALS * interval.length:
        raise ParameterError(
            f"every: the period has more than {MOST_INTERVALS} intervals of a {interval};"
            " choose a shorter period"
        )
    return interval


def read_choice(query: Mapping[str, str], name: str, kind: type[E], default: E) -> E:
    """Read one of a closed set. Raises ParameterError."""
    text = query.get(name, default)
    try:
        return kind(text)
    except ValueError:
        allowed = ", ".join(kind)
        raise ParameterError(f"{name}: is {text[:60]!r}; it must be one of {allowed}") from None


def read_least(query: Mapping[str, str]) -> int:
    """Read `min`, the least number of faults. Raises ParameterError."""
    return read_number(query, "min", LEAST_FAULTS, MOST_LEAST)


def read_number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    """Read a number from 1 to `most`. Raises ParameterError."""
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 11 and 1 <= int(text) <= most):
        raise ParameterError(f"{name}: is {text[:60]!r}; it must be a number from 1 to {most}")
    return int(text)


def _name(query: Mapping[str, str], name: str) -> str:
    text = query.get(name, "").strip()
    if len(text) > LONGEST_NAME or not text.isprintable():
        raise ParameterError(
            f"{name}: is {text[:60]!r}; it must have at most {LONGEST_NAME} printable characters"
        )
    return text


def _instant(query: Mapping[str, str], name: str) -> datetime | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or not 1970 <= at.year < 9000:
        raise ParameterError(
            f"{name}: is {text[:60]!r}; write an instant like 2026-11-21T01:59:09Z"
        )
    return at
