"""Step `reboot`: by the agent, which shuts the host down in order, or by the provider, which does
not. Pure.

The paths of `via` are tried in order. An agent that does not answer, refuses or fails makes the
step take the next path; its request has expired by then, so an agent that wakes late does nothing.
Only a new boot ID ends the step as done, from any source; but the boot ID in an answer that says
no may be older than the request, and proves nothing.
"""

from datetime import datetime, timedelta

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.ladder import PowerPath
from kubenode.api.v1alpha1.remedyoperationjob import RequestState, StepBy, StepStatus
from remedy.job.model import Job, JobAct, JobObservation, NodeObservation
from remedy.job.moves import Move, wait
from remedy.job.power_record import PowerAct
from remedy.job.records import ask, begun, done, failed, put
from remedy.job.silence import of_step
from remedy.job.steps.agent import ANSWER_GRACE
from remedy.job.steps.handler import StepHandler
from remedy.job.steps.power import boot, rebooted
from remedy.job.steps.provider_request import (
    decide_anew,
    ends_at,
    free_to_ask,
    get_request_word,
    has_step_ended,
    lacks_permit,
    never_shown,
    next_path,
)

LONGEST = timedelta(minutes=3)
"""Longest wait for an agent that does not answer, if there is another path."""


def reboot(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Continue on the path under way, or take the next one."""
    assert step.reboot is not None
    if record.by is StepBy.AGENT and record.asked_at is not None:
        return _by_agent(job, observation, node, step, record)
    path = next_path(step, record)
    if path is PowerPath.PROVIDER or get_request_word(record):

        def no(why: str) -> Move:
            return _fail_path(job, observation, step, record, PowerPath.PROVIDER, why)

        return boot(job, observation, node, step, record, no, by_reset=True)
    assert path is PowerPath.AGENT, "a step whose paths are all spent has failed"
    return _ask_agent(job, observation, node, step, record)


def _ask_agent(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    if not node.boot_id:
        why = "the node reports no boot ID, so a boot could not be proven"
        return _fail_path(job, observation, step, record, PowerPath.AGENT, why)
    if (stop := free_to_ask(job, observation, evidence=not begun(job))) is not None:
        return stop
    until = ends_at(step, record, observation)
    if _other_paths(step, record, PowerPath.AGENT):
        until = min(until, observation.now + min(step.body.timeout / 3, LONGEST))
    return ask(job, observation.now, node, record, StepBy.AGENT, until), JobAct.NONE


def _by_agent(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Wait for the boot that the agent was asked for, or take the next path."""
    answer, now = job.answer, observation.now
    done_by_it = answer is not None and answer.state is RequestState.DONE
    for boot_id in (node.boot_id, answer.boot_id if answer is not None and done_by_it else ""):
        if rebooted(record.boot_id, boot_id):
            return done(
                job, observation, record, f"booted again: {boot_id}, before {record.boot_id}"
            )
    if has_step_ended(step, record, observation):
        why = f"not back with a new boot within {format_duration(step.body.timeout)}"
        return never_shown(job, observation, step, record, why)
    if answer is not None and lacks_permit(answer):
        return decide_anew(job, observation, record, step, answer.output[:512])
    no = _no(job)
    if answer is not None and no and not rebooted(record.boot_id, answer.boot_id):
        return _fail_path(job, observation, step, record, PowerPath.AGENT, no)
    if answer is None or no:
        # A host that runs another boot than the one of the request reports it by its Lease or Node,
        # soon. Until then no other path is taken: a host that has just booted must not be reset.
        until = (record.expires_at or now) + ANSWER_GRACE
        why = no or f"agent {job.spec.agent} did not answer"
    elif _other_paths(step, record, PowerPath.AGENT):
        until = _patient_until(step, record, now)
        why = f"agent {job.spec.agent} began, and the host has not booted again"
    else:
        return wait(job)
    if not of_step(observation, record, until):
        return wait(job)
    return _fail_path(job, observation, step, record, PowerPath.AGENT, why)


def _no(job: Job) -> str:
    """Return the agent's refusal or failure as a sentence; "" if it gave none."""
    answer = job.answer
    if answer is None or answer.state not in (RequestState.FAILED, RequestState.REFUSED):
        return ""
    how = "failed" if answer.state is RequestState.FAILED else "refused"
    return f"agent {job.spec.agent} {how}: {answer.output[:512]}"


def _patient_until(step: Step, record: StepStatus, now: datetime) -> datetime:
    """Return until when a host may shut down in order: two thirds of the step's time."""
    return (record.asked_at or now) + step.body.timeout * 2 / 3


def _other_paths(step: Step, record: StepStatus, path: PowerPath) -> list[PowerPath]:
    """Return the other paths that have not failed."""
    assert step.reboot is not None
    return [p for p in step.reboot.via if p is not path and p not in record.output]


def _fail_path(
    job: Job, observation: JobObservation, step: Step, record: StepStatus, path: PowerPath, why: str
) -> Move:
    """Record that this path failed; take the next one, or fail the step."""
    output = {**record.output, path: why[:1024]}
    spent = record.model_copy(update={"by": StepBy.OPERATOR, "asked_at": None, "output": output})
    if _other_paths(step, spent, path):
        return put(job, spent).having(hold=None), JobAct.NONE
    assert step.reboot is not None
    reasons = "; ".join(output[p] for p in step.reboot.via if p in output)
    return failed(job, observation, step, record.model_copy(update={"output": output}), reasons)


HANDLERS = {"reboot": StepHandler(reboot, PowerAct, polled=True)}
