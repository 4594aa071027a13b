"""One job: its hold, timeline, ladder, steps, and the decisions that a person may make. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from defender.dashboard.node_state import of_job
from defender.dashboard.scene import Scene
from defender.dashboard.views.holds import HOLDS, HOLDS_MAY, hold_sentence
from defender.dashboard.views.jobs import rung_of
from defender.decision.jobs import JobStep, ObservedJob
from defender.decision.queue.entry import QueuePlace
from kubenode.api.decisions import STARTED_BY, Decision, hears
from kubenode.api.v1alpha1.permit import Holder
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from kubenode.runtime.site.parts import PagePart


@dataclass(frozen=True, slots=True)
class JobHead:
    template: ClassVar[str] = "parts/job_head.html"
    name: str
    node: str
    there: bool
    state: str
    phase: str
    sentence: str
    rule: str
    mode: str
    severity: str
    fault: str
    rung: str
    started_by: str
    message: str
    deadline: datetime | None
    permit: str
    permit_class: str
    permit_ends: datetime | None
    decisions: tuple[tuple[str, str, datetime | None, str], ...]
    uid: str = ""
    key: str = "job"


@dataclass(frozen=True, slots=True)
class HoldCard:
    """Why the job waits. `explains` is the reason as text; `place` is its place in the queue."""

    template: ClassVar[str] = "parts/hold.html"
    reason: str
    scope: str
    message: str
    explains: str
    may: str
    look_again_at: datetime | None
    place: str
    key: str = "hold"


@dataclass(frozen=True, slots=True)
class JobMilestone:
    """One point of a job's timeline. `took`: seconds since the one before, None if it is still to
    come.
    """

    template: ClassVar[str] = "parts/moment.html"
    key: str
    name: str
    at: datetime | None
    took: float | None


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step that has run or runs."""

    template: ClassVar[str] = "parts/step.html"
    key: str
    rung: str
    name: str
    by: str
    state: str
    started: datetime | None
    finished: datetime | None
    message: str


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One rung of the ladder. `now`: it is the one being tried."""

    template: ClassVar[str] = "parts/plan.html"
    key: str
    name: str
    steps: tuple[str, ...]
    now: bool
    over: bool


@dataclass(frozen=True, slots=True)
class ApprovalChoice:
    """One decision that a person may make: its meaning, and whether it ends the job."""

    word: Decision
    means: str
    ends: bool


@dataclass(frozen=True, slots=True)
class DecideCard:
    """The decisions that a person may make. `seen` is the number of decisions of the job."""

    template: ClassVar[str] = "parts/decide.html"
    title: str
    words: tuple[ApprovalChoice, ...]
    seen: int
    key: str = "decide"


def view_job(scene: Scene, name: str) -> dict[str, Sequence[PagePart]] | None:
    job = scene.jobs.get(name)
    if job is None:
        return None
    return {
        "job": [_head(scene, job)],
        "decide": list(_decide(job)),
        "hold": list(hold_of(scene, job)),
        "moments": moments(job),
        "plan": _plan(job),
        "steps": [_step(job, step, n) for n, step in enumerate(job.status.steps)],
    }


def _head(scene: Scene, job: ObservedJob) -> JobHead:
    state = of_job(job) if job.open else None
    permit = job.status.permit
    name = job.spec.remedier.name
    return JobHead(
        name=job.metadata.name,
        node=job.spec.node_name,
        there=job.spec.node_name in scene.nodes,
        state=state.value if state else "",
        phase=job.status.phase or JobPhase.PENDING,
        sentence=_sentence(job),
        rule=name or _starter(job),
        mode=job.spec.mode,
        severity=job.spec.severity,
        fault=job.spec.fault_class,
        rung=rung_of(job),
        started_by=job.spec.trigger.explanation,
        message=job.status.message,
        deadline=job.spec.deadline,
        permit=permit.name if permit else "",
        permit_class=permit.class_ if permit else "",
        permit_ends=permit.expires_at if permit else None,
        decisions=tuple((d.decision, d.by, d.at, d.note) for d in job.spec.approvals),
        uid=job.metadata.uid,
    )


def _starter(job: ObservedJob) -> str:
    who = job.metadata.annotations.get(STARTED_BY)
    return f"none: {who} started it by hand" if who else ""


def _sentence(job: ObservedJob) -> str:
    hold, node = job.status.hold, job.spec.node_name
    match job.status.phase:
        case JobPhase.AWAITING_APPROVAL:
            return f"The repair of {node} waits for a person to approve or deny it."
        case JobPhase.NEEDS_HUMAN:
            return f"{node} needs a person: nothing more is tried by itself."
        case _ if hold is not None and job.open:
            return f"The repair of {node} is held."
        case JobPhase.AWAITING_PERMIT:
            return f"The repair of {node} waits for a permit."
        case JobPhase.RUNNING:
            return f"{node} is being repaired."
        case JobPhase.VERIFYING:
            return f"{node} was repaired; proof that the fault is gone is awaited."
        case JobPhase.SUCCEEDED if job.status.timeline.verified is None:
            return f"People were notified about {node}. The rule does nothing else."
        case JobPhase.SUCCEEDED:
            return f"{node} is repaired: the fault is proven gone."
        case JobPhase.FAILED:
            return f"The repair of {node} has given up."
        case JobPhase.CANCELLED:
            return f"The repair of {node} was cancelled."
        case JobPhase.SHADOWED:
            return f"A dry run for {node}: it has planned, and acted on nothing."
        case _:
            return f"The repair of {node} has only begun."


def hold_of(scene: Scene, job: ObservedJob) -> Iterable[HoldCard]:
    hold = job.status.hold
    if hold is None or not job.open:
        return
    holder = Holder(
        kind="RemedyOperationJob", name=job.metadata.name, uid=job.metadata.uid or "unknown"
    )
    place = scene.control.queue.position(holder, job.spec.node_name)
    again_at = hold.look_again_at  # Kube Defender calls a job of its queue earlier or later
    yield HoldCard(
        hold.reason,
        hold.scope,
        hold_sentence(hold),
        HOLDS.get(hold.reason, ""),
        HOLDS_MAY.get(hold.reason, "Nothing need be done: it asks again by itself."),
        again_at if again_at and again_at > scene.now else None,
        _describe_place(place) if place else "",
    )


def _describe_place(place: QueuePlace) -> str:
    if place.called:
        return "A slot is kept for it: it asks at once."
    if not place.ahead:
        return "It is the next in line of those who wait for the same."
    return f"{place.ahead} {'comes' if place.ahead == 1 else 'come'} before it in the queue."


_MOMENTS = (
    ("fault_seen", "Fault seen"),
    ("job_created", "Job created"),
    ("permit_granted", "Permit granted"),
    ("cordoned", "Cordoned"),
    ("drained", "Drained"),
    ("acted", "Acted"),
    ("verified", "Verified"),
    ("closed", "Closed"),
)


def moments(job: ObservedJob) -> list[JobMilestone]:
    """Return the milestones with their durations; for an open job also those still to come."""
    milestones: list[JobMilestone] = []
    before: datetime | None = None
    reached = max(
        (n for n, (field, _) in enumerate(_MOMENTS) if getattr(job.status.timeline, field)),
        default=-1,
    )
    for number, (field, name) in enumerate(_MOMENTS):
        at = getattr(job.status.timeline, field)
        if at is None and (number < reached or not job.open):
            continue  # it was skipped, or will never be reached
        took = (at - before).total_seconds() if at and before else None
        milestones.append(JobMilestone(field, name, at, took))
        before = at or before
    return milestones


def _step(job: ObservedJob, step: JobStep, number: int) -> StepRow:
    ladder = job.spec.ladder
    rung = ladder[step.rung].name if step.rung < len(ladder) else str(step.rung)
    return StepRow(
        f"{number} {step.rung}.{step.index}",
        rung,
        step.name,
        step.by,
        step.state,
        step.started_at,
        step.finished_at,
        step.message,
    )


def _decide(job: ObservedJob) -> Iterable[DecideCard]:
    """Yield the card of decisions. An approved job may still be denied while it waits."""
    many = len(job.spec.approvals)
    denied = bool(many) and job.spec.approvals[-1].decision == "Deny"
    decisions = hears(_raw(job))
    if not decisions or (denied and "Deny" in decisions):
        return
    title = "You can still stop it" if decisions == ("Deny",) else "It waits for your word"
    choices = (_word(job, word) for word in decisions)
    yield DecideCard(title, tuple(word for word in choices if word is not None), many)


def _raw(job: ObservedJob) -> dict[str, Any]:
    """Return the fields that determine the possible decisions, as in the API."""
    status = {"phase": job.status.phase, "rung": job.status.rung, "step": job.status.step}
    return {"spec": {"ladder": [{"steps": r.steps} for r in job.spec.ladder]}, "status": status}


def _word(job: ObservedJob, word: Decision) -> ApprovalChoice | None:
    """Return the choice, None for a decision that this page does not offer."""
    rungs, at = job.spec.ladder, job.status.rung

    def rung(n: int) -> str:
        return f"“{rungs[n].name}”: {', '.join(map(describe_step, rungs[n].steps))}"

    match word:
        case "Approve":
            then = f"; it tries {rung(min(at, len(rungs) - 1))}" if rungs else ""
            means = f"it asks for a permit, and acts when every limit allows it{then}."
        case "Deny":
            means = (
                "the job is cancelled; what it holds and has cordoned is given back. No other job"
                " follows while the fault lasts."
            )
        case "Next" if at + 1 < len(rungs):
            means = f"it goes on, within the limits, with {rung(at + 1)}."
        case "Next":
            return None
        case "Retry" if at < len(rungs):
            means = f"it tries again, within the limits, {rung(at)}."
        case "Retry":
            return None
        case "Close":
            means = "the job ends as Failed; what it holds and has cordoned is given back."
    return ApprovalChoice(word, means, word in ("Deny", "Close"))


def _plan(job: ObservedJob) -> list[PlanRow]:
    at = job.status.rung
    return [
        PlanRow(
            key=str(number),
            name=rung.name,
            steps=tuple(describe_step(step) for step in rung.steps),
            now=job.open and number == at,
            over=number < max(at, job.spec.start_rung),
        )
        for number, rung in enumerate(job.spec.ladder)
    ]


def describe_step(step: Mapping[str, Any]) -> str:
    """Return a step in short form: `RestartUnit containerd.service`, `migrate`."""
    for key, value in step.items():
        if key in ("timeout", "onFailure", "onTimeout", "name"):
            continue
        if key == "agent" and isinstance(value, Mapping):
            parts = [str(value.get("action", "agent"))]
            parts += [str(value[each]) for each in ("unit", "check", "script") if value.get(each)]
            return " ".join(parts)[:120]
        return str(key)
    return "step"
