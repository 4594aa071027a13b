"""States of breakers over time, from the history in the status of policies. Pure.

The history holds a bounded number of changes. Before the oldest one of a full history the states
are not known.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from defender.decision.breaker.record import MOST_CHANGES
from kubenode.api.v1alpha1.defenderpolicy import BreakerChange, BreakerState

UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class BreakerSpan:
    """A time for which a breaker had one state, or UNKNOWN."""

    begin: datetime
    end: datetime
    state: str


@dataclass(frozen=True, slots=True)
class BreakerBand:
    """States of the breaker of one scope, the earliest first, without gaps."""

    policy: str
    scope: str
    spans: tuple[BreakerSpan, ...]

    @property
    def last_event(self) -> datetime:
        """The latest time at which the breaker was not closed."""
        return max(span.end for span in self.spans if span.state != BreakerState.CLOSED)


def breaker_bands(
    policy: str, changes: Sequence[BreakerChange], begin: datetime, now: datetime
) -> list[BreakerBand]:
    """Return a band for each scope whose breaker was not closed all the time since `begin`.

    changes: the history of the policy.
    """
    before = UNKNOWN if len(changes) >= MOST_CHANGES else str(BreakerState.CLOSED)
    scopes = dict.fromkeys(change.scope for change in changes)
    bands = [
        BreakerBand(policy, scope, _spans(_of(scope, changes), before, begin, now))
        for scope in scopes
    ]
    return [band for band in bands if any(s.state in _EVENTFUL for s in band.spans)]


_EVENTFUL = (BreakerState.OPEN, BreakerState.HALF_OPEN)


def _of(scope: str, changes: Iterable[BreakerChange]) -> list[BreakerChange]:
    return sorted((c for c in changes if c.scope == scope), key=lambda change: change.since)


def _spans(
    changes: Iterable[BreakerChange], before: str, begin: datetime, now: datetime
) -> tuple[BreakerSpan, ...]:
    spans: list[BreakerSpan] = []
    state, since = before, begin
    for change in changes:
        at = min(max(change.since, begin), now)
        if at > since:
            spans.append(BreakerSpan(since, at, state))
        state, since = str(change.state), at
    if now > since or not spans:
        spans.append(BreakerSpan(since, now, state))
    return tuple(spans)
