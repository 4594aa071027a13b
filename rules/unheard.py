"""Time in which nobody could tell us anything: it is no time for which a status was held. Pure.

Reporters speak through the API server. While it is away they cannot take back what they said, so a
fault that went in that time looks as if it had lasted. What a reporter says later with the same
lastTransitionTime was so all the time: gaps before its last word do not matter.

A process that starts after an outage has no gap of it. It waits out a Lease then, 15 s: detectors
repeat a refused report within 10 s.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rules.facts import ConditionFact, FactSet, Gap


def unobserved_time(fact: ConditionFact, facts: FactSet, now: datetime) -> timedelta:
    """How much of the time that a condition seems to have lasted nobody could take it back in.
    Its reporter's clock may be behind: what was before the condition says nothing of it.
    """
    return unheard(facts.unheard, max(fact.since, fact.received_at), now)


def unheard(gaps: Sequence[Gap], received_at: datetime, now: datetime) -> timedelta:
    """Return the part of the time from `received_at` to `now` in which no report could arrive."""
    times = (min(until, now) - max(since, received_at) for since, until in gaps)
    return sum((max(time, timedelta(0)) for time in times), timedelta(0))
