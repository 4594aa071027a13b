"""Parses times in a Go layout, as in node-problem-detector's `timestampFormat`.

A layout is the time Mon Jan 2 15:04:05 2006 -0700 as the log would write it. Source:
https://pkg.go.dev/time#pkg-constants
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_PIECES = {
    "January": r"(?P<month_name>[A-Za-z]{3,9})",
    "Jan": r"(?P<month_name>[A-Za-z]{3})",
    "Monday": r"[A-Za-z]{6,9}",
    "Mon": r"[A-Za-z]{3}",
    "MST": r"(?P<zone>[A-Z]{3,5})",
    "2006": r"(?P<year>\d{4})",
    "Z07:00": r"(?P<offset>Z|[+-]\d{2}:\d{2})",
    "Z0700": r"(?P<offset>Z|[+-]\d{4})",
    "-07:00": r"(?P<offset>[+-]\d{2}:\d{2})",
    "-0700": r"(?P<offset>[+-]\d{4})",
    "-07": r"(?P<offset>[+-]\d{2})",
    "01": r"(?P<month>\d{2})",
    "02": r"(?P<day>\d{2})",
    "03": r"(?P<hour12>\d{2})",
    "04": r"(?P<minute>\d{2})",
    "05": r"(?P<second>\d{2})(?P<fraction>[.,]\d{1,9})?",
    "06": r"(?P<short_year>\d{2})",
    "_2": r" ?(?P<day>\d{1,2})",
    "15": r"(?P<hour>\d{2})",
    "PM": r"(?P<half>AM|PM)",
    "pm": r"(?P<half>am|pm)",
    "1": r"(?P<month>\d{1,2})",
    "2": r"(?P<day>\d{1,2})",
    "3": r"(?P<hour12>\d{1,2})",
    "4": r"(?P<minute>\d{1,2})",
    "5": r"(?P<second>\d{1,2})(?P<fraction>[.,]\d{1,9})?",
}
_LAYOUT = re.compile(r"[.,][09]+(?!\d)|" + "|".join(map(re.escape, _PIECES)))
_DAY = timedelta(days=1)

Parser = Callable[[str, datetime], datetime]


def parser(layout: str) -> Parser:
    """Return a function of (text, now) to a UTC time, which raises ValueError for another format.

    A time without a year is the last one that is not in the future. A time without a zone is of the
    host's zone. Raises ValueError for a layout without hour or day.
    """
    pattern = ""
    end = 0
    for match in _LAYOUT.finditer(layout):
        pattern += re.escape(layout[end : match.start()])
        # A fraction after the second is parsed whether or not the layout has one.
        pattern += _PIECES.get(match.group(), "")
        end = match.end()
    pattern += re.escape(layout[end:])
    try:
        regexp = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{layout!r} names a part of the time twice") from error
    if not {"hour", "hour12"} & set(regexp.groupindex) or "day" not in regexp.groupindex:
        raise ValueError(
            f"{layout!r} names no day or no hour: write it as Go does, Jan _2 15:04:05"
        )

    def parse(text: str, now: datetime) -> datetime:
        match = regexp.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is no time in the layout {layout!r}")
        return _time(match.groupdict(), now)

    return parse


def _time(got: dict[str, str | None], now: datetime) -> datetime:
    def number(name: str) -> int:
        return int(got.get(name) or 0)

    name = got.get("month_name")
    month = _MONTHS.index(name[:3].lower()) + 1 if name else number("month") or 1
    hour = number("hour")
    if got.get("hour12"):
        hour = number("hour12") % 12 + (12 if (got.get("half") or "").upper() == "PM" else 0)
    fraction = (got.get("fraction") or ".0")[1:]
    microsecond = int(fraction.ljust(6, "0")[:6])
    year = number("year") or (2000 + number("short_year") if got.get("short_year") else 0)

    def in_year(year: int) -> datetime:
        of_day = (hour, number("minute"), number("second"))
        there = datetime(year, month, number("day"), *of_day, microsecond, tzinfo=UTC)
        return _zoned(there.replace(tzinfo=None), got.get("offset") or got.get("zone"))

    if year:
        return in_year(year)
    try:
        this = in_year(now.year)
    except ValueError:  # 29 February
        return in_year(now.year - 1)
    return this if this <= now + _DAY else in_year(now.year - 1)


def _zoned(naive: datetime, zone: str | None) -> datetime:
    if zone in ("Z", "UTC", "GMT"):
        return naive.replace(tzinfo=UTC)
    if zone is not None and zone[0] in "+-":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        away = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        return naive.replace(tzinfo=timezone(away if zone[0] == "+" else -away)).astimezone(UTC)
    return naive.astimezone(UTC)
