"""Step `agent`: the agent acts by itself once the request is written; its answer is
copied. Pure.
"""

from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.remedyoperationjob import (
    EXCERPT,
    AgentRequest,
    RequestState,
    StepBy,
    StepStatus,
)
from remedy.job.model import Job, JobAct, JobObservation, NodeObservation
from remedy.job.moves import MESSAGE, Move
from remedy.job.records import ask, begun, done, failed, unheard
from remedy.job.steps.handler import StepHandler
from remedy.job.steps.provider_request import decide_anew, free_to_ask, lacks_permit

ANSWER_GRACE = timedelta(seconds=5)
"""Wait past a request's expiry: an answer may still be on its way, and clocks differ."""


def agent(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Send the request to the agent, then wait for its answer."""
    now, answer = observation.now, job.answer
    if record.asked_at is None:
        until = now + step.body.timeout
        return free_to_ask(job, observation, evidence=not begun(job)) or (
            ask(job, now, node, record, StepBy.AGENT, until),
            JobAct.NONE,
        )
    expires = record.expires_at or now
    if answer is not None and lacks_permit(answer):
        return decide_anew(job, observation, record, step, answer.output[:512])
    if answer is None:
        why = f"agent {job.spec.agent} did not answer in time"
        return unheard(job, observation, step, record, expires + ANSWER_GRACE, why)
    match answer.state:
        case RequestState.RUNNING:
            until = expires + step.body.timeout + ANSWER_GRACE
            why = "the agent began but did not finish in time"
            return unheard(job, observation, step, record, until, why)
        case RequestState.DONE:
            updated = record.model_copy(update={"output": _output(step, answer)})
            at = _between(record.asked_at, answer.finished_at, now)
            return done(job, observation, updated, "", at=at)
        case RequestState.FAILED | RequestState.REFUSED:
            updated = record.model_copy(update={"output": _output(step, answer)})
            how = "refused" if answer.state is RequestState.REFUSED else "failed"
            why = f"{step.agent.action if step.agent else step.name} {how}: {answer.output[:512]}"
            return failed(job, observation, step, updated, why)


def _output(step: Step, answer: AgentRequest) -> dict[str, str]:
    output = {} if answer.code is None else {"code": str(answer.code)}
    text, excerpt = answer.output, ""
    if step.collect is not None:  # the first line says where the bundle is
        text, _, excerpt = answer.output.partition("\n")
    output["text"] = text[:MESSAGE]
    return {**output, EXCERPT: excerpt[:MESSAGE]} if excerpt else output


def _between(low: datetime | None, at: datetime | None, high: datetime) -> datetime:
    """Return the host's time `at` if it lies between `low` and `high`, else our time `high`."""
    return at if at is not None and (low is None or low <= at) and at <= high else high


HANDLERS = {"agent": StepHandler(agent)}
