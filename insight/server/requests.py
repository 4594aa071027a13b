"""Reads the query of a request for an analysis. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar

from insight.analyses.period import Period

E = TypeVar("E", bound=StrEnum)
PERIOD_DAYS = 30
LEAST_FAULTS = 3
MOST_LEAST = 2**31 - 1


class BadRequest(ValueError):
    """A parameter that cannot be used. The message names it, its value, and what is allowed."""


def read_period(query: Mapping[str, str], now: datetime) -> Period:
    """Read `since` and `until`. By default the period is the last 30 days. Raises BadRequest."""
    until = _instant(query, "until") or now
    since = _instant(query, "since") or until - timedelta(days=PERIOD_DAYS)
    if since >= until:
        raise BadRequest(f"since: {since.isoformat()} is not before until, {until.isoformat()}")
    return Period(since, until)


def read_choice(query: Mapping[str, str], name: str, kind: type[E], default: E) -> E:
    """Read one of a closed set. Raises BadRequest."""
    text = query.get(name, default)
    try:
        return kind(text)
    except ValueError:
        allowed = ", ".join(kind)
        raise BadRequest(f"{name}: is {text[:60]!r}; it must be one of {allowed}") from None


def read_least(query: Mapping[str, str]) -> int:
    """Read `min`, the least number of faults. Raises BadRequest."""
    text = query.get("min", str(LEAST_FAULTS))
    if not (
        text.isascii() and text.isdecimal() and len(text) < 11 and 1 <= int(text) <= MOST_LEAST
    ):
        raise BadRequest(f"min: is {text[:60]!r}; it must be a number from 1 on, such as 3")
    return int(text)


def _instant(query: Mapping[str, str], name: str) -> datetime | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or not 1970 <= at.year < 9000:
        raise BadRequest(f"{name}: is {text[:60]!r}; write an instant like 2026-11-21T01:59:09Z")
    return at
