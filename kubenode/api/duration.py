"""Durations in text form: `90s`, `10m`, `1h30m`, `250ms`.

The form is that of Go's time.ParseDuration without signs and without units below a millisecond,
which users of kubectl know.
"""

import re
from datetime import timedelta
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

PATTERN = r"^([0-9]+(\.[0-9]+)?(ms|[smh]))+$"
LONGEST = timedelta(days=3650)
USUAL = 32
"""Maximum number of characters of a text whose result is cached."""
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
}


def parse_duration(text: str) -> timedelta:
    """Return `text` as a timedelta of whole milliseconds, the precision of the text form.

    Raises ValueError with the text and the expected form.
    """
    return _parsed_once(text) if len(text) <= USUAL else _parsed(text)


def _parsed(text: str) -> timedelta:
    if not re.fullmatch(PATTERN, text):
        raise ValueError(
            f"{text!r} is no duration: write a number and a unit, like 90s, 10m or 1h30m"
        )
    try:
        total = sum((float(n) * _UNITS[unit] for n, unit in _PART.findall(text)), timedelta())
    except OverflowError:
        total = LONGEST + timedelta(1)
    if total > LONGEST:
        raise ValueError(f"{text!r} is longer than ten years")
    return timedelta(milliseconds=round(total / timedelta(milliseconds=1)))


_parsed_once = lru_cache(maxsize=1024)(_parsed)
"""Cached parser. Each job has a dozen durations with few different values."""


def format_duration(value: timedelta) -> str:
    """Return the shortest exact text with a precision of 1 ms: `0s`, `1m30s` for 90 s, `250ms`."""
    millis = round(value / timedelta(milliseconds=1))
    hours, millis = divmod(millis, 3_600_000)
    minutes, millis = divmod(millis, 60_000)
    seconds, millis = divmod(millis, 1000)
    parts = [(hours, "h"), (minutes, "m"), (seconds, "s"), (millis, "ms")]
    return "".join(f"{n}{unit}" for n, unit in parts if n) or "0s"


def _read(value: Any) -> timedelta:
    match value:
        case timedelta():
            return value
        case str():
            return parse_duration(value)
        case _:
            raise ValueError(f"{value!r} is no duration: write a text with a unit, like '90s'")


Duration = Annotated[
    timedelta,
    BeforeValidator(_read),
    PlainSerializer(format_duration, return_type=str, when_used="always"),
    WithJsonSchema({"type": "string", "pattern": PATTERN, "maxLength": 32}),
]
"""Length of time. Its JSON form is a text such as `90s`."""
