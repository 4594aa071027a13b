"""Step `reboot`: by the agent, which asks the system, or by the provider, which does not. Pure.

The paths of `via` are tried in order. An agent that does not answer, refuses or fails gives way to
the next path; its request has expired by then, so that an agent that wakes late does nothing. Only
a new boot ID ends the step well, whoever reports it; but the one in an answer that says no may be
from before the request, and proves nothing.
"""

from datetime import datetime, timedelta

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.ladder import PowerPath
from kubenode.api.v1alpha1.remedyoperationjob import RequestState, StepBy, StepStatus
from remedy.job.model import Job, JobAct, JobObservation, NodeSeen
from remedy.job.moves import Move, wait
from remedy.job.records import ask, begun, done, failed, put
from remedy.job.silence import of_step
from remedy.job.steps.agent import ANSWER_GRACE
from remedy.job.steps.asking import (
    asked,
    decide_anew,
    ends_at,
    free_to_ask,
    lacks_permit,
    never_shown,
    next_path,
    over,
)
from remedy.job.steps.power import boot, rebooted

LONGEST = timedelta(minutes=3)
"""An agent that does not answer is waited for at most so long where there is another path."""


def reboot(job: Job, seen: JobObservation, node: NodeSeen, step: Step, record: StepStatus) -> Move:
    assert step.reboot is not None
    if record.by is StepBy.AGENT and record.asked_at is not None:
        return _by_agent(job, seen, node, step, record)
    path = next_path(step, record)
    if path is PowerPath.PROVIDER or asked(record):

        def no(why: str) -> Move:
            return _give_way(job, seen, step, record, PowerPath.PROVIDER, why)

        return boot(job, seen, node, step, record, no, by_reset=True)
    assert path is PowerPath.AGENT, "a step whose paths are all spent has failed"
    return _ask_agent(job, seen, node, step, record)


def _ask_agent(
    job: Job, seen: JobObservation, node: NodeSeen, step: Step, record: StepStatus
) -> Move:
    if not node.boot_id:
        why = "the node reports no boot ID, so a boot could not be proven"
        return _give_way(job, seen, step, record, PowerPath.AGENT, why)
    if (stop := free_to_ask(job, seen, evidence=not begun(job))) is not None:
        return stop
    until = ends_at(step, record, seen)
    if _left(step, record, PowerPath.AGENT):
        until = min(until, seen.now + min(step.body.timeout / 3, LONGEST))
    return ask(job, seen.now, node, record, StepBy.AGENT, until), JobAct.NONE


def _by_agent(
    job: Job, seen: JobObservation, node: NodeSeen, step: Step, record: StepStatus
) -> Move:
    answer, now = job.answer, seen.now
    done_by_it = answer is not None and answer.state is RequestState.DONE
    for boot_id in (node.boot_id, answer.boot_id if answer is not None and done_by_it else ""):
        if rebooted(record.boot_id, boot_id):
            return done(job, seen, record, f"booted again: {boot_id}, before {record.boot_id}")
    if over(step, record, seen):
        why = f"not back with a new boot within {format_duration(step.body.timeout)}"
        return never_shown(job, seen, step, record, why)
    if answer is not None and lacks_permit(answer):
        return decide_anew(job, seen, record, step, answer.output[:512])
    no = _no(job)
    if answer is not None and no and not rebooted(record.boot_id, answer.boot_id):
        return _give_way(job, seen, step, record, PowerPath.AGENT, no)
    if answer is None or no:
        # A host that runs another boot than it was asked of tells so by its Lease or its Node, and
        # soon: until then no other path is taken, lest a host be reset that has just booted.
        until = (record.expires_at or now) + ANSWER_GRACE
        why = no or f"agent {job.spec.agent} did not answer"
    elif _left(step, record, PowerPath.AGENT):
        until = _patient_until(step, record, now)
        why = f"agent {job.spec.agent} began, and the host has not booted again"
    else:
        return wait(job)
    if not of_step(seen, record, until):
        return wait(job)
    return _give_way(job, seen, step, record, PowerPath.AGENT, why)


def _no(job: Job) -> str:
    """That the agent has said no, "" if it has not."""
    answer = job.answer
    if answer is None or answer.state not in (RequestState.FAILED, RequestState.REFUSED):
        return ""
    how = "failed" if answer.state is RequestState.FAILED else "refused"
    return f"agent {job.spec.agent} {how}: {answer.output[:512]}"


def _patient_until(step: Step, record: StepStatus, now: datetime) -> datetime:
    """A host that goes down in order is not cut off before two thirds of the time are over."""
    return (record.asked_at or now) + step.body.timeout * 2 / 3


def _left(step: Step, record: StepStatus, path: PowerPath) -> list[PowerPath]:
    """The other paths that have not been tried."""
    assert step.reboot is not None
    return [p for p in step.reboot.via if p is not path and p not in record.output]


def _give_way(
    job: Job, seen: JobObservation, step: Step, record: StepStatus, path: PowerPath, why: str
) -> Move:
    """This path is spent: the next one, or the end."""
    output = {**record.output, path: why[:1024]}
    spent = record.model_copy(update={"by": StepBy.OPERATOR, "asked_at": None, "output": output})
    if _left(step, spent, path):
        return put(job, spent).having(hold=None), JobAct.NONE
    assert step.reboot is not None
    reasons = "; ".join(output[p] for p in step.reboot.via if p in output)
    return failed(job, seen, step, record.model_copy(update={"output": output}), reasons)
