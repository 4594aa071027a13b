"""Switches a machine on again before the job that switched it off ends. Pure.

Whatever ends the job (a person, the node's end, its own ladder), the machine is observed running or
gone, or a person is called. The intent is written before the first request; requests repeat until
the provider reports that the machine runs.
"""

from datetime import datetime, timedelta

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import StepState, StepStatus
from kubenode.providers.port import PowerState
from remedy.job import silence
from remedy.job.model import CLOSING, Act, Job, JobAct, JobObservation
from remedy.job.power_record import (
    BACK,
    INTENT,
    OFF_WORD,
    REQUEST,
    WAS,
    PowerAct,
    is_replacement_requested,
    switching_record,
)
from remedy.power.observation import PowerObservation, RequestOutcome

AGAIN = timedelta(minutes=1)
"""Interval between requests to switch on a machine that does not run yet."""
FOLLOWS = timedelta(minutes=5)
"""A machine that still runs this long after a request to switch it off will not follow
the request.
"""
WITHIN = timedelta(minutes=15)
"""A person is called if the machine does not run within this time."""

Move = tuple[Job, Act]


def switch_on_again(job: Job, observation: JobObservation) -> Move | None:
    """Return the next move towards a running machine; None: this job did not leave the
    machine off.
    """
    record, power = switching_record(job), observation.power
    if record is None:
        return None
    result = observation.act_result
    if result is not None and result.act is PowerAct.POWER_ON and result.outcome is not None:
        if result.outcome is RequestOutcome.REFUSED:
            return _call(job, record, f"it could not be switched on again: {result.error}")
        return _back(job, record, format_time(observation.now)), JobAct.NONE
    if power is None:
        return job, JobAct.NONE
    if _is_gone(job, power):
        return _back(job, record, "gone"), JobAct.NONE
    if is_replacement_requested(job):
        return _call(job, record, "its replacement was asked for and is not seen to have come")
    progress = record.output.get(BACK, "")
    state = power.power.state if power.power is not None else None
    if state is PowerState.ON and (progress or not _may_go_off(record, observation)):
        return _back(job, record, "on"), JobAct.NONE
    if _is_late(job, record, observation):
        return _call(job, record, f"it was not seen to run again: {power.why or power.description}")
    if power.outcome is RequestOutcome.REFUSED:
        return _call(job, record, f"it could not be switched on again: {power.why}")
    if not power.dark:
        return job, JobAct.NONE
    if not progress:
        return _back(job, record, INTENT), JobAct.NONE
    return job, PowerAct.POWER_ON if _is_due(progress, observation.now) else JobAct.NONE


def _is_gone(job: Job, power: PowerObservation) -> bool:
    """Report whether the machine is gone. A provider that does not know the machine proves it only
    if it knew it before.
    """
    if power.power is not None:
        return power.power.state is PowerState.GONE
    known = any(WAS in record.output for record in job.status.steps)
    return power.outcome is RequestOutcome.GONE and known


def _may_go_off(record: StepStatus, observation: JobObservation) -> bool:
    """Report whether a running machine may still follow our request to switch it off."""
    pending = record.output.get(REQUEST) == OFF_WORD and record.state is not StepState.DONE
    if not pending or record.expires_at is None:
        return False
    end = max(record.expires_at, (record.asked_at or record.expires_at) + FOLLOWS)
    return not silence.has_passed(observation, record.started_at, end)


def _is_late(job: Job, record: StepStatus, observation: JobObservation) -> bool:
    closing = job.condition(CLOSING)
    began = closing.last_transition_time if closing is not None else observation.now
    end = max(began, record.expires_at or began) + WITHIN
    return silence.has_passed(observation, began, end)


def _is_due(progress: str, now: datetime) -> bool:
    """Report whether the request is due. A time in the future comes from a clock that
    was set back.
    """
    if progress == INTENT:
        return True
    at = datetime.fromisoformat(progress)
    return not now - AGAIN < at <= now


def _back(job: Job, record: StepStatus, word: str) -> Job:
    noted = record.model_copy(update={"output": {**record.output, BACK: word}})
    steps = [noted if other is record else other for other in job.status.steps]
    return job.having(steps=steps)


def _call(job: Job, record: StepStatus, why: str) -> Move:
    """Move the job to NeedsHuman; it closes only when somebody closes it."""
    after = _back(job, record, "called")
    message = f"the machine is off: this job switched it off, and {why}; see that it runs"
    return after.having(
        phase=JobPhase.NEEDS_HUMAN,
        message=message[:1024],
        hold=None,
        conditions=[c for c in job.status.conditions if c.type != CLOSING],
    ), JobAct.NONE
