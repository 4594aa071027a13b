"""One breaker's table: every state against everything that can be seen, and what always holds."""

from datetime import datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0

from defender.decision.breaker.step import (
    CLOSED,
    PACE,
    ScopeObservation,
    ScopeState,
    quota,
    step,
    trouble,
)
from kubenode.api.v1alpha1.defenderpolicy import Breaker, BreakerState, Resume, Trip

OPEN, HALF_OPEN = BreakerState.OPEN, BreakerState.HALF_OPEN
DEFAULT = Breaker()
MINUTE = timedelta(minutes=1)


def seen(
    now: datetime = T0,
    *,
    members: int = 100,
    unhealthy: int = 0,
    new: int = 0,
    climbed: int = 0,
    limit: int = 1,
) -> ScopeObservation:
    return ScopeObservation(now, members, unhealthy, new, climbed, "kubelet-down", 2, limit)


# -- what is too much -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "unhealthy", "opens"),
    [
        (100, 29, False),
        (100, 30, True),
        (2, 2, False),  # fewer than minNodes never open it
        (3, 3, True),
        (5, 2, False),
        (5, 3, True),
        (10, 3, True),
        (11, 3, False),  # 27 %
        (0, 0, False),
    ],
)
def test_the_share_of_unhealthy_nodes_that_opens(members: int, unhealthy: int, opens: bool) -> None:
    assert bool(trouble(seen(members=members, unhealthy=unhealthy), Trip())) is opens


def test_each_trip_condition_by_itself_with_its_numbers_in_words() -> None:
    assert "30 of 100 nodes are unhealthy, 30% opens" in trouble(seen(unhealthy=30), Trip())
    assert "10 of 100 nodes failed within 10m, 10% opens" in trouble(seen(new=10), Trip())
    assert trouble(seen(climbed=3), Trip()) == (
        "3 jobs of kubelet-down climbed to rung 2 within 1h, 3 open the breaker"
    )
    assert trouble(seen(unhealthy=29, new=9, climbed=2), Trip()) == ""


def test_a_count_may_stand_for_a_share_and_no_count_below_min_nodes_opens() -> None:
    assert trouble(seen(unhealthy=4), Trip(unhealthy_ratio=4))
    assert not trouble(seen(unhealthy=3), Trip(unhealthy_ratio=4))
    assert not trouble(seen(unhealthy=4), Trip(unhealthy_ratio=1, min_nodes=5))
    assert not trouble(seen(new=4), Trip(new_faults_per10m=1, min_nodes=5))
    assert not trouble(seen(climbed=4), Trip(min_nodes=5))


# -- the table ------------------------------------------------------------------------------------

AGES = (timedelta(0), 4 * MINUTE, 10 * MINUTE, 60 * MINUTE, -5 * MINUTE)
CALMS = (None, timedelta(0), 5 * MINUTE, -MINUTE)
UNHEALTHY = (0, 14, 15, 29, 30, 100)
RATES = ((0, 0), (10, 0), (0, 3))
"""New faults, and escalations."""
LIMITS = (0, 1, 2, 64, 100)
STATES = list(BreakerState)


@pytest.mark.parametrize("state", STATES)
def test_every_state_against_everything_that_can_be_seen(state: BreakerState) -> None:
    for age, calm, unhealthy, rates, limit in product(AGES, CALMS, UNHEALTHY, RATES, LIMITS):
        since = T0 - age
        before = ScopeState(state, since, "because", None if calm is None else T0 - calm, since)
        new, climbed = rates
        what = seen(unhealthy=unhealthy, new=new, climbed=climbed, limit=limit)
        assert step(before, what, DEFAULT).state is expected(before, what), (before, what)


def expected(before: ScopeState, what: ScopeObservation) -> BreakerState:
    """The table of step.py once more, as plain conditions."""
    assert before.since is not None
    bad = what.unhealthy >= 30 or what.new >= 10 or what.climbed >= 3
    age = max(what.now - before.since, timedelta(0))
    match before.state:
        case BreakerState.CLOSED:
            return OPEN if bad else BreakerState.CLOSED
        case BreakerState.OPEN:
            calm = what.now - min(before.calm_since or what.now, what.now)
            rests = what.unhealthy < 15 and calm >= 5 * MINUTE
            return HALF_OPEN if rests and age >= 10 * MINUTE else OPEN
        case BreakerState.HALF_OPEN:
            if bad:
                return OPEN
            doublings = age // (5 * MINUTE)
            over = doublings >= 1 and 2**doublings >= what.limit
            return BreakerState.CLOSED if over else HALF_OPEN


def test_a_storm_from_its_first_minute_to_its_last() -> None:
    """The whole way in minutes: open, calm, half-open, doubling, closed."""
    state, path = CLOSED, list[tuple[int, BreakerState]]()
    for minute in range(60):
        unhealthy = 40 if minute < 8 else 20 if minute < 12 else 1
        after = step(state, seen(T0 + minute * MINUTE, unhealthy=unhealthy, limit=4), DEFAULT)
        if after.state is not state.state:
            path.append((minute, after.state))
        state = after
    # Calm (fewer than 15) from minute 12 on; quota 1, 2, 4 from minutes 17, 22, 27.
    assert path == [(0, OPEN), (17, HALF_OPEN), (27, BreakerState.CLOSED)]


def test_trouble_in_between_begins_the_calm_anew() -> None:
    state = step(CLOSED, seen(unhealthy=40), DEFAULT)
    for minute, unhealthy in ((10, 0), (14, 20), (15, 0), (19, 0)):
        state = step(state, seen(T0 + minute * MINUTE, unhealthy=unhealthy), DEFAULT)
        assert state.state is OPEN
    assert step(state, seen(T0 + 20 * MINUTE), DEFAULT).state is HALF_OPEN


def test_in_a_small_scope_one_lasting_fault_does_not_keep_it_open() -> None:
    """Calm is half of the count that opens it: below 1.5 of 5 nodes, not below 15 %."""
    state = step(CLOSED, seen(members=5, unhealthy=3), DEFAULT)
    for minute in (1, 11):
        state = step(state, seen(T0 + minute * MINUTE, members=5, unhealthy=1), DEFAULT)
    assert state.state is HALF_OPEN


def test_a_clock_set_back_neither_shortens_nor_extends_more_than_once() -> None:
    state = step(CLOSED, seen(unhealthy=40), DEFAULT)
    early = T0 - timedelta(hours=5)
    state = step(state, seen(early), DEFAULT)
    assert state.state is OPEN and state.since == early
    state = step(state, seen(early + 9 * MINUTE), DEFAULT)
    assert state.state is OPEN
    assert step(state, seen(early + 10 * MINUTE), DEFAULT).state is HALF_OPEN


def test_times_that_no_policy_sets_go_with_the_pace() -> None:
    fast = PACE.faster(10)
    assert (fast.calm, fast.new, fast.check_interval) == (
        MINUTE / 2,
        MINUTE,
        PACE.check_interval / 10,
    )
    breaker = Breaker(open=MINUTE)
    state = step(CLOSED, seen(unhealthy=40), breaker, fast)
    state = step(state, seen(T0 + timedelta(seconds=30)), breaker, fast)
    assert step(state, seen(T0 + MINUTE), breaker, fast).state is HALF_OPEN


# -- what always holds ----------------------------------------------------------------------------

sights = st.lists(
    st.tuples(
        st.integers(0, 900),  # seconds until it is seen
        st.integers(0, 60),  # nodes
        st.floats(0, 1),  # share of them that is unhealthy
        st.integers(0, 12),  # new faults
        st.integers(0, 4),  # escalations
        st.integers(0, 100),  # what limits allow
    ),
    max_size=40,
)
breakers = st.builds(
    Breaker,
    open=st.integers(0, 3600).map(lambda s: timedelta(seconds=s)),
    resume=st.builds(
        Resume,
        start=st.integers(1, 5),
        factor=st.integers(2, 10),
        every=st.integers(0, 900).map(lambda s: timedelta(seconds=s)),
    ),
    trip=st.builds(
        Trip,
        unhealthy_ratio=st.one_of(st.integers(0, 100).map("{}%".format), st.integers(0, 50)),
        new_faults_per10m=st.one_of(st.integers(0, 100).map("{}%".format), st.integers(0, 50)),
        min_nodes=st.integers(1, 10),
    ),
)


def calm(what: ScopeObservation, breaker: Breaker) -> bool:
    """Rates alone do not keep open what is open."""
    return not trouble(ScopeObservation(what.now, what.members, what.unhealthy), breaker.trip)


@given(sights, breakers)
def test_what_holds_on_every_way_through(
    ways: list[tuple[int, int, float, int, int, int]], breaker: Breaker
) -> None:
    now, state, opened, calm_from = T0, CLOSED, None, None
    for wait, members, share, new, climbed, limit in ways:
        now += timedelta(seconds=wait)
        what = ScopeObservation(
            now, members, int(share * members), min(new, members), climbed, "r", 1, limit
        )
        before, state = state, step(state, what, breaker)
        bad = bool(trouble(what, breaker.trip))
        calm_from = None if bad and not calm(what, breaker) else calm_from or now
        if bad and before.state is not OPEN:
            assert state.state is OPEN and state.why
        if state.state is OPEN and before.state is not OPEN:
            opened = now
            assert bad and state.since == now and state.counts_from == now
        if state.state is HALF_OPEN and before.state is not HALF_OPEN:
            assert before.state is OPEN and opened is not None
            assert now - opened >= breaker.open, "half-open before `open` had passed"
            assert calm_from is not None and now - calm_from >= PACE.calm
        if state.state is BreakerState.CLOSED and before.state is not BreakerState.CLOSED:
            assert before.state is HALF_OPEN and quota(before, breaker.resume, now) >= limit
        if state.state is before.state:
            assert state.since == before.since


@given(
    st.builds(Resume, start=st.integers(1, 100), factor=st.integers(2, 10)), st.integers(0, 9**6)
)
def test_the_quota_begins_at_start_and_never_shrinks_nor_grows_without_end(
    resume: Resume, seconds: int
) -> None:
    state = ScopeState(HALF_OPEN, T0)
    assert quota(state, resume, T0) == resume.start
    assert quota(state, resume, T0 - MINUTE) == resume.start
    at = T0 + timedelta(seconds=seconds)
    now, next_ = quota(state, resume, at), quota(state, resume, at + resume.every)
    assert resume.start <= now <= next_ <= min(now * resume.factor, 100_000)
