"""Moments of a timeline: a duration since its start, or an instant."""

import re
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from kubenode.api.duration import format_duration, parse_duration
from kubenode.api.meta import format_time

Moment = timedelta | datetime
_DAYS = re.compile(r"([0-9]{1,4})d(.*)")


def read_length(value: Any) -> timedelta:
    """Parse a Go-style duration that may begin with days, such as `30d` or `1d12h`.

    Raises ValueError.
    """
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no duration: write a text with a unit, like '90s'")
    days = _DAYS.fullmatch(value)
    if days is None:
        return parse_duration(value)
    rest = parse_duration(days[2]) if days[2] else timedelta(0)
    return timedelta(days=int(days[1])) + rest


def read_moment(value: Any) -> Moment:
    """Parse a duration since the start, or an RFC 3339 instant. Raises ValueError."""
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, str) and "-" in value:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(
                f"{value!r} is no instant: write it like 2026-11-21T01:59:09Z, or 90s after the"
                " start"
            ) from None
    else:
        return read_length(value)
    if moment.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone: write it like 2026-11-21T01:59:09Z")
    return moment


def instant(moment: Moment, start: datetime) -> datetime:
    return start + moment if isinstance(moment, timedelta) else moment


def written(moment: Moment) -> str:
    """Render a moment so that `read_moment` can read it."""
    if isinstance(moment, timedelta):
        return format_duration(moment)
    return format_time(moment)


Length = Annotated[timedelta, BeforeValidator(read_length)]
"""A duration, with days as an additional unit."""
At = Annotated[
    Moment,
    BeforeValidator(read_moment),
    PlainSerializer(written, return_type=str, when_used="json"),
]
"""A time since the start, or an instant."""
