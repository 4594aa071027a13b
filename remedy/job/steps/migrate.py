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
from remedy.job.migration.cordon_index import PATIENCE
from remedy.job.migration.drain_end import drained, hangs, hopeless, too_late
from remedy.job.migration.force import proven_off
from remedy.job.migration.surge_step import surge
from remedy.job.model import Job, JobAct, JobActResult, JobObservation, NodeSeen, Pods
from remedy.job.moves import MESSAGE, Move, due, healed, held_for, hold, wait
from remedy.job.records import begun, disrupt, late, put
from remedy.job.silence import already


def migrate(job: Job, seen: JobObservation, node: NodeSeen, step: Step, record: StepStatus) -> Move:
    """Continue the drain of the node."""
    now, heard, pods = seen.now, seen.heard, seen.pods
    if heard is not None and (after := _written(job, heard, seen, record)) is not None:
        return after
    if pods is None:
        return wait(job)
    if pods.left == 0:
        return drained(job, seen, record, pods)
    if proven_off(seen):
        return _once(job, seen, JobAct.DELETE_PODS)
    if (why := hopeless(node, pods, now)) and already(seen, record.started_at or now):
        return hangs(job, seen, step, record, why)
    if late(record, seen):
        return too_late(job, seen, step, record, pods)
    return surge(job, seen, record, pods.surges) or _next(job, seen, record, pods)


def _next(job: Job, seen: JobObservation, record: StepStatus, pods: Pods) -> Move:
    """Do the next act for the pods that may leave now, else record the reason for waiting."""
    now = seen.now
    if pods.overdue or pods.checkpoint:
        told = gangs.told(gangs.read(record.output), pods.checkpoint, now)
        told = gangs.ended(told, dict.fromkeys(pods.overdue, gangs.CheckpointAnswer.LATE), now)
        output = gangs.write(record.output, told)
        if output != record.output:
            return put(job, record.model_copy(update={"output": output})), JobAct.NONE
    if pods.checkpoint and not _just_did(seen, JobAct.CHECKPOINT):
        return disrupt(job, seen, JobAct.CHECKPOINT)
    if pods.delete and not _just_did(seen, JobAct.DELETE_PODS):
        return disrupt(job, seen, JobAct.DELETE_PODS)
    if pods.due and _all_cordoned(record, pods, seen) and not _just_did(seen, JobAct.EVICT):
        return disrupt(job, seen, JobAct.EVICT)
    return _waiting(job, seen, record, pods)


def _just_did(seen: JobObservation, act: JobAct) -> bool:
    return seen.heard is not None and seen.heard.act is act


def _once(job: Job, seen: JobObservation, act: JobAct) -> Move:
    """Choose the act unless the last round did it."""
    return wait(job) if _just_did(seen, act) else disrupt(job, seen, act)


def _all_cordoned(record: StepStatus, pods: Pods, seen: JobObservation) -> bool:
    """Report whether every job that may act has cordoned its node, or had the time to."""
    return pods.cordoning == 0 or seen.now >= (record.started_at or seen.now) + PATIENCE


def _written(
    job: Job, heard: JobActResult, seen: JobObservation, record: StepStatus
) -> Move | None:
    """Record the result of the last act; None if it has none."""
    now = seen.now
    if heard.saved:
        ends = {
            name: gangs.CheckpointAnswer.LATE if why else gangs.CheckpointAnswer.SAVED
            for name, why in heard.saved.items()
        }
        states = gangs.ended(gangs.read(record.output), ends, now)
        output = gangs.write(record.output, states)
        failed = "; ".join(f"gang {g}: {why}" for g, why in sorted(heard.saved.items()) if why)
        record = record.model_copy(update={"output": output})
        if failed:
            record = record.model_copy(update={"message": f"not saved: {failed}"[:MESSAGE]})
        return put(job, record), JobAct.NONE
    if not heard.evicted and heard.blocked is None:
        return None
    if heard.evicted:
        job = put(job, _counted(record, seen, len(heard.evicted), heard.moved))
    if heard.blocked is None:
        return job, JobAct.NONE
    return _blocked(job, seen)


def _counted(record: StepStatus, seen: JobObservation, evicted: int, moved: str) -> StepStatus:
    """Record the progress for people, and the notes by which replacements are found."""
    total = int(record.output.get("evicted", "0")) + evicted
    output = {**add(record.output, moved), "evicted": str(total)}
    if seen.pods is not None:
        output["left"] = str(seen.pods.left)
    return record.model_copy(update={"output": output})


def _blocked(job: Job, seen: JobObservation) -> Move:
    """Hold because an eviction was refused, as by a budget."""
    heard, pods = seen.heard, seen.pods
    refused = pods.blocked if pods is not None else None
    blocked = refused or (heard.blocked if heard is not None else None)
    assert blocked is not None
    why = f"pod {blocked.pod} cannot be evicted: {blocked.message}"
    until = blocked.until or seen.now + timedelta(seconds=5)
    return hold(job, seen.now, HoldReason.PDB_BLOCKED, why, scope=blocked.budget, until=until)


def _waiting(job: Job, seen: JobObservation, record: StepStatus, pods: Pods) -> Move:
    """Record why nothing can be done now; write only when the reason changes."""
    if not begun(job) and (gone := healed(job, seen)) is not None:
        return gone
    if pods.blocked is not None:
        if held_for(job, HoldReason.PDB_BLOCKED) and not due(job, seen.now):
            return wait(job)
        return _blocked(job, seen)
    if job.status.hold is not None:
        return job.having(hold=None), JobAct.NONE
    if pods.waiting and pods.waiting[:MESSAGE] != record.message:
        told = record.model_copy(update={"message": pods.waiting[:MESSAGE]})
        return put(job, told), JobAct.NONE
    return wait(job)
