"""The metrics of the job controller. Labels come from closed sets and start at zero."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from kubenode.api.v1alpha1 import HoldReason, JobPhase, Reason
from remedy.job.model import Act, Job

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400)
OTHER = "other"


class Metrics:
    """Fault to job is measured where the job is made: remedy.remedier.metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.moves = Counter(
            "kubenode_job_moves", "Jobs that entered a phase.", ["phase"], registry=registry
        )
        self.holds = Counter(
            "kubenode_job_holds", "Times a job began to wait.", ["reason"], registry=registry
        )
        self.acts = Counter("kubenode_job_acts", "Acts carried out.", ["act"], registry=registry)
        self.seconds = Histogram(
            "kubenode_job_seconds",
            "From the creation of a job to its end.",
            ["phase"],
            buckets=SECONDS,
            registry=registry,
        )
        self._reasons = {str(r) for r in (*HoldReason, *Reason)}
        for phase in JobPhase:
            self.moves.labels(phase)
            if phase.closed:
                self.seconds.labels(phase)
        for reason in (*sorted(self._reasons), OTHER):
            self.holds.labels(reason)
        for what in Act:
            if what is not Act.NONE:
                self.acts.labels(what)

    def changed(self, before: Job, after: Job) -> None:
        if after.phase is not before.phase:
            self.moves.labels(after.phase).inc()
            closed = after.status.timeline.closed
            if after.phase.closed and closed is not None:
                self.seconds.labels(after.phase).observe((closed - after.created).total_seconds())
        old, new = before.status.hold, after.status.hold
        if new is not None and (old is None or old.reason != new.reason):
            self.holds.labels(new.reason if new.reason in self._reasons else OTHER).inc()
