"""Steps `waitForEvent` and `approveEvent`: wait for a cloud's planned event, or let it start. Pure.

Events are levels: an event may be updated, postponed, reported again or vanish at any time. Only
its current state counts (`JobObservation.events`), and the host's boot ID, which is final.
"""

from datetime import timedelta

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import HoldReason, Step
from kubenode.api.v1alpha1.remedyoperationjob import RequestState, StepBy, StepStatus
from kubenode.runtime.patience import patience
from remedy.job.model import (
    CloseReason,
    Job,
    JobAct,
    JobActResult,
    JobObservation,
    NodeObservation,
    StepAct,
)
from remedy.job.moves import MESSAGE, Move, close, hold, wait
from remedy.job.planned_events import WHY_CANCELLED, WHY_PUT_OFF, acted, put_off
from remedy.job.records import ask, disrupt, done, failed, late, put, unheard
from remedy.job.silence import has_passed
from remedy.job.steps.agent import ANSWER_GRACE
from remedy.job.steps.handler import StepHandler
from remedy.job.steps.provider_request import deadline, ends_at, waits_for_provider
from remedy.plannedevents.observation import BEFORE, Ending, EventObservation, ending
from remedy.power.observation import RequestOutcome


class EventAct(StepAct):
    APPROVE_EVENT = "ApproveEvent"

    @property
    def asks_provider(self) -> bool:
        return True


NO_EVENT = "the job was made without a HostEvent: use this step in a rule whose `when` asks for one"
REQUESTED, APPROVED, LATER = "Asked", "Approved", "Later"
"""Values in the output of a step `approveEvent`, by HostEvent name."""
EVENT = "event"
"""Key of the step's output: the event that an agent shall let start, by its external ID."""
ANSWER = timedelta(minutes=1)
"""How long a provider, or an agent, may take to accept that its event may start."""
GROUP_INTERVAL = timedelta(seconds=30)
"""Interval at which the other machines of a shared event are checked."""


def wait_for_event(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Wait until the events are over as `until` says; fail or close the job if that cannot come."""
    assert step.wait_for_event is not None
    until = step.wait_for_event.until
    if "NewBootID" in until and record.boot_id and node.boot_id not in ("", record.boot_id):
        return done(job, observation, record, "the host has booted again")
    if not observation.events and "NewBootID" not in until:
        return failed(job, observation, step, record, NO_EVENT)
    stands = ending(observation.events) if observation.fresh else Ending.OPEN
    if stands is Ending.CANCELLED:
        return _cancelled(job, observation, step, record)
    if stands is Ending.COMPLETED and "Completed" in until:
        return done(job, observation, record, _describe_end(observation.events))
    if stands is Ending.COMPLETED and "NewBootID" not in until:
        return failed(
            job,
            observation,
            step,
            record,
            f"{_describe_end(observation.events)}: it cannot be cancelled now",
        )
    if put_off(job, observation):
        return close(job, observation.now, CloseReason.FAULT_GONE, WHY_PUT_OFF)
    if late(record, observation):
        within = format_duration(step.body.timeout)
        return failed(
            job, observation, step, record, f"the planned event was not over within {within}"
        )
    return wait(job)


def _cancelled(job: Job, observation: JobObservation, step: Step, record: StepStatus) -> Move:
    """Close the job, or end the step, as `onCancel` and `until` say."""
    assert step.wait_for_event is not None
    if step.wait_for_event.on_cancel == "Release" and not acted(job):
        return close(job, observation.now, CloseReason.EVENT_CANCELLED, WHY_CANCELLED)
    if acted(job) or "Cancelled" in step.wait_for_event.until:
        return done(job, observation, record, WHY_CANCELLED)
    return failed(job, observation, step, record, f"{WHY_CANCELLED}: nothing else will come")


def _describe_end(events: tuple[EventObservation, ...]) -> str:
    phases = sorted({str(e.phase) if e.phase is not None else "gone" for e in events})
    return f"the planned event is over ({', '.join(phases)})"


def approve_event(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Let each event start: once, or repeatedly where that is harmless, until its phase
    advances.
    """
    result = observation.act_result
    if result is not None and result.act is EventAct.APPROVE_EVENT:
        return _record_answer(job, observation, step, record, result)
    if record.by is StepBy.AGENT and record.asked_at is not None:
        return _answered(job, observation, step, record)
    if not observation.events:
        return failed(job, observation, step, record, NO_EVENT)
    if not observation.fresh:
        return wait(job)
    event = next_to_approve(job, observation.events)
    if event is None:
        return done(job, observation, record, "the planned act may start, or has started")
    if record.expires_at is not None and has_passed(
        observation, record.started_at, record.expires_at
    ):
        why = event.shared or f"the provider was not heard to take it: event {event.external_id}"
        return unheard(job, observation, step, record, record.expires_at, why)
    if event.shared:
        return hold(
            job,
            observation.now,
            HoldReason.GROUP_WAIT,
            event.shared,
            until=observation.now + GROUP_INTERVAL,
        )
    if waits_for_provider(job, observation.now):
        return wait(job)
    if record.output.get(event.name) != REQUESTED:
        return _intent(job, observation, node, step, record, event)
    if not (observation.unasked or event.repeatable):
        return wait(job)  # requested by an earlier process: the event's phase will show it
    return disrupt(job, observation, EventAct.APPROVE_EVENT)


def next_to_approve(job: Job, events: tuple[EventObservation, ...]) -> EventObservation | None:
    """Return an event that has not begun and whose provider has not confirmed that it may start;
    one that was requested comes first. None if there is none.
    """
    noted = job.record.output if job.record is not None else {}
    candidates = [e for e in events if e.phase in BEFORE and noted.get(e.name) != APPROVED]
    return min(candidates, key=lambda e: (noted.get(e.name) != REQUESTED, e.name), default=None)


def _intent(
    job: Job,
    observation: JobObservation,
    node: NodeObservation,
    step: Step,
    record: StepStatus,
    event: EventObservation,
) -> Move:
    """Record which event is approved before the request; record nothing while anything
    prevents it.
    """
    stop, act = disrupt(job, observation, EventAct.APPROVE_EVENT)
    if act is not EventAct.APPROVE_EVENT:
        return stop, act
    output = {**record.output, event.name: REQUESTED}
    if event.inside:
        noted = record.model_copy(update={"output": {**output, EVENT: event.external_id}})
        until = min(ends_at(step, record, observation), observation.now + ANSWER)
        return ask(job, observation.now, node, noted, StepBy.AGENT, until), JobAct.NONE
    noted = record.model_copy(update={"output": output})
    expires = ends_at(step, record, observation)
    return ask(job, observation.now, node, noted, StepBy.PROVIDER, expires), JobAct.NONE


def _answered(job: Job, observation: JobObservation, step: Step, record: StepStatus) -> Move:
    """Read the answer of the agent, which approves the event from inside the machine, once for each
    request.
    """
    answer, expires = job.answer, record.expires_at or observation.now
    if answer is None or answer.state is RequestState.RUNNING:
        longer = timedelta(0) if answer is None else ANSWER
        until = expires + longer + ANSWER_GRACE
        why = f"agent {job.spec.agent} did not say whether the planned act may start"
        return unheard(job, observation, step, record, until, why)
    if answer.state is not RequestState.DONE:
        why = f"agent {job.spec.agent}: {answer.output[:512]}"
        return failed(job, observation, step, record, why)
    output = {
        name: APPROVED if note == REQUESTED else note
        for name, note in record.output.items()
        if name != EVENT
    }
    changes = {"output": output, "asked_at": None, "expires_at": deadline(step, record)}
    approved = record.model_copy(update=changes)
    return put(job, approved).having(hold=None), JobAct.NONE


def _record_answer(
    job: Job, observation: JobObservation, step: Step, record: StepStatus, result: JobActResult
) -> Move:
    """Record the provider's answer to the approval."""
    event_name = next((name for name, note in record.output.items() if note == REQUESTED), "")

    def noted(note: str) -> Job:
        output = {**record.output, event_name: note}
        return put(job, record.model_copy(update={"output": output, "asked_at": None}))

    match result.outcome:
        case RequestOutcome.TAKEN:
            return noted(APPROVED).having(hold=None), JobAct.NONE
        case RequestOutcome.REFUSED | RequestOutcome.GONE | None:
            return failed(job, observation, step, record, result.error[:MESSAGE])
        case RequestOutcome.LATER | RequestOutcome.UNCLEAR | RequestOutcome.PREVENTED:
            waited = observation.now - (record.started_at or observation.now)
            until = observation.now + (result.after or patience(waited))
            updated = noted(LATER) if result.outcome is RequestOutcome.LATER else job
            return hold(
                updated, observation.now, HoldReason.PROVIDER_UNREACHABLE, result.error, until=until
            )


HANDLERS = {
    "waitForEvent": StepHandler(wait_for_event),
    "approveEvent": StepHandler(approve_event, EventAct),
}
