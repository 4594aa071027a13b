"""Compute the next state of one breaker. Pure.

    Closed    → Open      too much is wrong at once; the reason is kept as text
    Open      → HalfOpen  after at least `open`, and `calm` with less than half of what opens it
    HalfOpen  → Open      too much is wrong again
    HalfOpen  → Closed    its quota has reached what the normal limits allow

Faults and escalations from before the last opening or half-opening do not open it again.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kubenode.api.duration import format_duration
from kubenode.api.share import is_ratio
from kubenode.api.v1alpha1.defenderpolicy import Breaker, BreakerState, Resume, Trip

MOST_AT_ONCE = 100_000
"""Upper bound of the quota of a half-open breaker."""


@dataclass(frozen=True, slots=True)
class BreakerTimes:
    """Times that no policy sets. A faster simulation has shorter ones.

    calm: time with few faults before a breaker becomes half-open.
    new: window of `newFaultsPer10m`.
    soon: time to ask again while a half-open breaker lets few acts pass.
    together: heartbeats that stop within this time stop together.
    check_interval: interval of checks for changes that only time can cause.
    """

    calm: timedelta = timedelta(minutes=5)
    new: timedelta = timedelta(minutes=10)
    soon: timedelta = timedelta(minutes=1)
    together: timedelta = timedelta(minutes=2)
    check_interval: timedelta = timedelta(seconds=1)

    def faster(self, speed: float) -> "BreakerTimes":
        """Return the times divided by `speed`."""
        return BreakerTimes(
            *(
                each / speed
                for each in (self.calm, self.new, self.soon, self.together, self.check_interval)
            )
        )


PACE = BreakerTimes()


@dataclass(frozen=True, slots=True)
class ScopeState:
    """State of one breaker.

    since: when it entered this state, None if it was never open.
    why: the reason as text.
    calm_since: while Open, since when few enough nodes are unhealthy; None if too many are.
    counts_from: faults that began before this time do not count as new.
    """

    state: BreakerState = BreakerState.CLOSED
    since: datetime | None = None
    why: str = ""
    calm_since: datetime | None = None
    counts_from: datetime | None = None

    def back_to(self, at: datetime) -> datetime:
        """Return the later one of `at` and `counts_from`."""
        return at if self.counts_from is None else max(at, self.counts_from)


@dataclass(frozen=True, slots=True)
class ScopeObservation:
    """A scope at one moment.

    members: nodes that count.
    unhealthy: nodes with a fault.
    new: nodes whose fault is new.
    climbed: jobs of `rule` that escalated to `rung`, the most for any rule and rung.
    limit: number of concurrent acts that the normal limits allow.
    """

    now: datetime
    members: int
    unhealthy: int
    new: int = 0
    climbed: int = 0
    rule: str = ""
    rung: int = 0
    limit: int = 1


CLOSED = ScopeState()


def step(
    state: ScopeState, observation: ScopeObservation, breaker: Breaker, pace: BreakerTimes = PACE
) -> ScopeState:
    """Return the state now."""
    state = _not_ahead(state, observation.now)
    match state.state:
        case BreakerState.CLOSED:
            why = trouble(observation, breaker.trip, pace)
            return _opened(why, observation.now) if why else state
        case BreakerState.OPEN:
            return _while_open(state, observation, breaker, pace)
        case BreakerState.HALF_OPEN:
            if why := trouble(observation, breaker.trip, pace):
                return _opened(f"again: {why}", observation.now)
            return _while_half_open(state, observation, breaker.resume)


def _not_ahead(state: ScopeState, now: datetime) -> ScopeState:
    """Return the state with times that are not in the future, after the clock was set back."""
    if state.since is not None and state.since > now:
        state = replace(state, since=now)
    if state.calm_since is not None and state.calm_since > now:
        state = replace(state, calm_since=now)
    if state.counts_from is not None and state.counts_from > now:
        state = replace(state, counts_from=now)
    return state


def _opened(why: str, now: datetime) -> ScopeState:
    return ScopeState(BreakerState.OPEN, now, why, counts_from=now)


def _while_open(
    state: ScopeState, observation: ScopeObservation, breaker: Breaker, pace: BreakerTimes
) -> ScopeState:
    assert state.since is not None
    if not _calm(observation, breaker.trip):
        return state if state.calm_since is None else replace(state, calm_since=None)
    if state.calm_since is None:
        state = replace(state, calm_since=observation.now)
    if observation.now < half_opens_at(state, breaker, observation.now, pace):
        return state
    why = (
        f"{_unhealthy(observation)} after {format_duration(pace.calm)} of calm:"
        f" {breaker.resume.start} at once, times {breaker.resume.factor}"
        f" every {format_duration(breaker.resume.every)}"
    )
    return ScopeState(BreakerState.HALF_OPEN, observation.now, why, counts_from=observation.now)


def half_opens_at(
    state: ScopeState, breaker: Breaker, now: datetime, pace: BreakerTimes = PACE
) -> datetime:
    """Return the earliest time at which an open breaker may become half-open."""
    assert state.since is not None
    return max(state.since + breaker.open, (state.calm_since or now) + pace.calm)


def _while_half_open(
    state: ScopeState, observation: ScopeObservation, resume: Resume
) -> ScopeState:
    if (
        not _steps(state, resume, observation.now)
        or quota(state, resume, observation.now) < observation.limit
    ):
        return state
    why = f"{_unhealthy(observation)}: the normal limits rule"
    return ScopeState(BreakerState.CLOSED, observation.now, why, counts_from=state.counts_from)


def quota(state: ScopeState, resume: Resume, now: datetime) -> int:
    """Return the number of concurrent acts that a half-open breaker allows."""
    steps = min(_steps(state, resume, now), MOST_AT_ONCE.bit_length())
    return min(MOST_AT_ONCE, resume.start * int(resume.factor**steps))


def _steps(state: ScopeState, resume: Resume, now: datetime) -> int:
    assert state.since is not None
    return max(0, (now - state.since) // max(resume.every, timedelta(milliseconds=1)))


# -- what is too much -----------------------------------------------------------------------------


def trouble(observation: ScopeObservation, trip: Trip, pace: BreakerTimes = PACE) -> str:
    """Return why the breaker opens, "" if it does not. Counts below `minNodes` do not open it."""
    least, members = trip.min_nodes, observation.members
    if observation.unhealthy >= max(least, _share(trip.unhealthy_ratio, members)):
        return f"{_unhealthy(observation)}, {_opens_at(trip.unhealthy_ratio)}"
    if observation.new >= max(least, _share(trip.new_faults_per10m, members)):
        share, window = _opens_at(trip.new_faults_per10m), format_duration(pace.new)
        return f"{observation.new} of {members} nodes failed within {window}, {share}"
    if observation.climbed >= max(least, trip.escalations.count):
        per = format_duration(trip.escalations.per)
        return (
            f"{observation.climbed} jobs of {observation.rule} climbed to rung {observation.rung}"
            f" within {per}, {_opens_at(trip.escalations.count)}"
        )
    return ""


def _calm(observation: ScopeObservation, trip: Trip) -> bool:
    """Return whether fewer than half of the unhealthy nodes that open the breaker are unhealthy."""
    return 2 * observation.unhealthy < max(
        trip.min_nodes, _share(trip.unhealthy_ratio, observation.members)
    )


def _share(share: int | str, members: int) -> float:
    return int(share[:-1]) * members / 100 if isinstance(share, str) else share


def _unhealthy(observation: ScopeObservation) -> str:
    return f"{observation.unhealthy} of {observation.members} nodes are unhealthy"


def _opens_at(share: int | str) -> str:
    return f"{share} open the breaker" if not is_ratio(share) else f"{share} opens the breaker"
