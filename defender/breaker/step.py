"""One breaker, one step: from its state and what is seen to its state now. Pure.

    Closed    → Open      too much is wrong at once; the reason is kept in words
    Open      → HalfOpen  at least `open` long, and for `calm` less than half of what opens it
    HalfOpen  → Open      too much is wrong anew
    HalfOpen  → Closed    as many acts at once as the normal limits allow

Faults and escalations from before the last opening or half-opening open nothing again.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kubenode.api.duration import format_duration
from kubenode.api.share import is_ratio
from kubenode.api.v1alpha1.defenderpolicy import Breaker, BreakerState, Resume, Trip

MOST_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class BreakerTimes:
    """The times that no policy sets; a simulation that runs faster has shorter ones.

    calm      little enough is wrong for this long before a breaker half opens
    new       the window of `newFaultsPer10m`
    soon      to ask again while few are let through at once
    together  heartbeats that stop within this stop at once
    look      where only time can change a breaker, it is looked at no more often
    """

    calm: timedelta = timedelta(minutes=5)
    new: timedelta = timedelta(minutes=10)
    soon: timedelta = timedelta(minutes=1)
    together: timedelta = timedelta(minutes=2)
    look: timedelta = timedelta(seconds=1)

    def faster(self, speed: float) -> "BreakerTimes":
        return BreakerTimes(
            *(each / speed for each in (self.calm, self.new, self.soon, self.together, self.look))
        )


PACE = BreakerTimes()


@dataclass(frozen=True, slots=True)
class ScopeState:
    """since      when it came to this state
    calm_since  while Open: since when little enough is wrong to half open
    counts_from  what began before counts no more as new
    """

    state: BreakerState = BreakerState.CLOSED
    since: datetime | None = None
    why: str = ""
    calm_since: datetime | None = None
    counts_from: datetime | None = None

    def back_to(self, at: datetime) -> datetime:
        """From when on a breaker that looks back to `at` counts."""
        return at if self.counts_from is None else max(at, self.counts_from)


@dataclass(frozen=True, slots=True)
class ScopeObservation:
    """A scope now.

    new      nodes whose fault is new
    climbed  jobs of `rule` that climbed to `rung`: the most of any rule and rung
    limit    acts at once that the normal limits allow
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
    state: ScopeState, seen: ScopeObservation, breaker: Breaker, pace: BreakerTimes = PACE
) -> ScopeState:
    state = _not_ahead(state, seen.now)
    match state.state:
        case BreakerState.CLOSED:
            why = trouble(seen, breaker.trip, pace)
            return _opened(why, seen.now) if why else state
        case BreakerState.OPEN:
            return _while_open(state, seen, breaker, pace)
        case BreakerState.HALF_OPEN:
            if why := trouble(seen, breaker.trip, pace):
                return _opened(f"again: {why}", seen.now)
            return _while_half_open(state, seen, breaker.resume)


def _not_ahead(state: ScopeState, now: datetime) -> ScopeState:
    """After the clock was set back: what lies ahead of it began now."""
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
    state: ScopeState, seen: ScopeObservation, breaker: Breaker, pace: BreakerTimes
) -> ScopeState:
    assert state.since is not None
    if not _calm(seen, breaker.trip):
        return state if state.calm_since is None else replace(state, calm_since=None)
    if state.calm_since is None:
        state = replace(state, calm_since=seen.now)
    if seen.now < half_opens_at(state, breaker, seen.now, pace):
        return state
    why = (
        f"{_unhealthy(seen)} after {format_duration(pace.calm)} of calm:"
        f" {breaker.resume.start} at once, times {breaker.resume.factor}"
        f" every {format_duration(breaker.resume.every)}"
    )
    return ScopeState(BreakerState.HALF_OPEN, seen.now, why, counts_from=seen.now)


def half_opens_at(
    state: ScopeState, breaker: Breaker, now: datetime, pace: BreakerTimes = PACE
) -> datetime:
    """The earliest instant at which an open breaker may half open."""
    assert state.since is not None
    return max(state.since + breaker.open, (state.calm_since or now) + pace.calm)


def _while_half_open(state: ScopeState, seen: ScopeObservation, resume: Resume) -> ScopeState:
    if not _steps(state, resume, seen.now) or quota(state, resume, seen.now) < seen.limit:
        return state
    why = f"{_unhealthy(seen)}: the normal limits rule"
    return ScopeState(BreakerState.CLOSED, seen.now, why, counts_from=state.counts_from)


def quota(state: ScopeState, resume: Resume, now: datetime) -> int:
    """Acts at once while half-open."""
    steps = min(_steps(state, resume, now), MOST_AT_ONCE.bit_length())
    return min(MOST_AT_ONCE, resume.start * int(resume.factor**steps))


def _steps(state: ScopeState, resume: Resume, now: datetime) -> int:
    assert state.since is not None
    return max(0, (now - state.since) // max(resume.every, timedelta(milliseconds=1)))


# -- what is too much -----------------------------------------------------------------------------


def trouble(seen: ScopeObservation, trip: Trip, pace: BreakerTimes = PACE) -> str:
    """Why the breaker opens, "" if nothing opens it. No count below `minNodes` does."""
    least, members = trip.min_nodes, seen.members
    if seen.unhealthy >= max(least, _share(trip.unhealthy_ratio, members)):
        return f"{_unhealthy(seen)}, {_opens_at(trip.unhealthy_ratio)}"
    if seen.new >= max(least, _share(trip.new_faults_per10m, members)):
        share, window = _opens_at(trip.new_faults_per10m), format_duration(pace.new)
        return f"{seen.new} of {members} nodes failed within {window}, {share}"
    if seen.climbed >= max(least, trip.escalations.count):
        per = format_duration(trip.escalations.per)
        return (
            f"{seen.climbed} jobs of {seen.rule} climbed to rung {seen.rung} within {per},"
            f" {_opens_at(trip.escalations.count)}"
        )
    return ""


def _calm(seen: ScopeObservation, trip: Trip) -> bool:
    """Less than half of the unhealthy nodes that open the breaker."""
    return 2 * seen.unhealthy < max(trip.min_nodes, _share(trip.unhealthy_ratio, seen.members))


def _share(share: int | str, members: int) -> float:
    return int(share[:-1]) * members / 100 if isinstance(share, str) else share


def _unhealthy(seen: ScopeObservation) -> str:
    return f"{seen.unhealthy} of {seen.members} nodes are unhealthy"


def _opens_at(share: int | str) -> str:
    return f"{share} open the breaker" if not is_ratio(share) else f"{share} opens the breaker"
