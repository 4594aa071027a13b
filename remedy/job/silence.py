"""Extends deadlines of missing answers by the time in which the API server was unreachable. Pure.

Hosts, controllers and people answer through the API server. During an outage no answer can arrive,
and after it they need some time to report. So a deadline that passes during an outage counts only
after everybody could report again. The expiry that a request gave its executor stays the same: an
agent that wakes late does nothing.

Instants in a status from before our leader term, or from before our clock was set, count as
kubenode.runtime.term says.
"""

from datetime import datetime, timedelta

from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.runtime.term import NEXT_REPORT, begin_by_our_clock
from remedy.job.model import JobObservation
from rules.history import DAWN


def by_our_clock(observation: JobObservation, began: datetime, deadline: datetime) -> datetime:
    """Return the end of a wait that began at `began`, by our clock (kubenode.runtime.term)."""
    length = max(deadline - began, timedelta(0))
    return begin_by_our_clock(began, length, observation.now, observation.clock_since) + length


def has_passed(observation: JobObservation, began: datetime | None, deadline: datetime) -> bool:
    """Report whether a wait that began at `began` is over, whether or not answers could arrive in
    it. `began` None: it begins now.
    """
    return observation.now >= by_our_clock(observation, began or observation.now, deadline)


def counts_from(
    observation: JobObservation,
    began: datetime,
    deadline: datetime,
    report: timedelta = NEXT_REPORT,
) -> datetime | None:
    """Return when a missing answer counts: the deadline, or later after a gap in our caches since
    `began`. None: there is a gap now.

    report: how long a healthy host, controller or person may take to report after the gap
    """
    deadline = by_our_clock(observation, began, deadline)
    gapless_since = observation.hearing_since if observation.fresh else None
    if gapless_since is None:
        return None
    return deadline if gapless_since <= began else max(deadline, gapless_since + report)


def counts(
    observation: JobObservation,
    began: datetime,
    deadline: datetime,
    report: timedelta = NEXT_REPORT,
) -> bool:
    """Report whether a missing answer counts now; see `counts_from`."""
    at = counts_from(observation, began, deadline, report)
    return at is not None and observation.now >= at


def already(observation: JobObservation, began: datetime) -> bool:
    """Report whether a silence that looks long enough now counts: either no gap occurred since
    `began`, or there was time for a report since the last gap, by a clock that was not set
    meanwhile.
    """
    if observation.now < observation.clock_since + NEXT_REPORT and observation.clock_since > DAWN:
        return False
    return counts(observation, max(began, observation.clock_since), observation.now)


def of_step(observation: JobObservation, record: StepStatus, deadline: datetime) -> bool:
    """Report whether the missing answer to the step counts now; `deadline` is when it was due."""
    return counts(observation, record.started_at or observation.now, deadline)
