"""Times as node-problem-detector's timestampFormat lays them out."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from agent.detectors.logs import gotime

NOW = datetime(2026, 1, 10, 10, 0, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def in_utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("layout", "text", "expected"),
    [
        ("Jan _2 15:04:05", "Jan  9 23:59:01", "2026-01-09T23:59:01+00:00"),
        ("Jan _2 15:04:05", "Dec 31 23:59:59", "2025-12-31T23:59:59+00:00"),
        ("Jan _2 15:04:05", "Feb  1 00:00:00", "2025-02-01T00:00:00+00:00"),
        ("2006-01-02T15:04:05.999999999-07:00", "2026-01-10T10:00:00.25+02:00",
         "2026-01-10T08:00:00.250000+00:00"),
        ("2006-01-02T15:04:05Z07:00", "2026-01-10T10:00:00Z", "2026-01-10T10:00:00+00:00"),
        ("2006-01-02T15:04:05.000000000Z", "2026-01-10T10:00:00.123456789Z",
         "2026-01-10T10:00:00.123456+00:00"),
        ("02/Jan/2006:15:04:05 -0700", "10/Jan/2026:10:00:00 +0000", "2026-01-10T10:00:00+00:00"),
        ("Mon Jan 2 15:04:05 MST 2006", "Sat Jan 10 09:00:00 UTC 2026",
         "2026-01-10T09:00:00+00:00"),
        ("1/2/06 3:04:05 PM", "1/9/26 12:00:07 AM", "2026-01-09T00:00:07+00:00"),
    ],
)  # fmt: skip
def test_a_time_is_read_as_its_layout_says(layout: str, text: str, expected: str) -> None:
    assert gotime.parser(layout)(text, NOW).isoformat() == expected


@pytest.mark.parametrize("text", ["", "Jan 32 00:00:00", "Foo  9 00:00:00", "Feb 30 01:01:01", "x"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        gotime.parser("Jan _2 15:04:05")(text, NOW)


@pytest.mark.parametrize("layout", ["", "yyyy-mm-dd", "2006", "02 02 15"])
def test_a_layout_that_names_no_time_is_refused(layout: str) -> None:
    with pytest.raises(ValueError, match="names"):
        gotime.parser(layout)


def test_the_leap_day_is_found_in_a_year_that_has_it() -> None:
    now = datetime(2025, 1, 3, tzinfo=UTC)
    assert gotime.parser("Jan _2 15:04:05")("Feb 29 00:00:00", now).year == 2024
