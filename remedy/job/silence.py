"""From when on it counts that nobody has told us something, and when a time is over. Pure.

Hosts, controllers and people answer through the API server. While it is away nobody can be heard,
and those who have something to tell need a moment once it is back. A deadline that passes then says
nothing of them: it counts as soon as everybody could be heard again. What a request told its
executor does not change: an agent that wakes late does nothing.

Instants of a status from before our term, or from before our clock was set, count by
kubenode.runtime.term.
"""

from datetime import datetime, timedelta

from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.runtime.term import NEXT_REPORT, begin_by_our_clock
from remedy.job.model import JobObservation
from rules.history import DAWN


def by_our_clock(seen: JobObservation, began: datetime, deadline: datetime) -> datetime:
    """When the time is over that began at `began`, see kubenode.runtime.term."""
    length = max(deadline - began, timedelta(0))
    return begin_by_our_clock(began, length, seen.now, seen.clock_since) + length


def over(seen: JobObservation, began: datetime | None, deadline: datetime) -> bool:
    """Whether the time that began at `began` is over, whoever could be heard in it."""
    return seen.now >= by_our_clock(seen, began or seen.now, deadline)


def counts_from(
    seen: JobObservation, began: datetime, deadline: datetime, report: timedelta = NEXT_REPORT
) -> datetime | None:
    """The deadline of a silence that is waited out since `began`, or later if there was a gap in
    what we hear since then; None: nobody is heard now.

    report  how long whoever is well may take to show it once they are heard
    """
    deadline = by_our_clock(seen, began, deadline)
    heard = seen.hearing_since if seen.fresh else None
    if heard is None:
        return None
    return deadline if heard <= began else max(deadline, heard + report)


def counts(
    seen: JobObservation, began: datetime, deadline: datetime, report: timedelta = NEXT_REPORT
) -> bool:
    at = counts_from(seen, began, deadline, report)
    return at is not None and seen.now >= at


def already(seen: JobObservation, began: datetime) -> bool:
    """Whether what has been silent for long enough, as it seems now, counts as silent: everybody
    could be heard since `began`, or long enough to report, by a clock that was not set since.
    """
    if seen.now < seen.clock_since + NEXT_REPORT and seen.clock_since > DAWN:
        return False
    return counts(seen, max(began, seen.clock_since), seen.now)


def of_step(seen: JobObservation, record: StepStatus, deadline: datetime) -> bool:
    """Whether the silence since the step began counts by now."""
    return counts(seen, record.started_at or seen.now, deadline)
