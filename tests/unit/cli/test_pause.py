"""When a pause ends, and what is wrong with what people write."""

from datetime import UTC, datetime, timedelta

import pytest

from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.pause import describe_pause, end_from, read_instant, scope_from, shown

NOW = datetime(2026, 11, 22, 14, 30, tzinfo=UTC)


def test_without_a_word_a_pause_has_no_end() -> None:
    assert end_from(None, None, NOW) is None
    assert shown(None) == "resumed"


def test_a_duration_counts_from_now_and_is_rounded_up_to_seconds() -> None:
    assert end_from("2h", None, NOW) == NOW + timedelta(hours=2)
    assert end_from("1500ms", None, NOW) == NOW + timedelta(seconds=2)


@pytest.mark.parametrize(
    "text", ["2026-11-22T16:00Z", "2026-11-22T17:00+01:00", "2026-11-22 16:00:00+00:00"]
)
def test_an_instant_may_be_written_in_any_zone(text: str) -> None:
    assert end_from(None, text, NOW) == datetime(2026, 11, 22, 16, 0, tzinfo=UTC)


def test_a_time_of_day_is_the_next_one_by_the_local_clock() -> None:
    local = NOW.astimezone()
    later, earlier = local + timedelta(minutes=5), local - timedelta(minutes=5)
    assert read_instant(f"{later:%H:%M}", NOW) == later
    assert read_instant(f"{earlier:%H:%M}", NOW) == earlier + timedelta(days=1)


@pytest.mark.parametrize(
    ("lasts", "until", "told"),
    [
        ("soon", None, "--for: 'soon' is no duration"),
        (None, "25:00", "--until: '25:00' is no time: write"),
        (None, "tomorrow", "--until: 'tomorrow' is no time"),
        (None, "2026-11-22T14:00Z", "would end at 2026-11-22 14:00:00 UTC, which is over"),
        ("0s", None, "which is over"),
        ("1h", "16:00", "write one of them"),
    ],
)
def test_what_is_no_end_is_a_usage_error(lasts: str | None, until: str | None, told: str) -> None:
    with pytest.raises(Refusal, match=told) as refused:
        end_from(lasts, until, NOW)
    assert refused.value.code is Exit.USAGE


def test_a_scope_that_is_none_names_its_flag() -> None:
    with pytest.raises(Refusal, match="--scope: 'zone' is no scope"):
        scope_from("zone")


def test_a_pause_in_a_line() -> None:
    pause = scope_from("rack=r1").pause(until=NOW, by="ann", why="cables")
    assert (
        describe_pause(pause) == "kubenode.io/rack=r1 until 2026-11-22 14:30:00 UTC by ann: cables"
    )
