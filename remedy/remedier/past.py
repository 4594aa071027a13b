"""What earlier jobs of a node mean for a new decision. Pure.

Open jobs are read themselves. Closed ones are read from the node record: which was the last, what
it did, whether a person decided, and since when the evidence has been known false.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import Disruption, HoldReason, JobPhase, Mode, RemedyOperationJob
from kubenode.api.v1alpha1.remedyoperationjob import StepState
from remedy.job.initialwait import unbegun, waits_for, waits_until
from remedy.job.model import INCIDENT_ENDS, CloseReason, Job
from remedy.job.supersession import allows_successor


@dataclass(frozen=True, slots=True)
class Past:
    """One job of a node.

    acted: whether a step with a disruption class other than None ran
    acted_at: when the last such step ended, or began
    rung: the last rung that was reached
    reason: why it closed; None for an open one
    false_since: since when its evidence has been known false after it closed
    priority: of its rule; None for a person's job, which no rule supersedes
    probation: a relapse within this time after it closed means that it did not heal
    allows_successor: it is superseded and waits until its successor is created
    unbegun: it has an initial wait and has not begun since
    waits: what it waits for before it begins; None: it does not wait for time
    waits_until: when that wait is over
    events_until: timestamp of the youngest Event in its evidence
    """

    name: str
    node_uid: str
    remedier: str
    fault_class: str
    phase: JobPhase
    created: datetime
    shadow: bool = False
    acted: bool = False
    acted_at: datetime | None = None
    rung: int = 0
    closed: datetime | None = None
    reason: CloseReason | None = None
    false_since: datetime | None = None
    priority: int | None = None
    probation: timedelta = timedelta(0)
    allows_successor: bool = False
    unbegun: bool = False
    waits: HoldReason | None = None
    waits_until: datetime | None = None
    events_until: datetime | None = None

    @classmethod
    def of(cls, obj: RemedyOperationJob) -> "Past":
        job = Job.of(obj)
        acted, acted_at = acts_of(job)
        return cls(
            name=job.name,
            node_uid=job.spec.node_uid,
            remedier=job.spec.remedier.name if job.spec.remedier else "",
            fault_class=job.spec.fault_class,
            phase=job.phase,
            created=job.created,
            shadow=job.spec.mode in (Mode.DRY_RUN, Mode.OFF),
            acted=acted,
            acted_at=acted_at,
            rung=job.status.rung,
            closed=job.status.timeline.closed,
            reason=job.close_reason,
            false_since=job.status.evidence_false_since,
            priority=job.spec.priority if job.spec.remedier else None,
            probation=job.rung.verify.probation,
            allows_successor=allows_successor(job),
            unbegun=unbegun(job),
            waits=waits_for(job),
            waits_until=waits_until(job),
        )

    @property
    def open(self) -> bool:
        return not self.phase.closed

    def on_probation(self, now: datetime) -> bool:
        """Report whether it succeeded so recently that a relapse means that it did not heal."""
        if self.phase is not JobPhase.SUCCEEDED or self.closed is None:
            return False
        return now < self.closed + self.probation

    def healed(self, events_at: datetime | None) -> bool:
        """Report whether this job already healed the evidence: without an Event from before its end
        the evidence would not be true.

        events_at: timestamp of the oldest Event that the evidence needs; None: it needs none
        """
        if self.reason is not CloseReason.PROVEN or self.shadow:
            return False
        if self.events_until is None or events_at is None:
            return False
        return events_at <= self.events_until

    def blocks(self, since: datetime | None, now: datetime) -> bool:
        """Report whether this closed job's incident still lasts and prevents another job.

        since: when the current evidence became true; None if it is not true
        """
        if self.open or self.shadow or self.reason is None or not self.reason.outlasts_the_job:
            return False
        if self.false_since is None:
            return True
        return min(since or now, now) - self.false_since < INCIDENT_ENDS


def acts_of(job: Job) -> tuple[bool, datetime | None]:
    """Return whether a step with a disruption class other than None ran, and when the last one
    ended, or began.
    """
    times = [
        record.finished_at or record.started_at
        for record in job.status.steps
        if record.state not in (StepState.WAITING, StepState.SKIPPED)
        and record.rung < len(job.spec.ladder)
        and record.index < len(job.spec.ladder[record.rung].steps)
        and job.spec.ladder[record.rung].steps[record.index].disruption is not Disruption.NONE
    ]
    return bool(times), max((t for t in times if t is not None), default=None)


PERSONS = frozenset(
    {
        CloseReason.PERSON_CANCELLED,
        CloseReason.PERSON_UNCORDONED,
        CloseReason.PERSON_CLOSED,
        CloseReason.DENIED,
        CloseReason.JOB_DELETED,
    }
)
"""Reasons that a person chose: they apply to the node, not only to one rule."""
