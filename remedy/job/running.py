"""One rung under way: which step begins, how it goes on, what follows from how it ended. Pure.

A step's record in the status is its intent. It is written before anything is done, and says what
was asked, when, of which boot of the host, and until when. A step is done when its effect was seen,
never because it was asked for.
"""

from datetime import datetime, timedelta

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Disruption, HoldReason, JobPhase, Step
from kubenode.api.v1alpha1.ladder import OnFailure, OnTimeout
from kubenode.api.v1alpha1.remedyoperationjob import (
    AgentRequest,
    RequestState,
    StepBy,
    StepState,
    StepStatus,
    Timeline,
)
from remedy.job.model import (
    Act,
    Job,
    NodeSeen,
    Pods,
    Seen,
    irreversible,
    unsupported_step,
)
from remedy.job.moves import (
    MESSAGE,
    YIELD_LONGEST,
    Move,
    climb,
    due,
    enter,
    give_up,
    held_for,
    hold,
    may,
    patience,
    set_condition,
    stands,
    wait,
)

ANSWER_GRACE = timedelta(seconds=5)
"""Past a request's expiry: an answer may still be on its way, and clocks differ."""
MINE = {
    "uncordon": Act.UNCORDON,
    "notify": Act.NOTIFY,
    "label": Act.LABEL,
    "annotate": Act.ANNOTATE,
}


def running(job: Job, seen: Seen, node: NodeSeen) -> Move:
    step, record = job.step, job.record
    if step is None:
        return _steps_done(job, seen)
    if record is None or record.state is not StepState.RUNNING:
        return _begin(job, seen, node, step, record)
    match step.name:
        case "cordon":
            return _cordon(job, seen, node, step, record)
        case "migrate":
            return _migrate(job, seen, step, record)
        case "agent":
            return _answered(job, seen, step, record)
        case "wait":
            return _waited(job, seen, step, record)
        case _:
            return _small(job, seen, node, step, record)


def acted_at(job: Job) -> datetime | None:
    """When the last step of this rung ended that changed something; only newer reports prove."""
    times = [
        r.finished_at
        for r in job.status.steps
        if r.rung == job.status.rung
        and r.state is StepState.DONE
        and r.finished_at is not None
        and irreversible(job.rung.steps[r.index])
    ]
    return max(times, default=None)


def _steps_done(job: Job, seen: Seen) -> Move:
    timeline = job.status.timeline
    acted = acted_at(job) or timeline.acted or seen.now
    return enter(
        job,
        JobPhase.VERIFYING,
        f"rung {job.rung.name} is done, waiting for the proof",
        timeline=timeline.model_copy(update={"acted": acted}),
        conditions=set_condition(job, seen.now, "Acted", f"Rung{job.status.rung}"),
        evidence_false_since=None,
    )


def _begun(job: Job) -> bool:
    """Whether this rung did, or asked for, something that cannot be undone."""
    return any(
        r.rung == job.status.rung
        and r.state is not StepState.WAITING
        and irreversible(job.rung.steps[r.index])
        for r in job.status.steps
    )


def _begin(job: Job, seen: Seen, node: NodeSeen, step: Step, old: StepStatus | None) -> Move:
    attempts = (old.attempts if old is not None else 0) + 1
    record = StepStatus(
        rung=job.status.rung,
        index=job.status.step,
        name=step.name,
        state=StepState.RUNNING,
        attempts=attempts,
        started_at=seen.now,
        expires_at=seen.now + step.body.timeout,
        output=old.output if old is not None else {},
    )
    if why := unsupported_step(step):
        return _failed(job, seen, step, record, why)
    disrupts = step.disruption is not Disruption.NONE
    if disrupts and (stop := may(job, seen, evidence=not _begun(job)) or stands(job, seen)):
        return stop
    owned = job.status.owned
    if step.name == "cordon":
        owned = owned.model_copy(update={"cordon": True})
    if step.agent is not None:
        record = record.model_copy(
            update={
                "by": StepBy.AGENT,
                "request_id": f"r{record.rung}s{record.index}a{attempts}",
                "asked_at": seen.now,
                "boot_id": node.boot_id,
            }
        )
        owned = owned.model_copy(update={"boot_id": node.boot_id})
    return _put(job, record).having(owned=owned, hold=None), Act.NONE


def _disrupt(job: Job, seen: Seen, act: Act) -> Move:
    """The last look before an act that disrupts."""
    if stop := may(job, seen, evidence=not _begun(job)) or stands(job, seen):
        return stop
    if job.status.hold is not None and not held_for(job, HoldReason.PDB_BLOCKED):
        return job.having(hold=None), Act.NONE
    return job, act


def _cordon(job: Job, seen: Seen, node: NodeSeen, step: Step, record: StepStatus) -> Move:
    timeline = job.status.timeline.model_copy(
        update={"cordoned": job.status.timeline.cordoned or seen.now}
    )
    if node.unschedulable and node.cordoned_by == job.mark:
        return _done(job, seen, record, "cordoned", timeline=timeline)
    if node.unschedulable:
        owned = job.status.owned.model_copy(update={"cordon": False})
        why = "was cordoned already, not by us; it stays cordoned afterwards"
        return _done(job, seen, record, why, timeline=timeline, owned=owned)
    if _late(record, seen.now):
        return _failed(job, seen, step, record, "the node could not be cordoned in time")
    if not job.finalizer:
        return job, Act.ADD_FINALIZER
    return _disrupt(job, seen, Act.CORDON)


def _migrate(job: Job, seen: Seen, step: Step, record: StepStatus) -> Move:
    now, heard, pods = seen.now, seen.heard, seen.pods
    if heard is not None and heard.act is Act.EVICT and (heard.evicted or heard.blocked):
        return _evicted(job, seen, record)
    if pods is not None and pods.left == 0:
        drained = job.status.timeline.model_copy(update={"drained": now})
        conditions = set_condition(job, now, "Drained", "Empty")
        return _done(
            job, seen, record, "no movable pod is left", timeline=drained, conditions=conditions
        )
    if _late(record, now):
        return _not_drained(job, seen, step, record, pods)
    if pods is None or not pods.due:
        return wait(job)
    if held_for(job, HoldReason.PDB_BLOCKED) and not due(job, now):
        return wait(job)
    return _disrupt(job, seen, Act.EVICT)


def _evicted(job: Job, seen: Seen, record: StepStatus) -> Move:
    """Write down what the evictions brought: who moved, and which budget said no."""
    heard, now = seen.heard, seen.now
    assert heard is not None
    if heard.moved:
        moved = ";".join(filter(None, (record.output.get("moved", ""), heard.moved)))
        job = _put(job, record.model_copy(update={"output": {**record.output, "moved": moved}}))
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
            return climb(_put(job, _ended(record, seen.now, StepState.FAILED, why)), seen.now, why)
        case OnTimeout.STOP | OnTimeout.DELETE:
            failed = _put(job, _ended(record, seen.now, StepState.FAILED, why))
            return give_up(failed, seen.now, why)


def _yield(job: Job, seen: Seen, record: StepStatus, why: str, timeout: timedelta) -> Move:
    """Give the slot to others, keep the cordon, begin this rung again later; each time a longer
    wait.
    """
    again = [
        r.model_copy(update={"state": StepState.WAITING}) if r.rung == record.rung else r
        for r in _put(job, _ended(record, seen.now, StepState.FAILED, why)).status.steps
    ]
    pause = min(timeout / 2 * 2 ** min(record.attempts - 1, 10), max(YIELD_LONGEST, timeout))
    scope = job.status.hold.scope if job.status.hold is not None else ""
    yielded, _ = enter(job, JobPhase.AWAITING_PERMIT, why, step=0, steps=again)
    return hold(yielded, seen.now, HoldReason.PDB_BLOCKED, why, scope=scope, until=seen.now + pause)


def _answered(job: Job, seen: Seen, step: Step, record: StepStatus) -> Move:
    """The agent acts by itself once the request is written; here its answer is copied."""
    now, answer = seen.now, job.answer
    expires = record.expires_at or now
    if answer is None:
        if now < expires + ANSWER_GRACE:
            return wait(job)
        return _failed(job, seen, step, record, f"agent {job.spec.agent} did not answer in time")
    match answer.state:
        case RequestState.RUNNING:
            if now < expires + step.body.timeout + ANSWER_GRACE:
                return wait(job)
            return _failed(job, seen, step, record, "the agent began but did not finish in time")
        case RequestState.DONE:
            done = record.model_copy(update={"output": _output(answer)})
            at = _between(record.asked_at, answer.finished_at, now)
            return _done(job, seen, done, "", at=at)
        case RequestState.FAILED | RequestState.REFUSED:
            failed = record.model_copy(update={"output": _output(answer)})
            how = "refused" if answer.state is RequestState.REFUSED else "failed"
            why = f"{step.agent.action if step.agent else step.name} {how}: {answer.output[:512]}"
            return _failed(job, seen, step, failed, why)


def _output(answer: AgentRequest) -> dict[str, str]:
    code = {} if answer.code is None else {"code": str(answer.code)}
    return {**code, "text": answer.output[:MESSAGE]}


def _between(low: datetime | None, at: datetime | None, high: datetime) -> datetime:
    """The host's clock where it is plausible, else ours."""
    return at if at is not None and (low is None or low <= at) and at <= high else high


def _waited(job: Job, seen: Seen, step: Step, record: StepStatus) -> Move:
    assert step.wait is not None
    if seen.now >= (record.started_at or seen.now) + step.wait.for_:
        return _done(job, seen, record, "")
    return wait(job)


def _small(job: Job, seen: Seen, node: NodeSeen, step: Step, record: StepStatus) -> Move:
    if _shown(job, seen, node, step):
        owned = job.status.owned
        if step.name == "uncordon":
            owned = owned.model_copy(update={"cordon": False})
        return _done(job, seen, record, "", owned=owned)
    if _late(record, seen.now):
        error = seen.heard.error if seen.heard is not None else ""
        return _failed(job, seen, step, record, error or f"step {step.name} took too long")
    return job, MINE[step.name]


def _shown(job: Job, seen: Seen, node: NodeSeen, step: Step) -> bool:
    """Whether the effect of a small step is to be seen."""
    if step.label is not None:
        return node.labels.get(step.label.key) == step.label.value
    if step.annotate is not None:
        return node.annotations.get(step.annotate.key) == step.annotate.value
    if step.uncordon is not None:
        return node.cordoned_by != job.mark
    return seen.heard is not None and seen.heard.act is Act.NOTIFY and not seen.heard.error


def _late(record: StepStatus, now: datetime) -> bool:
    return record.expires_at is not None and now >= record.expires_at


def _put(job: Job, record: StepStatus) -> Job:
    others = [r for r in job.status.steps if (r.rung, r.index) != (record.rung, record.index)]
    return job.having(steps=sorted([*others, record], key=lambda r: (r.rung, r.index)))


def _ended(record: StepStatus, at: datetime, state: StepState, message: str) -> StepStatus:
    return record.model_copy(
        update={"state": state, "finished_at": at, "message": message[:MESSAGE]}
    )


def _done(
    job: Job,
    seen: Seen,
    record: StepStatus,
    message: str,
    *,
    at: datetime | None = None,
    timeline: Timeline | None = None,
    **changes: object,
) -> Move:
    ended = _ended(record, at or seen.now, StepState.DONE, message)
    timeline = timeline or job.status.timeline
    after = _put(job, ended).having(
        step=job.status.step + 1, hold=None, timeline=timeline, **changes
    )
    return after, Act.NONE


def _failed(job: Job, seen: Seen, step: Step, record: StepStatus, why: str) -> Move:
    after = _put(job, _ended(record, seen.now, StepState.FAILED, why))
    match step.body.on_failure:
        case OnFailure.CONTINUE:
            return after.having(step=job.status.step + 1, hold=None), Act.NONE
        case OnFailure.STOP:
            return give_up(after, seen.now, why)
        case OnFailure.ESCALATE:
            return climb(after, seen.now, why)
