"""Jobs that were made for planned events: what the events' current state changes. Pure."""

from dataclasses import replace

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.hostevent import HostEventPhase
from kubenode.api.v1alpha1.remedyoperationjob import StepState
from remedy.job.initialwait import unbegun
from remedy.job.model import CloseReason, FaultAssessment, Job, JobObservation, irreversible
from remedy.job.moves import Move, close
from remedy.plannedevents.observation import BEFORE, Ending, EventObservation, ending
from rules.truth import Truth

BEFORE_IT = frozenset({JobPhase.AWAITING_APPROVAL, JobPhase.AWAITING_PERMIT, JobPhase.RUNNING})
"""Phases in which a cancelled event can still end the job, besides a job that has not begun."""
WHY_CANCELLED = "the planned event was cancelled"
WHY_PUT_OFF = "the planned event was put off: another job comes when it is due"


def cancelled(job: Job, observation: JobObservation) -> Move | None:
    """Close a job when its planned event was cancelled, if nothing irreversible was done; None
    otherwise.

    A step that waits for the event and has `onCancel: Continue` goes on.
    """
    before = job.phase in BEFORE_IT or unbegun(job)
    if not job.spec.host_events or not before or not observation.fresh or acted(job):
        return None
    if (
        ending(observation.events) is not Ending.CANCELLED
        or observation.fault.evidence is Truth.TRUE
    ):
        return None
    step = job.step
    waits = step.wait_for_event if step is not None and job.phase is JobPhase.RUNNING else None
    if waits is not None and waits.on_cancel == "Continue":
        return None
    return close(job, observation.now, CloseReason.EVENT_CANCELLED, WHY_CANCELLED)


def put_off(job: Job, observation: JobObservation) -> bool:
    """Report whether all open events of the job were postponed so far that its rule no longer
    matches.
    """
    open_events = [event for event in observation.events if event.open]
    later = all(
        e.phase in BEFORE and e.due is not None and e.due > observation.now for e in open_events
    )
    gone = observation.fresh and observation.fault.evidence is Truth.FALSE
    return gone and bool(open_events) and later and not acted(job)


def holding(fault: FaultAssessment, events: tuple[EventObservation, ...]) -> FaultAssessment:
    """Return the fault, held true while a planned event of the job is active.

    A rule with a scheduled event as evidence does not match an active one; the node must not be
    released in the middle of the event.
    """
    if not any(e.planned and e.phase is HostEventPhase.ACTIVE for e in events):
        return fault
    evidence = Truth.TRUE if fault.evidence is Truth.FALSE else fault.evidence
    return replace(fault, evidence=evidence, gone=Truth.FALSE)


def acted(job: Job) -> bool:
    """Report whether any rung did, or requested, something that cannot be undone."""
    ladder = job.spec.ladder
    return any(
        record.state is not StepState.WAITING
        and record.rung < len(ladder)
        and record.index < len(ladder[record.rung].steps)
        and irreversible(ladder[record.rung].steps[record.index])
        for record in job.status.steps
    )
