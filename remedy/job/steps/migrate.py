"""Step `migrate`: evict until no movable pod is left; what to do when it takes too long. Pure."""

from datetime import timedelta

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import HoldReason, JobPhase, Step
from kubenode.api.v1alpha1.ladder import OnTimeout
from kubenode.api.v1alpha1.remedyoperationjob import StepState, StepStatus
from remedy.job.model import Act, Job, NodeSeen, Pods, Seen
from remedy.job.moves import (
    YIELD_LONGEST,
    Move,
    climb,
    due,
    enter,
    give_up,
    held_for,
    hold,
    patience,
    set_condition,
    wait,
)
from remedy.job.records import disrupt, done, ended, late, put


def migrate(job: Job, seen: Seen, node: NodeSeen, step: Step, record: StepStatus) -> Move:
    now, heard, pods = seen.now, seen.heard, seen.pods
    if heard is not None and heard.act is Act.EVICT and (heard.evicted or heard.blocked):
        return _evicted(job, seen, record)
    if pods is not None and pods.left == 0:
        drained = job.status.timeline.model_copy(update={"drained": now})
        conditions = set_condition(job, now, "Drained", "Empty")
        return done(
            job, seen, record, "no movable pod is left", timeline=drained, conditions=conditions
        )
    if late(record, now):
        return _not_drained(job, seen, step, record, pods)
    if pods is None or not pods.due:
        return wait(job)
    if held_for(job, HoldReason.PDB_BLOCKED) and not due(job, now):
        return wait(job)
    return disrupt(job, seen, Act.EVICT)


def _evicted(job: Job, seen: Seen, record: StepStatus) -> Move:
    """Write down what the evictions brought: who moved, and which budget said no."""
    heard, now = seen.heard, seen.now
    assert heard is not None
    if heard.moved:
        moved = ";".join(filter(None, (record.output.get("moved", ""), heard.moved)))
        job = put(job, record.model_copy(update={"output": {**record.output, "moved": moved}}))
    if heard.blocked is None:
        return job.having(hold=None), Act.NONE
    until = now + patience(now - (record.started_at or now))
    why = f"pod {heard.blocked.pod} cannot be evicted: {heard.blocked.message}"
    after, act = hold(
        job, now, HoldReason.PDB_BLOCKED, why, scope=heard.blocked.budget, until=until
    )
    return after, act


def _not_drained(job: Job, seen: Seen, step: Step, record: StepStatus, pods: Pods | None) -> Move:
    assert step.migrate is not None
    left = "pods are" if pods is None or pods.left > 1 else "one pod is"
    why = f"{left} still on the node after {format_duration(step.migrate.timeout)}"
    if held_for(job, HoldReason.PDB_BLOCKED) and job.status.hold is not None:
        why = f"{why}: {job.status.hold.message}"
    elif pods is not None and pods.waiting:
        why = f"{why}: {pods.waiting}"
    match step.migrate.on_timeout:
        case OnTimeout.YIELD:
            return _yield(job, seen, record, why, step.body.timeout)
        case OnTimeout.ESCALATE:
            return climb(put(job, ended(record, seen.now, StepState.FAILED, why)), seen.now, why)
        case OnTimeout.STOP | OnTimeout.DELETE:
            stopped = put(job, ended(record, seen.now, StepState.FAILED, why))
            return give_up(stopped, seen.now, why)


def _yield(job: Job, seen: Seen, record: StepStatus, why: str, timeout: timedelta) -> Move:
    """Give the slot to others, keep the cordon, begin this rung again later; each time a longer
    wait.
    """
    again = [
        r.model_copy(update={"state": StepState.WAITING}) if r.rung == record.rung else r
        for r in put(job, ended(record, seen.now, StepState.FAILED, why)).status.steps
    ]
    pause = min(timeout / 2 * 2 ** min(record.attempts - 1, 10), max(YIELD_LONGEST, timeout))
    scope = job.status.hold.scope if job.status.hold is not None else ""
    yielded, _ = enter(job, JobPhase.AWAITING_PERMIT, why, step=0, steps=again)
    return hold(yielded, seen.now, HoldReason.PDB_BLOCKED, why, scope=scope, until=seen.now + pause)
