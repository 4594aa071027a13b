"""The whole state table of a job, said once more and compared with what step() does.

Every phase with what may be remembered in it, times every dimension of what may be seen. `wanted`
is the table in other words: first what ends or interrupts a job, then the rows of its phase.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import (
    CORDONED,
    DRAIN,
    DRAINED,
    FAULTY,
    HEALED,
    JOB,
    OURS,
    PERMIT,
    RESTART,
    SCHEDULABLE,
    TELL,
    THEIRS,
    a_job,
    a_record,
    asked,
    granted,
    refused,
    running,
    seen,
)

from kubenode.api.v1alpha1 import JobPhase
from remedy.job.marks import MARKS
from remedy.job.model import (
    Act,
    CloseReason,
    FaultAssessment,
    Job,
    JobAct,
    JobActResult,
    JobObservation,
    NodeObservation,
    Pods,
)
from remedy.job.step import EDGES, step
from remedy.job.wake import requeue_at
from rules.truth import Truth

P = JobPhase
LATER = T0 + timedelta(minutes=30)
BEFORE = "n1-before"
ACTED = {
    "type": "Acted",
    "status": "True",
    "reason": "Rung0",
    "lastTransitionTime": T0.isoformat(),
}
CHECKED = {
    **RESTART,
    "verify": {
        "for": "1m",
        "timeout": "5m",
        "checks": [{"agent": {"action": "RunCheck", "check": "disk"}}],
    },
}
REPLACE = {"name": "replace", "steps": [{"replace": {}}], "verify": DRAIN["verify"]}


@dataclass(frozen=True)
class Case:
    """What is remembered. `result` is how the step under way has ended, "" if it has not."""

    job: Job
    in_flight: bool = False
    result: str = ""
    cordon_seen: bool = False
    last_rung: bool = True


def provider_asked(name: str, state: str = "Running") -> dict[str, Any]:
    times = {"askedAt": T0.isoformat(), "requestID": "r0s0a1", "bootID": "boot-1"}
    return a_record(0, name, state, by="Provider", **times)


def cases() -> Iterator[Case]:
    yield Case(a_job())
    yield Case(a_job(TELL))
    yield Case(a_job(mode="Approve"))
    yield Case(a_job(mode="DryRun"))
    yield Case(a_job(TELL, mode="DryRun"))
    yield Case(a_job(supersedes=BEFORE))
    again = {"phase": "Pending", "rung": 1, "timeline": {"jobCreated": T0.isoformat()}}
    yield Case(a_job(DRAIN, RESTART, status=again))
    yield Case(a_job(DRAIN, TELL, mode="Approve", status=again))
    approval = {"phase": "AwaitingApproval"}
    yield Case(a_job(mode="Approve", status=approval))
    yield Case(a_job(mode="Approve", status=approval, approval={"expiresAfter": "10m"}))
    yield Case(a_job(status={"phase": "AwaitingPermit"}))
    yield Case(a_job(TELL, status={"phase": "AwaitingPermit"}))
    yielded = {"phase": "AwaitingPermit", "rung": 1, "permit": PERMIT, "steps": [CORDONED]}
    cordoned = {**yielded, "owned": {"cordon": True}}
    yield Case(a_job(DRAIN, RESTART, status=cordoned), cordon_seen=True)
    settling = {**cordoned, "evidenceFalseSince": T0.isoformat()}
    yield Case(a_job(DRAIN, RESTART, status=settling), cordon_seen=True)
    yield Case(a_job(status=running(0)))
    yield Case(a_job(status=running(1, CORDONED)), cordon_seen=True)
    settling = running(1, CORDONED, evidenceFalseSince=T0.isoformat())
    yield Case(a_job(status=settling), cordon_seen=True)
    migrating = running(1, CORDONED, a_record(1, "migrate"))
    yield Case(a_job(status=migrating), cordon_seen=True)
    flying = running(2, CORDONED, DRAINED, asked(2))
    for rungs in ((DRAIN,), (DRAIN, RESTART)):
        last = len(rungs) == 1
        yield Case(a_job(*rungs, status=flying), True, "", True, last)
        for state in ("Done", "Failed", "Refused"):
            requests = {"r0s2a1": {"state": state, "code": int(state != "Done")}}
            told = {**flying, "agent": {"requests": requests}}
            yield Case(a_job(*rungs, status=told), True, state, True, last)
    refusing = {"r0s2a1": {"state": "Failed", "code": 1}}
    gives_up = {**flying, "agent": {"requests": refusing}}
    yield Case(a_job(onGiveUp="Release", status=gives_up), True, "Failed", True)
    acted = running(3, CORDONED, DRAINED, asked(2, "Done"))
    yield Case(a_job(status=acted), False, "AllDone", True)
    yield Case(a_job(TELL, status={"phase": "Running", "step": 1}), False, "AllDone")
    for give_up in ("Hold", "Release"):
        for since in ({}, {"evidenceFalseSince": T0.isoformat()}):
            proving = {**acted, "phase": "Verifying", "conditions": [ACTED], **since}
            for rungs in ((DRAIN,), (DRAIN, RESTART)):
                last = len(rungs) == 1
                job = a_job(*rungs, onGiveUp=give_up, status=proving)
                yield Case(job, cordon_seen=True, last_rung=last)
            yield Case(a_job(CHECKED, onGiveUp=give_up, status=examined(proving)))
            needs = {**proving, "phase": "NeedsHuman"}
            yield Case(a_job(DRAIN, RESTART, status=needs), cordon_seen=True)
            job = a_job(DRAIN, RESTART, status={**needs, "permit": None})
            yield Case(job, cordon_seen=True)
    replacing = running(0, provider_asked("replace"), owned={})
    yield Case(a_job(REPLACE, status=replacing), True)
    replaced = running(1, provider_asked("replace", "Done"), owned={})
    yield Case(a_job(REPLACE, status={**replaced, "phase": "Verifying", "conditions": [ACTED]}))
    for phase in ("Succeeded", "Failed", "Cancelled", "Shadowed"):
        yield Case(a_job(status={"phase": phase, "timeline": {"closed": T0.isoformat()}}))


def examined(status: dict[str, Any]) -> dict[str, Any]:
    """A check that has passed since the proof began to stand."""
    record = a_record(16, "check", "Done", by="Agent", askedAt=T0.isoformat())
    return {**status, "steps": [asked(0, "Done") | {"index": 0}, record], "owned": {}, "step": 1}


NODES = (
    None,
    *(
        replace(node, annotations=MARKS)  # somebody protects it: nothing to do for us
        for node in (
            SCHEDULABLE,
            OURS,
            THEIRS,
            NodeObservation(cordoned_by=JOB, boot_id="boot-1"),
            NodeObservation(unschedulable=True, cordoned_by=BEFORE, boot_id="boot-1"),
            NodeObservation(cordoned_by=BEFORE, boot_id="boot-1"),
        )
    ),
)
UNKNOWN = FaultAssessment(Truth.UNKNOWN, Truth.FALSE, agreed=True, gone=Truth.UNKNOWN)
FAULTS = (
    FAULTY,
    replace(FAULTY, agreed=False),
    replace(FAULTY, guards=Truth.TRUE),
    UNKNOWN,
    HEALED,
    replace(HEALED, gone=Truth.UNKNOWN),
)
HEARD = (
    None,
    JobActResult(JobAct.ASK_PERMIT, granted()),
    JobActResult(JobAct.ASK_PERMIT, refused()),
)
WORDS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"decision": "Approve"},
    {"decision": "Deny"},
    {"decision": "Next"},
    {"decision": "Next", "rung": 0},
    {"decision": "Next", "rung": 7},
    {"decision": "Retry"},
    {"decision": "Close"},
    {"decision": "Approve", "by": ""},
)
ENDS = ("", "cancel", "deleting", "stronger")


def said(job: Job, word: dict[str, Any] | None, end: str) -> Job:
    spec = job.spec
    if word is not None:
        told = a_job(approvals=[{"by": "ann", **word}]).spec.approvals
        spec = spec.model_copy(update={"approvals": told})
    if end == "cancel":
        spec = spec.model_copy(update={"cancel": True})
    return replace(job, spec=spec, deleting=end == "deleting")


def worlds() -> Iterator[JobObservation]:
    for now in (T0, LATER):
        for node in NODES:
            for fault in FAULTS:
                for fresh in (True, False) if fault in (FAULTY, HEALED) else (True,):
                    for heard in HEARD:
                        yield JobObservation(
                            now=now,
                            node=node,
                            fault=fault,
                            fresh=fresh,
                            act_result=heard,
                            permit=granted(),
                            pods=Pods(1, ("a/b",)),
                            unavailable=timedelta(),
                        )


# -- the table ------------------------------------------------------------------------------------


def wanted(
    case: Case, job: Job, see: JobObservation, word: dict[str, Any] | None, end: str
) -> set[P]:
    """The phases that the job may be in, or be on its way to, after one step."""
    stay = {job.phase}
    if job.phase.closed:
        return stay
    replaces = any(r.name == "replace" for r in job.status.steps)
    if see.node is None and not replaces:
        return {P.CANCELLED}
    if job.phase is P.PENDING and finds_marks_of_its_own(job, see):
        return stay
    if case.in_flight:
        return stay if word is not None else in_flight(case, job, see)
    if end in ("cancel", "deleting") or uncordoned(case, job, see):
        return {P.CANCELLED}
    if end == "stronger" and supersedable(case, job):
        return {P.CANCELLED}
    if word is not None and not makes_sense(job, see, word) and job.phase is not P.PENDING:
        return stay
    return ROWS[job.phase](case, job, see, word)


def in_flight(case: Case, job: Job, see: JobObservation) -> set[P]:
    if case.result == "Done":
        return {job.phase}
    late = see.now == LATER and see.fresh
    if case.result in ("Failed", "Refused") or (late and not case.result):
        return after_failure(case, job)
    return {job.phase}


def after_failure(case: Case, job: Job) -> set[P]:
    if not case.last_rung:
        return {P.AWAITING_PERMIT}
    return {P.NEEDS_HUMAN if job.spec.on_give_up == "Hold" else P.FAILED}


def finds_marks_of_its_own(job: Job, see: JobObservation) -> bool:
    """Its status was removed, and says nothing of what it has done to the node. In these worlds
    the autoscalers' marks are a person's.
    """
    node, owned = see.node, job.status.owned
    if node is None:
        return False
    return (node.cordoned_by == JOB and not owned.cordon) or (
        node.fenced_by == JOB and not owned.fenced
    )


def uncordoned(case: Case, job: Job, see: JobObservation) -> bool:
    node = see.node
    if node is None or node.unschedulable:
        return False
    if job.spec.supersedes == BEFORE and node.cordoned_by == BEFORE:
        return True
    return job.status.owned.cordon and (case.cordon_seen or node.cordoned_by == JOB)


def supersedable(case: Case, job: Job) -> bool:
    if job.phase in (P.AWAITING_APPROVAL, P.AWAITING_PERMIT, P.NEEDS_HUMAN):
        return True
    return job.phase is P.RUNNING and not any(
        r.name in ("agent", "replace") for r in job.status.steps
    )


def makes_sense(job: Job, see: JobObservation, word: dict[str, Any]) -> bool:
    if word.get("by") == "":
        return False
    decision = word["decision"]
    match job.phase:
        case P.AWAITING_APPROVAL:
            return decision in ("Approve", "Deny")
        case P.AWAITING_PERMIT:
            return bool(decision == "Deny")
        case P.RUNNING:  # a step may hear it; that moves no phase here
            return False
        case P.NEEDS_HUMAN if decision == "Next":
            rung = word.get("rung", job.status.rung + 1)
            return bool(rung < len(job.spec.ladder))
        case P.NEEDS_HUMAN:
            return decision in ("Retry", "Close")
        case _:
            return False


def disrupts(job: Job) -> bool:
    return any(s.name not in ("notify", "wait") for s in job.rung.steps)


def pending(case: Case, job: Job, see: JobObservation, word: dict[str, Any] | None) -> set[P]:
    if takes_over(job, see):
        return {P.PENDING}
    led = job.status.timeline.job_created is not None
    if job.spec.mode == "DryRun":
        asked_for = see.act_result is not None
        return {P.SHADOWED} if asked_for or not disrupts(job) else {P.PENDING}
    if job.spec.mode == "Approve" and not led:
        return {P.AWAITING_APPROVAL}
    return {P.AWAITING_PERMIT if disrupts(job) else P.RUNNING}


def takes_over(job: Job, see: JobObservation) -> bool:
    marked = see.node is not None and see.node.cordoned_by == BEFORE
    return marked and job.spec.supersedes == BEFORE


def awaiting_approval(
    case: Case, job: Job, see: JobObservation, word: dict[str, Any] | None
) -> set[P]:
    if see.fault.evidence is Truth.FALSE:
        return {P.CANCELLED}
    if word is not None:
        return {P.CANCELLED if word["decision"] == "Deny" else P.AWAITING_PERMIT}
    expired = see.fresh and see.now >= T0 + job.spec.approval.expires_after
    return {P.CANCELLED if expired else P.AWAITING_APPROVAL}


def awaiting_permit(
    case: Case, job: Job, see: JobObservation, word: dict[str, Any] | None
) -> set[P]:
    if (see.fault.evidence is Truth.FALSE and not owns_anything(job)) or word is not None:
        return {P.CANCELLED}
    if see.fault.evidence is Truth.FALSE and see.fresh:
        return {P.CANCELLED if settled(job, see) else P.AWAITING_PERMIT}
    if is_back(job, see):
        return {P.AWAITING_PERMIT}
    if not disrupts(job):
        return {P.RUNNING}
    yes = (
        see.act_result is not None
        and see.act_result.verdict is not None
        and see.act_result.verdict.allowed
    )
    return {P.RUNNING if yes and plain(see) else P.AWAITING_PERMIT}


def owns_anything(job: Job) -> bool:
    """Whether something of the job is on the node: it stays until the fault is surely gone."""
    owned = job.status.owned
    return owned.cordon or owned.scale_down_disabled or owned.fenced


def settled(job: Job, see: JobObservation) -> bool:
    """Whether the fault has been away for the settle time."""
    return since(job) and see.now == LATER


def is_back(job: Job, see: JobObservation) -> bool:
    """Whether a fault that was away is there again or unknown: that is written down first."""
    return since(job) and see.fault.evidence is not Truth.FALSE


def plain(see: JobObservation) -> bool:
    fault = see.fault
    sure = (fault.evidence, fault.guards) == (Truth.TRUE, Truth.FALSE)
    return see.fresh and fault.agreed and sure


def runs(case: Case, job: Job, see: JobObservation, word: dict[str, Any] | None) -> set[P]:
    if case.result == "AllDone":
        return {P.VERIFYING}
    if see.fault.evidence is Truth.FALSE and see.fresh:
        return {P.CANCELLED if settled(job, see) or not owns_anything(job) else P.RUNNING}
    if is_back(job, see):
        return {P.RUNNING}
    migrates = job.record is not None and job.record.name == "migrate"
    late = see.now == LATER and see.fresh
    return {P.AWAITING_PERMIT if migrates and late else P.RUNNING}


def verifies(case: Case, job: Job, see: JobObservation, word: dict[str, Any] | None) -> set[P]:
    if see.node is None:
        return {P.SUCCEEDED}
    if proven(job, see):
        return {P.SUCCEEDED}
    if see.now == LATER and see.fresh:
        return after_failure(case, job)
    return {P.VERIFYING}


def needs_human(case: Case, job: Job, see: JobObservation, word: dict[str, Any] | None) -> set[P]:
    if job.status.permit is not None:
        return {P.NEEDS_HUMAN}
    if word is not None:
        return {P.FAILED if word["decision"] == "Close" else P.PENDING}
    return {P.SUCCEEDED if proven(job, see) else P.NEEDS_HUMAN}


def since(job: Job) -> bool:
    return job.status.evidence_false_since is not None


def proof_stands(job: Job, see: JobObservation) -> bool:
    checked = bool(job.rung.verify.checks) and job.phase is P.VERIFYING
    return checked or (see.fresh and see.fault.gone is Truth.TRUE)


def proven(job: Job, see: JobObservation) -> bool:
    return since(job) and see.now == LATER and proof_stands(job, see)


ROWS = {
    P.PENDING: pending,
    P.AWAITING_APPROVAL: awaiting_approval,
    P.AWAITING_PERMIT: awaiting_permit,
    P.RUNNING: runs,
    P.VERIFYING: verifies,
    P.NEEDS_HUMAN: needs_human,
}


def goes_to(job: Job, after: Job) -> P:
    """Where the job is, or is bound for once what is ours is undone."""
    if after.phase is job.phase and after.close_reason is not None:
        return after.close_reason.phase
    return after.phase


LEFT_DARK = {(P.AWAITING_PERMIT, P.NEEDS_HUMAN)}
"""Taken by jobs that switched a machine off: see test_left_dark."""


@pytest.mark.exhaustive
def test_every_phase_moves_as_the_table_says_and_nowhere_else() -> None:
    taken: set[tuple[P, P]] = set()
    every = list(worlds())
    for case in cases():
        asks = case.job.phase in (P.PENDING, P.AWAITING_PERMIT)
        situations = every if asks else [world for world in every if world.act_result is None]
        for word in WORDS:
            for end in ENDS if word is None else ENDS[:1]:
                job = said(case.job, word, end)
                for world in situations:
                    see = replace(world, stronger="strong") if end == "stronger" else world
                    after, act = step(job, see)
                    to = goes_to(job, after)
                    assert to in wanted(case, job, see, word, end), (job, see, word, end, after)
                    assert after == job or act is JobAct.NONE, (job, see, act)
                    assert to is job.phase or to in EDGES[job.phase], (job, see, after)
                    if to is not job.phase:
                        taken.add((job.phase, to))
                    kept_promises(job, see, after, act, word)
    assert taken == {(a, b) for a in EDGES for b in EDGES[a]} - LEFT_DARK


def kept_promises(
    job: Job, see: JobObservation, after: Job, act: Act, word: dict[str, Any] | None
) -> None:
    if after.phase.closed and not job.phase.closed:
        assert after.status.permit is None and not after.status.owned.cordon
    if job.phase is P.NEEDS_HUMAN and after.phase is P.NEEDS_HUMAN:
        assert after.status.owned == job.status.owned, "nothing of ours is let go"
        assert act in (JobAct.NONE, JobAct.RELEASE_PERMIT), "and nothing is done to the node"
    if not job.phase.closed and after == job and act is JobAct.NONE:
        at = requeue_at(job, see)
        assert at is not None and at > see.now, "it is looked at again"
    heard_all = after.status.words_heard == len(after.spec.approvals)
    quiet = after == job and act is JobAct.NONE and not job.phase.closed
    assert heard_all or not quiet or word is None, "no word is stored up"


CLOSINGS = [
    (reason, phase) for reason in CloseReason for phase in P if reason.phase in EDGES[phase]
]


@pytest.mark.parametrize(("reason", "phase"), CLOSINGS)
def test_what_ends_undoes_what_is_its_own_and_then_closes_as_its_reason_says(
    reason: CloseReason, phase: P
) -> None:
    ending = {**ACTED, "type": "Closing", "reason": reason}
    status = running(3, CORDONED, phase=phase, conditions=[ending])
    job, at = a_job(status=status), T0 + timedelta(minutes=3)  # nobody supersedes it any more
    assert step(job, seen(node=OURS, now=at)) == (job, JobAct.UNCORDON)
    for node in (SCHEDULABLE, THEIRS, None):
        assert step(job, seen(node=node, now=at)) == (job, JobAct.RELEASE_PERMIT)
        told = JobActResult(JobAct.RELEASE_PERMIT)
        over, _ = step(job, seen(node=node, now=at, act_result=told))
        assert over.phase is reason.phase
        assert (over.status.permit, over.status.owned.cordon) == (None, False)
