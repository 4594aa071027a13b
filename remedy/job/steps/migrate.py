"""Step `migrate`: evicts pods by policy until none is left that has to leave. Pure.

Each run first records what it finds (evicted, refused, saved). Then it checks, in this order: the
end, deletion on a host that is proven off, a host that ends no pods, the step's time, surge, and
the pods that may leave next.
"""

from datetime import timedelta

from kubenode.api.v1alpha1 import HoldReason, Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.runtime.drain import gangs
from remedy.job.migration.absence import add
from remedy.job.migration.acts import PodAct
from remedy.job.migration.cordon_index import PATIENCE
from remedy.job.migration.drain_end import drained, hangs, hopeless, too_late
from remedy.job.migration.force import proven_off
from remedy.job.migration.surge_step import surge
from remedy.job.model import Job, JobAct, JobActResult, JobObservation, NodeObservation, Pods
from remedy.job.moves import MESSAGE, Move, due, healed, hold, is_waiting_for, wait
from remedy.job.records import begun, disrupt, late, put
from remedy.job.silence import already
from remedy.job.steps.handler import StepHandler


def migrate(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Continue the drain of the node."""
    now, result, pods = observation.now, observation.act_result, observation.pods
    if result is not None and (after := _written(job, result, observation, record)) is not None:
        return after
    if pods is None:
        return wait(job)
    if pods.remaining == 0:
        return drained(job, observation, record, pods)
    if proven_off(observation):
        return _once(job, observation, PodAct.DELETE_PODS)
    if (why := hopeless(node, pods, now)) and already(observation, record.started_at or now):
        return hangs(job, observation, step, record, why)
    if late(record, observation):
        return too_late(job, observation, step, record, pods)
    return surge(job, observation, record, pods.surges) or _next(job, observation, record, pods)


def _next(job: Job, observation: JobObservation, record: StepStatus, pods: Pods) -> Move:
    """Do the next act for the pods that may leave now, else record the reason for waiting."""
    now = observation.now
    if pods.overdue or pods.checkpoint:
        states = gangs.add_requests(gangs.read(record.output), pods.checkpoint, now)
        states = gangs.ended(states, dict.fromkeys(pods.overdue, gangs.CheckpointAnswer.LATE), now)
        output = gangs.write(record.output, states)
        if output != record.output:
            return put(job, record.model_copy(update={"output": output})), JobAct.NONE
    if pods.checkpoint and not _just_did(observation, PodAct.CHECKPOINT):
        return disrupt(job, observation, PodAct.CHECKPOINT)
    if pods.delete and not _just_did(observation, PodAct.DELETE_PODS):
        return disrupt(job, observation, PodAct.DELETE_PODS)
    if (
        pods.due
        and _all_cordoned(record, pods, observation)
        and not _just_did(observation, PodAct.EVICT)
    ):
        return disrupt(job, observation, PodAct.EVICT)
    return _waiting(job, observation, record, pods)


def _just_did(observation: JobObservation, act: PodAct) -> bool:
    return observation.act_result is not None and observation.act_result.act is act


def _once(job: Job, observation: JobObservation, act: PodAct) -> Move:
    """Choose the act unless the last round did it."""
    return wait(job) if _just_did(observation, act) else disrupt(job, observation, act)


def _all_cordoned(record: StepStatus, pods: Pods, observation: JobObservation) -> bool:
    """Report whether every job that may act has cordoned its node, or had the time to."""
    return (
        pods.cordoning == 0 or observation.now >= (record.started_at or observation.now) + PATIENCE
    )


def _written(
    job: Job, result: JobActResult, observation: JobObservation, record: StepStatus
) -> Move | None:
    """Record the result of the last act; None if it has none."""
    now = observation.now
    if result.saved:
        ends = {
            name: gangs.CheckpointAnswer.LATE if why else gangs.CheckpointAnswer.SAVED
            for name, why in result.saved.items()
        }
        states = gangs.ended(gangs.read(record.output), ends, now)
        output = gangs.write(record.output, states)
        failed = "; ".join(f"gang {g}: {why}" for g, why in sorted(result.saved.items()) if why)
        record = record.model_copy(update={"output": output})
        if failed:
            record = record.model_copy(update={"message": f"not saved: {failed}"[:MESSAGE]})
        return put(job, record), JobAct.NONE
    if not result.evicted and result.blocked is None:
        return None
    if result.evicted:
        job = put(job, _counted(record, observation, len(result.evicted), result.moved))
    if result.blocked is None:
        return job, JobAct.NONE
    return _blocked(job, observation)


def _counted(
    record: StepStatus, observation: JobObservation, evicted: int, moved: str
) -> StepStatus:
    """Record the progress for people, and the notes by which replacements are found."""
    total = int(record.output.get("evicted", "0")) + evicted
    output = {**add(record.output, moved), "evicted": str(total)}
    if observation.pods is not None:
        output["left"] = str(observation.pods.remaining)
    return record.model_copy(update={"output": output})


def _blocked(job: Job, observation: JobObservation) -> Move:
    """Hold because an eviction was refused, as by a budget."""
    result, pods = observation.act_result, observation.pods
    refused = pods.blocked if pods is not None else None
    blocked = refused or (result.blocked if result is not None else None)
    assert blocked is not None
    why = f"pod {blocked.pod} cannot be evicted: {blocked.message}"
    until = blocked.until or observation.now + timedelta(seconds=5)
    return hold(
        job, observation.now, HoldReason.PDB_BLOCKED, why, scope=blocked.budget, until=until
    )


def _waiting(job: Job, observation: JobObservation, record: StepStatus, pods: Pods) -> Move:
    """Record why nothing can be done now; write only when the reason changes."""
    if not begun(job) and (gone := healed(job, observation)) is not None:
        return gone
    if pods.blocked is not None:
        if is_waiting_for(job, HoldReason.PDB_BLOCKED) and not due(job, observation.now):
            return wait(job)
        return _blocked(job, observation)
    if job.status.hold is not None:
        return job.having(hold=None), JobAct.NONE
    if pods.waiting and pods.waiting[:MESSAGE] != record.message:
        updated = record.model_copy(update={"message": pods.waiting[:MESSAGE]})
        return put(job, updated), JobAct.NONE
    return wait(job)


HANDLERS = {"migrate": StepHandler(migrate, PodAct)}
