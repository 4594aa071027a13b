"""Durations and shares as texts."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.api.duration import LONGEST, format_duration, parse_duration
from kubenode.api.share import ratio_of, share_of

millis = st.integers(min_value=0, max_value=LONGEST // timedelta(milliseconds=1))


@given(millis)
def test_every_duration_survives_being_written_and_read(count: int) -> None:
    duration = timedelta(milliseconds=count)
    assert parse_duration(format_duration(duration)) == duration
    assert len(format_duration(duration)) <= 32


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("250ms", 0.25), ("1.5h", 5400), ("0s", 0)],
)
def test_reads_gos_form(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "10", "2d", "-5m", "5 m", "m", "5M", "1h\n", "٣s"])
def test_what_is_no_duration_is_refused_with_the_form_wanted(text: str) -> None:
    with pytest.raises(ValueError, match="write a number and a unit, like 90s, 10m or 1h30m"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["87601h", "9" * 400 + "h"])
def test_eternity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="longer than ten years"):
        parse_duration(text)


@given(st.integers(0, 100), st.integers(0, 100_000))
def test_a_percentage_rounds_down_and_never_passes_the_whole(percent: int, total: int) -> None:
    count = share_of(f"{percent}%", total)
    assert 0 <= count <= total
    assert count * 100 <= percent * total < (count + 1) * 100


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_a_count_is_itself(count: int, total: int) -> None:
    assert share_of(count, total) == count
    assert 0 <= ratio_of(count, total) <= 1
