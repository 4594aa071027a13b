"""Subtracts API server outages from the time for which a condition held. Pure.

Reporters write through the API server. During an outage they cannot correct a condition, so a fault
that ended meanwhile seems to last. A later report with the same lastTransitionTime proves that the
status held all the time, so gaps before the last report do not matter.

A process that starts after an outage does not know of that gap. It waits for the length of a Lease,
15 s, because detectors repeat a refused report within 10 s.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rules.facts import ConditionFact, FactSet, Gap


def unobserved_time(fact: ConditionFact, facts: FactSet, now: datetime) -> timedelta:
    """Return the part of a condition's duration in which its reporter could not correct it.

    Gaps before `since` are ignored, because the reporter's clock may be behind.
    """
    return unheard(facts.unheard, max(fact.since, fact.received_at), now)


def unheard(gaps: Sequence[Gap], received_at: datetime, now: datetime) -> timedelta:
    """Return the part of the time from `received_at` to `now` in which no report could arrive."""
    times = (min(until, now) - max(since, received_at) for since, until in gaps)
    return sum((max(time, timedelta(0)) for time in times), timedelta(0))
