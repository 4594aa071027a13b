"""The metrics of the job controller. Labels come from closed sets and start at zero."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kubenode.api.v1alpha1 import HoldReason, JobPhase, Reason, RemedyOperationJob
from kubenode.runtime.clock import Clock
from remedy.job.model import CloseReason, Job, JobAct
from remedy.job.steps.table import STEP_ACTS

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400)
OTHER = "other"
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
    """Collects how long jobs that cordoned their nodes have been on hold, read when the page is
    requested.
    """

    def __init__(self, jobs: Callable[[], Iterable[RemedyOperationJob]], clock: Clock) -> None:
        self._jobs, self._clock = jobs, clock

    def collect(self) -> Iterator[GaugeMetricFamily]:
        now = self._clock.now()
        oldest = dict.fromkeys((*sorted(REASONS), OTHER), 0.0)
        for job in self._jobs():
            status = job.status
            if status.hold is None or not status.owned.cordon or status.phase.closed:
                continue
            seconds = (now - (status.hold.since or now)).total_seconds()
            reason = _label(status.hold.reason)
            oldest[reason] = max(oldest[reason], seconds)
        family = GaugeMetricFamily(
            "kubenode_job_held_oldest_seconds",
            "Longest current wait in seconds of a job that cordons its node, by reason.",
            labels=["reason"],
        )
        for reason, seconds in oldest.items():
            family.add_metric([reason], seconds)
        yield family


def _label(reason: str) -> str:
    return reason if reason in REASONS else OTHER
