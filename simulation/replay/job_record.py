"""Updates the record of a job when its status changes: rungs, steps, holds and the end."""

from datetime import datetime

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import Hold, StepState
from remedy.job.model import Job
from remedy.job.records import FIRST_CHECK
from simulation.replay.records import HoldSpan, JobRecord, RungRun, StepRun

ENDED = (StepState.DONE, StepState.FAILED, StepState.CANCELLED)


def update_record(record: JobRecord, before: Job, after: Job, now: datetime) -> None:
    """Update the record after the status of the job changed from `before` to `after`."""
    status = after.status
    record.phase, record.message = status.phase, status.message
    record.close_reason, record.closed = after.close_reason, status.timeline.closed
    if record.begun is None and status.timeline.job_created is not None:
        record.begun = now
    record.permit_at = status.timeline.permit_granted
    if not record.rungs or status.rung != before.status.rung:
        rung = record.ladder[status.rung]
        record.rungs.append(RungRun(rung.name, rung.disruption_class, now))
    if before.status.hold != status.hold:
        _update_hold(record, status.hold, now)
    if before.status.steps != status.steps:
        _stepped(record, before, after, now)
    if status.phase is JobPhase.RUNNING and record.rung.ran is None:
        record.rung.ran = now


def _update_hold(record: JobRecord, hold: Hold | None, now: datetime) -> None:
    """Start or end a hold. A hold with the same reason and scope continues the current one."""
    old = record.hold
    if (
        hold is not None
        and old is not None
        and (old.reason, old.scope)
        == (
            hold.reason,
            hold.scope,
        )
    ):
        old.message = hold.message
        return
    if old is not None:
        old.until = now
    if hold is not None:
        record.holds.append(HoldSpan(str(hold.reason), hold.scope, hold.message, now))


def _stepped(record: JobRecord, before: Job, after: Job, now: datetime) -> None:
    """Record runs of steps, in the order of their starts.

    A step that starts again is a new run. A step that waits to start again has failed. Checks of
    `verify.checks` are no steps of the rung.
    """
    known = {(s.rung, s.index, s.attempts): s.state for s in before.status.steps}
    for step in after.status.steps:
        key = step.rung, step.index, step.attempts
        if step.started_at is None or known.get(key) is step.state or step.index >= FIRST_CHECK:
            continue
        mine = record.ladder[step.rung].steps[step.index]
        run = record.runs.get(key)
        if step.state is StepState.WAITING:
            if run is not None and run.ended is None:
                run.state, run.ended = StepState.FAILED.value, now
            continue
        if run is None:
            rung = record.ladder[step.rung].name
            run = record.runs[key] = StepRun(rung, mine.name, mine.disruption, step.started_at)
            record.steps.append(run)
        if step.state in ENDED:
            run.state, run.ended, run.message = step.state.value, step.finished_at, step.message
