"""The token bucket that is replayed from the record."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clock import T0
from support.defender_core import Core, a_policy, an_ask

from defender.decision.limits.bucket import horizon, tokens_at
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Rate

HOUR = timedelta(hours=1)


def test_a_burst_passes_then_one_permit_per_refill() -> None:
    core = Core()
    core.fleet(1000)
    granted = [core.ask(an_ask(f"n{i}")).allowed for i in range(8)]
    assert granted == [True] * 5 + [False] * 3  # burst 5 of the default policy
    no = core.judge(an_ask("n8"))
    assert no.reason is Reason.RATE_LIMIT and no.limit == 60
    assert no.look_again_at is not None
    assert abs(no.look_again_at - (T0 + timedelta(minutes=1))) < timedelta(seconds=1)
    core.step(seconds=61)
    assert core.ask(an_ask("n8")).allowed
    assert not core.ask(an_ask("n9")).allowed


def test_who_asks_a_microsecond_too_early_is_told_a_later_time() -> None:
    """At the same time as now it would be judged again, and again, for ever."""
    core = Core(a_policy(limits=[{"scope": "Cluster", "rate": {"count": 300, "per": "3m"}}]))
    core.fleet(1000)
    asked = (core.ask(an_ask(f"n{i}")) for i in range(1000))
    free = next(no.look_again_at for no in asked if not no.allowed)
    assert free is not None
    for early in range(4):
        core.now = free - timedelta(microseconds=early)
        verdict = core.judge(an_ask("n999"))
        assert verdict.allowed or (verdict.look_again_at or core.now) > core.now


def test_released_permits_go_on_counting() -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "rate": {"count": 2, "per": "1h"}}]))
    core.fleet(50)
    core.release(core.ask(an_ask("n0")).permit)
    assert core.judge(an_ask("n1")).reason is Reason.RATE_LIMIT


def test_a_clock_that_is_set_back_gives_no_tokens() -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "rate": {"count": 2, "per": "1h"}}]))
    core.fleet(50)
    assert core.ask(an_ask("n0")).allowed
    core.now -= timedelta(minutes=50)
    assert core.judge(an_ask("n1")).reason is Reason.RATE_LIMIT


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 900), max_size=80),
    st.integers(1, 20),
    st.integers(1, 25),
    st.sampled_from([60, 600, 3600]),
)
def test_never_more_than_a_bucket_that_was_watched_all_the_time(
    gaps: list[int], count: int, burst: int, per: int
) -> None:
    rate = Rate(count=count, per=timedelta(seconds=per), burst=burst)
    now, tokens, granted = T0, float(burst), list[datetime]()
    for gap in gaps:
        now += timedelta(seconds=gap)
        tokens = min(burst, tokens + gap * count / per)
        recent = [at for at in granted if at >= now - horizon(rate)]
        replayed = tokens_at(now, recent, rate)
        assert replayed <= tokens + 1e-3
        if replayed >= 1:
            granted.append(now)
            tokens -= 1


@pytest.mark.exhaustive
@settings(deadline=None, max_examples=30)
@given(st.integers(1, 60), st.integers(1, 10))
def test_who_asks_steadily_gets_what_a_watched_bucket_gives(count: int, burst: int) -> None:
    """Erring on the side of no must not cost the rate itself."""
    rate = Rate(count=count, per=HOUR, burst=burst)
    now, granted, tokens, watched = T0, list[datetime](), float(burst), 0
    for _ in range(6 * 60):
        now += timedelta(minutes=1)
        tokens = min(burst, tokens + count / 60)
        if tokens + 1e-6 >= 1:
            tokens, watched = tokens - 1, watched + 1
        recent = [at for at in granted if at >= now - horizon(rate)]
        if tokens_at(now, recent, rate) >= 1:
            granted.append(now)
    assert watched >= len(granted) >= watched - burst - 1
