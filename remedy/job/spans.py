"""Builds the trace spans of a fault from changes of a job's status. Pure.

Times and identities come from the status, so a new leader emits spans that an earlier one began.
The agent sends no spans; its part of a step is built here from its answer.
"""

from collections.abc import Iterator
from datetime import datetime

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import StepBy, StepState, StepStatus
from kubenode.runtime.telemetry.places import SpanContext, place_of, read
from kubenode.runtime.telemetry.tracing import TraceSpan, Value
from remedy.job.audit import without_output
from remedy.job.model import Job

ENDED = (StepState.DONE, StepState.FAILED, StepState.SKIPPED, StepState.CANCELLED)


def fault_of(job: Job) -> SpanContext:
    """Return the span of the whole fault: the one the job was made with, else one derived from its
    uid.
    """
    return read(job.traceparent) or place_of(job.uid)


def ended(before: Job, after: Job, now: datetime) -> Iterator[TraceSpan]:
    """Return the spans that end with the change from `before` to `after`, which was written at
    `now`.
    """
    fault = fault_of(after)
    yield from _hold(before, after, fault, now)
    yield from _steps(before, after, fault, now)
    if before.phase is JobPhase.VERIFYING and after.phase is not JobPhase.VERIFYING:
        start, rung = before.verifying_since or before.created, before.status.rung
        proven = after.status.timeline.verified
        error = "" if proven else without_output(after, after.status.message)
        place = fault.part("verify", rung, start.isoformat())
        about: dict[str, Value] = {"kubenode.rung": rung}
        yield TraceSpan("verify", place, fault.span, start, proven or now, about, error)
    if after.phase.closed and not before.phase.closed:
        yield _fault(after, fault, now)


def _fault(job: Job, fault: SpanContext, now: datetime) -> TraceSpan:
    spec, status = job.spec, job.status
    about: dict[str, Value] = {
        "kubenode.job": job.name,
        "k8s.node.name": spec.node_name,
        "kubenode.rule": spec.remedier.name if spec.remedier is not None else "",
        "kubenode.fault_class": spec.fault_class,
        "kubenode.phase": str(job.phase),
        "kubenode.rungs": status.rung + 1,
    }
    error = without_output(job, status.message) if job.phase is JobPhase.FAILED else ""
    start = min(spec.trigger.first_true, job.created)
    return TraceSpan("fault", fault, "", start, status.timeline.closed or now, about, error)


def _hold(before: Job, after: Job, fault: SpanContext, now: datetime) -> Iterator[TraceSpan]:
    """Build the span of a hold once, when the job continues, with its last reason."""
    hold = before.status.hold
    if hold is None or hold.since is None or (after.status.hold and not after.phase.closed):
        return
    about: dict[str, Value] = {"kubenode.reason": hold.reason, "kubenode.scope": hold.scope}
    place = fault.part("hold", hold.since.isoformat())
    yield TraceSpan("hold", place, fault.span, hold.since, now, about)


def _steps(before: Job, after: Job, fault: SpanContext, now: datetime) -> Iterator[TraceSpan]:
    if before.status.steps is after.status.steps:
        return
    old = {(r.rung, r.index): r for r in before.status.steps}
    for record in after.status.steps:
        was = old.get((record.rung, record.index))
        had_ended = was is not None and was.state in ENDED
        if record.state in ENDED and record.started_at is not None and not had_ended:
            yield from _step(after, record, fault, record.started_at, now)


def _step(
    job: Job, record: StepStatus, fault: SpanContext, start: datetime, now: datetime
) -> Iterator[TraceSpan]:
    end = record.finished_at or now
    step = step_of(fault, record)
    error = without_output(job, record.message) if record.state is StepState.FAILED else ""
    about: dict[str, Value] = {
        "kubenode.rung": record.rung,
        "kubenode.step": record.index,
        "kubenode.by": str(record.by),
        "kubenode.attempts": record.attempts,
        "kubenode.state": str(record.state),
    }
    agent = job.status.agent
    answer = agent.requests.get(record.request_id) if agent is not None else None
    if record.by is StepBy.AGENT and answer is not None and answer.started_at is not None:
        place = fault.part("agent", record.request_id)
        attributes: dict[str, Value] = {"k8s.node.name": job.spec.node_name}
        if answer.code is not None:
            attributes["kubenode.code"] = answer.code
        failed = "" if answer.state == "Done" else f"the agent says {answer.state}"
        finished = answer.finished_at or end
        yield TraceSpan(
            f"agent {record.name}",
            place,
            step.span,
            answer.started_at,
            finished,
            attributes,
            failed,
        )
    yield TraceSpan(f"step {record.name}", step, fault.span, start, end, about, error)


def step_of(fault: SpanContext, record: StepStatus) -> SpanContext:
    """Return the span of a step, the parent of everything done for the step."""
    return fault.part("step", record.rung, record.index)
