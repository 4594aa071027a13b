"""The metrics of the job controller. Labels come from closed sets and start at zero."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kubenode.api.v1alpha1 import HoldReason, JobPhase, Reason, RemedyOperationJob
from kubenode.runtime.clock import Clock
from remedy.job.model import CloseReason, Job, JobAct
from remedy.job.steps.table import STEP_ACTS

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400)
OTHER = "other"
NO_VERDICT = "NoVerdict"
"""Reason of a job that waits for a permit and has had no verdict on it yet."""
FOR_PERSONS = frozenset({JobPhase.AWAITING_APPROVAL, JobPhase.NEEDS_HUMAN})
"""Phases of jobs that wait for a person, with alerts of their own."""
REASONS = frozenset(str(reason) for reason in (*HoldReason, *Reason))
"""Reasons for which a job may wait; a reason of another version counts as OTHER."""


class JobMetrics:
    """Metrics of jobs. remedy.remedier.metrics measures the time from fault to job, where the job
    is made.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.moves = Counter(
            "kubenode_job_moves",
            "Number of transitions of jobs to a phase.",
            ["phase"],
            registry=registry,
        )
        self.holds = Counter(
            "kubenode_job_holds",
            "Number of waits that jobs started, by reason.",
            ["reason"],
            registry=registry,
        )
        self.acts = Counter(
            "kubenode_job_acts", "Number of acts of jobs.", ["act"], registry=registry
        )
        self.seconds = Histogram(
            "kubenode_job_seconds",
            "Time in seconds from the creation of a job to its end, if it did more than notify.",
            ["phase"],
            buckets=SECONDS,
            registry=registry,
        )
        for phase in JobPhase:
            self.moves.labels(phase)
            if phase.closed:
                self.seconds.labels(phase)
        for reason in (*sorted(REASONS), OTHER):
            self.holds.labels(reason)
        for what in JobAct:
            if what is not JobAct.NONE:
                self.acts.labels(what)
        for kind in STEP_ACTS:
            for each in kind:
                self.acts.labels(each)

    def changed(self, before: Job, after: Job) -> None:
        """Count the transition and the new hold of a written change."""
        if after.phase is not before.phase:
            self.moves.labels(after.phase).inc()
            closed = after.status.timeline.closed
            repaired = after.close_reason is not CloseReason.NOTIFIED
            if after.phase.closed and closed is not None and repaired:
                self.seconds.labels(after.phase).observe((closed - after.created).total_seconds())
        old, new = before.status.hold, after.status.hold
        if new is not None and (old is None or old.reason != new.reason):
            self.holds.labels(_label(new.reason)).inc()


class HoldCollector(Collector):
    """Collects how long jobs have been on hold, read when the page is requested: those that
    cordoned their nodes, and those that have nothing on their nodes.

    Jobs that wait for a person are not on hold: their phases show them.
    """

    def __init__(self, jobs: Callable[[], Iterable[RemedyOperationJob]], clock: Clock) -> None:
        self._jobs, self._clock = jobs, clock

    def collect(self) -> Iterator[GaugeMetricFamily]:
        now = self._clock.now()
        cordoned = dict.fromkeys((*sorted(REASONS), OTHER), 0.0)
        waiting = {NO_VERDICT: 0.0, **cordoned}
        for job in self._jobs():
            if (wait := _wait(job)) is None:
                continue
            reason, since = wait
            oldest = cordoned if job.status.owned.cordon else waiting
            oldest[reason] = max(oldest.get(reason, 0.0), (now - (since or now)).total_seconds())
        yield _gauge(
            "kubenode_job_held_oldest_seconds",
            "Longest current wait in seconds of a job that cordons its node, by reason.",
            cordoned,
        )
        yield _gauge(
            "kubenode_job_waiting_oldest_seconds",
            "Longest current wait in seconds of a job that does not cordon its node, by reason.",
            waiting,
        )


def _wait(job: RemedyOperationJob) -> tuple[str, datetime | None] | None:
    """Return the reason for which a job waits, and since when; None if it does not wait, or waits
    for a person.
    """
    status = job.status
    if status.phase.closed or (not status.owned.cordon and status.phase in FOR_PERSONS):
        return None
    if status.hold is not None:
        return _label(status.hold.reason), status.hold.since
    if status.phase is JobPhase.AWAITING_PERMIT and not status.owned.cordon:
        return NO_VERDICT, status.timeline.job_created or job.metadata.creation_timestamp
    return None


def _gauge(name: str, text: str, by_reason: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=["reason"])
    for reason, seconds in by_reason.items():
        family.add_metric([reason], seconds)
    return family


def _label(reason: str) -> str:
    return reason if reason in REASONS else OTHER
