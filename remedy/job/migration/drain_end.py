"""How a drain ends: no pod left, time over, or a host that ends no pods (F17, F20). Pure."""

from datetime import datetime, timedelta

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import HoldReason, JobPhase, Step
from kubenode.api.v1alpha1.ladder import OnTimeout
from kubenode.api.v1alpha1.remedyoperationjob import StepState, StepStatus
from kubenode.runtime.drain import gangs
from kubenode.runtime.drain.observation import Pods
from kubenode.runtime.drain.plan import some
from remedy.job.decisions import approved
from remedy.job.migration import surge_replicas
from remedy.job.migration.acts import PodAct
from remedy.job.migration.surge_step import lowered
from remedy.job.model import Job, JobAct, JobObservation, NodeObservation, irreversible
from remedy.job.moves import (
    YIELD_LONGEST,
    Move,
    climb,
    enter,
    give_up,
    hold,
    is_waiting_for,
    set_condition,
    wait,
)
from remedy.job.records import disrupt, done, ended, put

MARGINS = {
    "Unknown": timedelta(seconds=5),
    "False": timedelta(seconds=30),
}
"""How long past its grace a pod may still exist, by the status of the node's condition Ready: a
silent kubelet gets no requests, and one that is not ready may fall silent soon.
"""
READY_MARGIN = timedelta(minutes=2)
"""The same for any other status of the condition Ready."""
HANGING = "Hanging"


def drained(job: Job, observation: JobObservation, record: StepStatus, pods: Pods) -> Move:
    """End the step: no pod is left that has to leave."""
    if (first := lowered(job, observation)) is not None:
        return first
    why = "no pod is left that has to leave"
    if pods.stay:
        why = f"{why}; {len(pods.stay)} stay: {some(pods.stay)}"
    timeline = job.status.timeline.model_copy(update={"drained": observation.now})
    conditions = set_condition(job, observation.now, "Drained", "Empty")
    output = {**record.output, "left": "0"}
    record = record.model_copy(update={"output": output})
    return done(job, observation, record, why, timeline=timeline, conditions=conditions)


def hopeless(node: NodeObservation, pods: Pods, now: datetime) -> str:
    """Return why no more pods will leave this node; "" while some may.

    Every pod that is left is terminating and past its grace. On a node with a silent kubelet a pod
    that a budget holds back counts too: it is down with its host.
    """
    if pods.due or pods.delete or pods.patient or not pods.going:
        return ""
    silent = node.ready == "Unknown"
    if len(pods.going) < pods.remaining and not (silent and pods.blocked is not None):
        return ""
    margin = MARGINS.get(node.ready, READY_MARGIN)
    if any(now < going.ends + margin for going in pods.going):
        return ""
    state = {"Unknown": "its kubelet is silent", "False": "the node is not ready"}
    why = state.get(node.ready, "the node is ready, but does not end them")
    named = some([going.pod for going in pods.going])
    return f"pods hang in termination past their grace ({named}): {why}"


def hangs(job: Job, observation: JobObservation, step: Step, record: StepStatus, why: str) -> Move:
    """Go on to what releases the pods: a later step of this rung that boots or repairs the host,
    else the next rung. Waiting and evicting no longer help, so the remaining time is not used.
    """
    assert step.migrate is not None
    if (first := lowered(job, observation)) is not None:
        return first
    conditions = set_condition(job, observation.now, "Drained", HANGING, why, status=False)
    after = put(job, ended(record, observation.now, StepState.FAILED, why)).having(
        conditions=conditions
    )
    match step.migrate.on_timeout:
        case OnTimeout.STOP:
            return give_up(after, observation.now, why)
        case OnTimeout.YIELD | OnTimeout.DELETE if _frees(job):
            return after.having(step=job.status.step + 1, hold=None), JobAct.NONE
        case _:
            return climb(after, observation.now, why)


def _frees(job: Job) -> bool:
    """Report whether a later step of this rung does something irreversible to the host."""
    return any(irreversible(step) for step in job.rung.steps[job.status.step + 1 :])


def too_late(
    job: Job, observation: JobObservation, step: Step, record: StepStatus, pods: Pods
) -> Move:
    """End a drain after its timeout, as `onTimeout` says."""
    assert step.migrate is not None
    if (first := lowered(job, observation)) is not None:
        return first
    why = _why_late(job, step, pods)
    match step.migrate.on_timeout:
        case OnTimeout.YIELD:
            return _yield(job, observation, record, why, step.body.timeout)
        case OnTimeout.ESCALATE:
            return climb(
                put(job, ended(record, observation.now, StepState.FAILED, why)),
                observation.now,
                why,
            )
        case OnTimeout.STOP:
            return give_up(
                put(job, ended(record, observation.now, StepState.FAILED, why)),
                observation.now,
                why,
            )
        case OnTimeout.DELETE:
            if approved(job):
                return _delete(job, observation, pods)
            ask = "deleting the rest needs a person's approval, or proof that the host is off"
            return _yield(job, observation, record, f"{why}; {ask}", step.body.timeout)


def _delete(job: Job, observation: JobObservation, pods: Pods) -> Move:
    """Delete the pods that are not terminating, without regard to budgets; then wait for their
    grace.
    """
    requested = (
        observation.act_result is not None and observation.act_result.act is PodAct.DELETE_PODS
    )
    if requested or len(pods.going) == pods.remaining:
        return wait(job)
    return disrupt(job, observation, PodAct.DELETE_PODS)


def _why_late(job: Job, step: Step, pods: Pods) -> str:
    subject = "one pod is" if pods.remaining == 1 else f"{pods.remaining} pods are"
    why = f"{subject} still on the node after {format_duration(step.body.timeout)}"
    if pods.blocked is not None:
        return f"{why}: pod {pods.blocked.pod} cannot be evicted: {pods.blocked.message}"
    if is_waiting_for(job, HoldReason.PDB_BLOCKED) and job.status.hold is not None:
        return f"{why}: {job.status.hold.message}"
    if pods.waiting:
        return f"{why}: {pods.waiting}"
    return f"{why}: {some([g.pod for g in pods.going])} were told to go" if pods.going else why


def _yield(
    job: Job, observation: JobObservation, record: StepStatus, why: str, timeout: timedelta
) -> Move:
    """Release the slot, keep the cordon and begin this rung again later, after a pause that doubles
    with each attempt.
    """
    output = gangs.write({k: v for k, v in record.output.items() if k != surge_replicas.PLAIN}, {})
    record = record.model_copy(update={"output": output})
    again = [
        r.model_copy(update={"state": StepState.WAITING}) if r.rung == record.rung else r
        for r in put(job, ended(record, observation.now, StepState.FAILED, why)).status.steps
    ]
    pause = min(timeout / 2 * 2 ** min(record.attempts - 1, 10), max(YIELD_LONGEST, timeout))
    scope = job.status.hold.scope if job.status.hold is not None else ""
    yielded, _ = enter(job, JobPhase.AWAITING_PERMIT, why, step=0, steps=again)
    return hold(
        yielded,
        observation.now,
        HoldReason.PDB_BLOCKED,
        why,
        scope=scope,
        until=observation.now + pause,
    )
