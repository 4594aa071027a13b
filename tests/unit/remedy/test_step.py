"""step(): over the product of what may be remembered and what may be seen, and rule by rule."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import product
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

from kubenode.api.v1alpha1 import Disruption, JobPhase, Mode
from kubenode.api.v1alpha1.remedyoperationjob import StepBy, StepState
from remedy.job.decisions import approved
from remedy.job.marks import MARKS
from remedy.job.model import (
    HARMFUL,
    Blocked,
    FaultAssessment,
    Job,
    JobAct,
    JobActResult,
    JobObservation,
    NodeObservation,
    Pods,
    binding,
)
from remedy.job.moves import SETTLES
from remedy.job.step import EDGES, step
from remedy.job.wake import requeue_at
from rules.truth import Truth

LATER = T0 + timedelta(minutes=30)
HOUR = (T0 + timedelta(hours=1)).isoformat()
HOLD = {"reason": "ConcurrencyLimit", "message": "full", "lookAgainAt": T0.isoformat()}
ACTED = {
    "type": "Acted",
    "status": "True",
    "reason": "Rung0",
    "lastTransitionTime": T0.isoformat(),
}


def closing(reason: str) -> dict[str, Any]:
    return {**ACTED, "type": "Closing", "reason": reason}


def verifying(**changes: Any) -> dict[str, Any]:
    return running(3, CORDONED, DRAINED, asked(2, "Done")) | {
        "phase": "Verifying",
        "conditions": [ACTED],
        **changes,
    }


ANSWERS = {
    "Done": {"r0s2a1": {"state": "Done", "finishedAt": T0.isoformat(), "code": 0}},
    "Failed": {"r0s2a1": {"state": "Failed", "code": 1, "output": "no such unit"}},
    "Refused": {"r0s2a1": {"state": "Refused", "output": "another boot"}},
    "Running": {"r0s2a1": {"state": "Running"}},
}


def remembered() -> Iterator[Job]:
    yield a_job()
    yield a_job(TELL)
    yield a_job(mode="Approve")
    yield a_job(mode="DryRun")
    yield a_job(TELL, mode="DryRun")
    yield a_job(cancel=True)
    waiting = {"phase": "AwaitingApproval"}
    yield a_job(mode="Approve", status=waiting)
    yield a_job(mode="Approve", status=waiting, approvals=[{"decision": "Approve", "by": "ann"}])
    yield a_job(mode="Approve", status=waiting, approvals=[{"decision": "Deny", "by": "ann"}])
    yield a_job(mode="Approve", status=waiting, approval={"expiresAfter": "5m"})
    for hold in (None, HOLD, HOLD | {"lookAgainAt": HOUR}, HOLD | {"reason": "PDBBlocked"}):
        status = {"phase": "AwaitingPermit"} | ({"hold": hold} if hold else {})
        yield a_job(status=status)
        yield a_job(RESTART, DRAIN, status=status | {"rung": 1, "permit": PERMIT})
    yield a_job(DRAIN, TELL, status={"phase": "AwaitingPermit", "rung": 1, "permit": PERMIT})
    yield a_job(cancel=True, status={"phase": "AwaitingPermit"})
    yield from remembered_running()
    for since in (None, T0):
        false = {} if since is None else {"evidenceFalseSince": since.isoformat()}
        yield a_job(status=verifying(**false))
        yield a_job(DRAIN, RESTART, status=verifying(**false))
        yield a_job(onGiveUp="Release", status=verifying(**false))
        yield a_job(TELL, status=verifying(permit=None, owned={}, steps=[], step=1, **false))
        yield a_job(TELL, onGiveUp="Release", status=verifying(permit=None, owned={}, **false))
        yield a_job(status=verifying(phase="NeedsHuman", permit=None, **false))
    yield a_job(TELL, cancel=True, status=verifying(permit=None, owned={}, steps=[], step=1))
    yield a_job(status=verifying(phase="NeedsHuman"))
    yield a_job(cancel=True, status=verifying(phase="NeedsHuman", permit=None, owned={}))
    for said in ("Next", "Retry", "Close", "Approve"):
        needs = verifying(phase="NeedsHuman", permit=None)
        yield a_job(DRAIN, RESTART, approvals=[{"decision": said, "by": "ann"}], status=needs)
    for reason in ("Proven", "GaveUp", "FaultGone", "PersonCancelled", "nonsense"):
        for owned, permit in product((True, False), (PERMIT, None)):
            for phase in ("Running", "Verifying", "NeedsHuman", "AwaitingPermit"):
                if EDGE_OF.get(reason, JobPhase.FAILED) in EDGES[JobPhase(phase)]:
                    status = verifying(conditions=[closing(reason)], phase=phase, permit=permit)
                    yield a_job(status=status | {"owned": {"cordon": owned}})
    for phase in ("Succeeded", "Failed", "Cancelled", "Shadowed"):
        for reason in ("Proven", "GaveUp", "PersonUncordoned"):
            over: dict[str, Any] = {"phase": phase, "conditions": [closing(reason)]}
            yield a_job(status=over | {"timeline": {"closed": T0.isoformat()}})
            yield a_job(status=over)


EDGE_OF = {
    "Proven": JobPhase.SUCCEEDED,
    "GaveUp": JobPhase.FAILED,
    "FaultGone": JobPhase.CANCELLED,
    "PersonCancelled": JobPhase.CANCELLED,
}


def remembered_running() -> Iterator[Job]:
    for hold in (None, HOLD | {"reason": "PermitLost"}, HOLD | {"reason": "GuardTrue"}):
        held = {"hold": hold} if hold else {}
        yield a_job(status=running(0, **held))
        yield a_job(status=running(0, a_record(0, "cordon"), owned={"cordon": True}, **held))
        yield a_job(status=running(1, CORDONED, **held))
        yield a_job(status=running(1, CORDONED, a_record(1, "migrate"), **held))
        yield a_job(status=running(2, CORDONED, DRAINED, **held))
        yield a_job(status=running(2, CORDONED, DRAINED, asked(2), **held))
    for answer in ANSWERS.values():
        status = running(2, CORDONED, DRAINED, asked(2), agent={"requests": answer})
        yield a_job(status=status)
        yield a_job(DRAIN, RESTART, status=status)
        yield a_job(onGiveUp="Release", status=status)
        yield a_job(cancel=True, status=status)
    yield a_job(status=running(3, CORDONED, DRAINED, asked(2, "Done")))
    for on_timeout in ("Yield", "Escalate", "Stop"):
        migrate = {"migrate": {"timeout": "10m", "onTimeout": on_timeout}}
        rung = DRAIN | {"steps": [{"cordon": {}}, migrate]}
        yield a_job(rung, RESTART, status=running(1, CORDONED, a_record(1, "migrate")))
    for on_failure in ("Continue", "Stop", "Escalate"):
        rung = TELL | {"steps": [{"reboot": {"onFailure": on_failure}}]}
        yield a_job(rung, RESTART, status=running(0))
    yield a_job(TELL, status={"phase": "Running"})
    yield a_job(TELL, cancel=True, status={"phase": "Running"})
    yield a_job(TELL, status={"phase": "Running", "steps": [a_record(0, "notify")]})
    waits = TELL | {"steps": [{"wait": {"for": "5m"}}]}
    yield a_job(waits, status={"phase": "Running", "steps": [a_record(0, "wait")]})
    yield a_job(onGiveUp="Release", status=running(2, CORDONED, DRAINED, asked(2), permit=None))


FAULTS = (
    FAULTY,
    FaultAssessment(Truth.TRUE, Truth.FALSE, agreed=False),
    FaultAssessment(Truth.TRUE, Truth.TRUE, agreed=True),
    FaultAssessment(Truth.TRUE, Truth.UNKNOWN, agreed=True),
    FaultAssessment(Truth.UNKNOWN, Truth.FALSE, agreed=True, gone=Truth.UNKNOWN),
    HEALED,
    FaultAssessment(Truth.FALSE, Truth.FALSE, agreed=True, gone=Truth.UNKNOWN),
)
HEARD = (
    None,
    JobActResult(JobAct.ASK_PERMIT, granted()),
    JobActResult(JobAct.ASK_PERMIT, refused()),
    JobActResult(JobAct.ASK_PERMIT, error="connection refused"),
    JobActResult(JobAct.RENEW_PERMIT, granted()),
    JobActResult(JobAct.RENEW_PERMIT, refused()),
    JobActResult(JobAct.RELEASE_PERMIT),
    JobActResult(JobAct.EVICT, evicted=("a/b",), moved="a,u,k=v,1,1"),
    JobActResult(JobAct.EVICT, blocked=Blocked("a/b", "pdb=a/c", "no")),
    JobActResult(JobAct.NOTIFY),
)
NODES = (None, SCHEDULABLE, OURS, THEIRS, NodeObservation(cordoned_by=JOB, annotations=MARKS))
PODS = (None, Pods(), Pods(2, ("a/b", "a/c")), Pods(1))


@lru_cache(maxsize=1)
def all_jobs() -> tuple[Job, ...]:
    return tuple(remembered())


def every_case() -> Iterator[tuple[Job, JobObservation]]:
    some = {False: (None, *HEARD[1:2], *HEARD[4:6]), True: HEARD}
    worlds = [
        JobObservation(now, node, fresh, fault, permit, pods, timedelta(), heard)
        for now in (T0, LATER)
        for node in NODES
        for fresh in ((True, False) if now == T0 else (True,))
        for fault in (FAULTS if node is not None and fresh else FAULTS[:1])
        for permit in (None, granted(), refused())
        for pods in (PODS if node is OURS and permit else PODS[:1])
        for heard in (HEARD[1:4] if permit is None else some[permit.allowed])
    ]
    for job in all_jobs():
        for world in worlds:
            yield job, world


def late(job: Job, now: datetime) -> bool:
    record = job.record
    return record is not None and record.expires_at is not None and now >= record.expires_at


def said_yes(job: Job, seen: JobObservation) -> bool:
    verdict = seen.act_result.verdict if seen.act_result else None
    return (
        seen.act_result is not None
        and seen.act_result.act is JobAct.ASK_PERMIT
        and bool(verdict and verdict.allowed)
    )


def plainly_faulty(seen: JobObservation) -> bool:
    f = seen.fault
    return seen.fresh and f.agreed and (f.evidence, f.guards) == (Truth.TRUE, Truth.FALSE)


def proof_seen(job: Job, seen: JobObservation) -> bool:
    since = job.status.evidence_false_since
    decided = job.close_reason is not None and job.close_reason.phase is JobPhase.SUCCEEDED
    return decided or (
        since is not None
        and seen.fresh
        and seen.fault.gone is Truth.TRUE
        and seen.now - since >= job.rung.verify.for_
    )


def gave_up(job: Job, seen: JobObservation) -> bool:
    """The last rung failed, or a step said Stop, or the proof did not come in time."""
    if any(said.decision == "Close" for said in job.spec.approvals):
        return True
    if job.close_reason is not None:
        return job.close_reason.phase is JobPhase.FAILED
    step_over = late(job, seen.now) or (job.answer is not None and job.answer.state != "Running")
    unsupported = job.step is not None and job.step.name == "reboot"
    return step_over or unsupported or (job.phase is JobPhase.VERIFYING and seen.now == LATER)


PROOF: dict[JobPhase, Callable[[Job, JobObservation], bool]] = {
    JobPhase.PENDING: lambda job, seen: job.spec.approvals[-1].decision in ("Next", "Retry"),
    JobPhase.AWAITING_APPROVAL: lambda job, seen: job.spec.mode is Mode.APPROVE,
    JobPhase.AWAITING_PERMIT: lambda job, seen: (
        job.phase is JobPhase.PENDING or bool(job.spec.approvals) or gave_up(job, seen)
    ),
    JobPhase.RUNNING: lambda job, seen: (
        job.disruption is Disruption.NONE or (said_yes(job, seen) and plainly_faulty(seen))
    ),
    JobPhase.VERIFYING: lambda job, seen: job.step is None,
    JobPhase.SUCCEEDED: proof_seen,
    JobPhase.NEEDS_HUMAN: gave_up,
    JobPhase.FAILED: gave_up,
    JobPhase.CANCELLED: lambda job, seen: (
        seen.node is None
        or job.spec.cancel
        or seen.fault.evidence is Truth.FALSE
        or job.close_reason is not None
        or any(a.decision == "Deny" for a in job.spec.approvals)
        or seen.now == LATER
    ),
    JobPhase.SHADOWED: lambda job, seen: job.spec.mode is Mode.DRY_RUN,
}


EFFECT: dict[str, Callable[[Job, JobObservation], bool]] = {
    "cordon": lambda job, seen: seen.node is not None and seen.node.unschedulable,
    "migrate": lambda job, seen: seen.pods is not None and seen.pods.remaining == 0,
    "agent": lambda job, seen: job.answer is not None and job.answer.state == "Done",
    "wait": lambda job, seen: seen.now == LATER,
    "notify": lambda job, seen: (
        seen.act_result is not None and seen.act_result.act is JobAct.NOTIFY
    ),
}
"""What must be seen when a step becomes Done."""


def newly_done(job: Job, after: Job) -> str | None:
    done = {(r.rung, r.index) for r in job.status.steps if r.state is StepState.DONE}
    new = [
        r.name
        for r in after.status.steps
        if r.state is StepState.DONE and (r.rung, r.index) not in done
    ]
    return new[0] if new else None


LEFT_DARK = {(JobPhase.AWAITING_PERMIT, JobPhase.NEEDS_HUMAN)}
"""Taken by jobs that switched a machine off: see test_left_dark."""


@pytest.mark.exhaustive
def test_every_case_keeps_the_promises() -> None:
    """Some 250,000 cases: too many for a person who waits; `make test` has them."""
    taken = set()
    for job, world in every_case():
        after, act = step(job, world)
        case = (job, world, after, act)
        assert after == job or act is JobAct.NONE, case
        assert after.status.agent == job.status.agent, case
        if after.phase is not job.phase:
            taken.add((job.phase, after.phase))
            assert PROOF[after.phase](job, world), case
        disrupts = act in HARMFUL or (after.in_flight and not job.in_flight)
        if disrupts:
            assert harmless(job, world), case
        if (name := newly_done(job, after)) is not None:
            assert EFFECT[name](job, world), case
        if after.phase.closed and not job.phase.closed:
            assert not after.status.owned.cordon, case
            assert after.status.permit is None, case
            assert after.status.timeline.closed == world.now, case
            assert (
                all(
                    r.state not in (StepState.RUNNING, StepState.WAITING)
                    for r in after.status.steps
                )
                or job.close_reason is not None
            ), case
        if job.phase.closed:
            assert after.phase is job.phase, case
        elif after == job and act is JobAct.NONE:
            assert says_why_it_waits(job, world), case
    assert taken == {(a, b) for a in EDGES for b in EDGES[a]} - LEFT_DARK


def harmless(job: Job, seen: JobObservation) -> bool:
    """A permit that stands, guards that are plainly false, and the fault still plainly there.

    What cannot be undone may have cured the fault; then the rest of the rung goes on without it.
    """
    begun = any(r.rung == job.status.rung and binding(job, r) for r in job.status.steps)
    permit = seen.permit is not None and seen.permit.allowed
    sure = seen.fresh and seen.fault.guards is Truth.FALSE
    return seen.node is not None and permit and sure and (begun or plainly_faulty(seen))


def says_why_it_waits(job: Job, seen: JobObservation) -> bool:
    """A hold, a person, a host, pods, time: each with a moment to look again that lies ahead."""
    at = requeue_at(job, seen)
    if at is None or at <= seen.now:
        return False
    step, status = job.step, job.status
    return (
        status.hold is not None
        or job.phase in (JobPhase.AWAITING_APPROVAL, JobPhase.VERIFYING, JobPhase.NEEDS_HUMAN)
        or job.in_flight
        or (step is not None and step.name in ("migrate", "wait"))
    )


def moved(job: Job, **what: Any) -> tuple[Job, JobAct]:
    return step(job, seen(**what))


def test_asks_before_it_disrupts_and_takes_the_permit_into_its_status() -> None:
    job = a_job(status={"phase": "AwaitingPermit"})
    assert moved(job) == (job, JobAct.ASK_PERMIT)
    after, _ = moved(job, act_result=JobActResult(JobAct.ASK_PERMIT, granted()))
    assert after.phase is JobPhase.RUNNING
    assert after.status.permit is not None and after.status.permit.name == "permit-1"
    assert after.status.timeline.permit_granted == T0


def test_a_refusal_is_a_hold_with_reason_scope_and_time() -> None:
    job = a_job(status={"phase": "AwaitingPermit"})
    after, _ = moved(job, act_result=JobActResult(JobAct.ASK_PERMIT, refused()))
    hold = after.status.hold
    assert hold is not None
    assert (hold.reason, hold.scope) == ("ConcurrencyLimit", "zone=b")
    assert hold.look_again_at == T0 + timedelta(seconds=20)
    assert moved(after) == (after, JobAct.NONE), "not before its time"


def test_an_unreachable_defender_means_no() -> None:
    job = a_job(status={"phase": "AwaitingPermit"})
    after, _ = moved(job, act_result=JobActResult(JobAct.ASK_PERMIT, error="connection refused"))
    assert after.phase is JobPhase.AWAITING_PERMIT
    assert after.status.hold is not None
    assert after.status.hold.reason == "DefenderUnreachable"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (FAULTS[1], "EnginesDisagree"),
        (FAULTS[2], "GuardTrue"),
        (FAULTS[3], "GuardTrue"),
        (FAULTS[4], "FaultUnknown"),
    ],
)
@pytest.mark.parametrize(
    "status", [{"phase": "AwaitingPermit"}, running(0), running(2, CORDONED, DRAINED)]
)
def test_what_is_not_plain_is_held_before_every_disruptive_step(
    fault: FaultAssessment, reason: str, status: dict[str, Any]
) -> None:
    node = OURS if status.get("step") else SCHEDULABLE
    after, act = moved(a_job(status=status), fault=fault, node=node)
    assert act is JobAct.NONE
    assert after.status.hold is not None and after.status.hold.reason == reason


def test_a_lost_permit_stops_what_is_new_and_is_asked_for_again() -> None:
    job = a_job(status=running(2, CORDONED, DRAINED))
    lost = seen(node=OURS, permit=refused())
    assert step(job, lost) == (job, JobAct.RENEW_PERMIT)
    heard = JobActResult(JobAct.RENEW_PERMIT, refused())
    held, _ = step(job, seen(node=OURS, permit=refused(), act_result=heard))
    assert held.status.hold is not None and held.status.hold.reason == "PermitLost"
    assert held.phase is JobPhase.RUNNING
    due = seen(node=OURS, permit=refused(), now=T0 + timedelta(seconds=30))
    assert step(held, due) == (held, JobAct.ASK_PERMIT)


def test_f16_a_drain_is_cancelled_not_succeeded_when_the_fault_goes() -> None:
    job = a_job(status=running(1, CORDONED, a_record(1, "migrate")))
    job = job.having(evidence_false_since=T0 - SETTLES)
    ending, act = moved(job, node=OURS, fault=HEALED, pods=Pods(2, ("a/b",)))
    assert act is JobAct.NONE and ending.close_reason is not None
    assert [r.state for r in ending.status.steps] == [StepState.DONE, StepState.CANCELLED]
    assert step(ending, seen(node=OURS)) == (ending, JobAct.UNCORDON)
    disowned, _ = step(ending, seen())
    assert step(disowned, seen()) == (disowned, JobAct.RELEASE_PERMIT)
    over, _ = step(disowned, seen(act_result=JobActResult(JobAct.RELEASE_PERMIT)))
    assert over.phase is JobPhase.CANCELLED
    assert (over.status.permit, over.status.owned.cordon) == (None, False)


def test_f17_a_budget_of_nothing_gives_the_slot_back_and_names_budget_and_pod() -> None:
    job = a_job(status=running(1, CORDONED, a_record(1, "migrate")))
    blocked = Blocked("shop/cart-1", "pdb=shop/cart", "PDB shop/cart: would violate the budget")
    pods = Pods(1, ("shop/cart-1",))
    held, _ = moved(
        job, node=OURS, pods=pods, act_result=JobActResult(JobAct.EVICT, blocked=blocked)
    )
    hold = held.status.hold
    assert hold is not None and hold.reason == "PDBBlocked" and hold.scope == "pdb=shop/cart"
    assert "shop/cart-1" in hold.message and "shop/cart" in hold.message

    yielded, _ = step(held, seen(node=OURS, pods=pods, now=T0 + timedelta(minutes=10)))
    assert (yielded.phase, yielded.status.step) == (JobPhase.AWAITING_PERMIT, 0)
    assert yielded.status.hold is not None and "shop/cart-1" in yielded.status.hold.message
    assert yielded.status.owned.cordon, "the cordon stays"
    at = seen(node=OURS, now=T0 + timedelta(minutes=10))
    assert step(yielded, at) == (yielded, JobAct.RELEASE_PERMIT)
    at = seen(node=OURS, now=at.now, act_result=JobActResult(JobAct.RELEASE_PERMIT))
    freed, _ = step(yielded, at)
    assert freed.status.permit is None
    assert step(freed, seen(node=OURS, now=at.now)) == (freed, JobAct.NONE)


def test_yields_wait_longer_each_time() -> None:
    pauses = []
    for attempts in (1, 2, 3, 9):
        record = a_record(1, "migrate", attempts=attempts)
        job = a_job(status=running(1, CORDONED, record))
        now = T0 + timedelta(minutes=10)
        after, _ = step(job, seen(node=OURS, pods=Pods(1, ("a/b",)), now=now))
        assert after.status.hold is not None and after.status.hold.look_again_at is not None
        pauses.append(after.status.hold.look_again_at - now)
    minutes = [p / timedelta(minutes=1) for p in pauses]
    assert minutes == [5, 10, 20, 60]


def test_f19_a_persons_cordon_is_not_taken_over_and_not_taken_off() -> None:
    job = a_job(status=running(0, a_record(0, "cordon"), owned={"cordon": True}))
    after, act = moved(job, node=THEIRS)
    assert act is JobAct.NONE and after.status.step == 1
    assert not after.status.owned.cordon
    done = a_job(status=verifying(owned={}, conditions=[closing("Proven")]))
    assert moved(done, node=THEIRS) == (done, JobAct.RELEASE_PERMIT)


def test_cordon_of_the_machine_operator_is_shared_and_another_jobs_is_not() -> None:
    job = a_job(status=running(0, a_record(0, "cordon"), owned={"cordon": True}))
    job = replace(job, finalizer=True)
    mark = "MachineComponentSet/containerd/u1"
    assert moved(job, node=replace(THEIRS, cordoned_by=mark)) == (job, JobAct.CORDON)
    after, act = moved(job, node=replace(THEIRS, cordoned_by="n1-other"))
    assert (act, after.status.step, after.status.owned.cordon) == (JobAct.NONE, 1, False)


@pytest.mark.parametrize("cordon", [CORDONED, a_record(0, "cordon")])
@pytest.mark.parametrize("node", [SCHEDULABLE, NodeObservation(cordoned_by=JOB, annotations=MARKS)])
def test_f08_a_persons_uncordon_ends_the_job(node: NodeObservation, cordon: dict[str, Any]) -> None:
    """Seen by our mark on a schedulable node, or because we had seen the cordon before."""
    if node is SCHEDULABLE and cordon is not CORDONED:
        return  # not cordoned yet
    job = a_job(status=running(2, cordon, DRAINED))
    after, _ = moved(job, node=node)
    assert after.close_reason == "PersonUncordoned"


def test_a_cordon_that_a_restore_of_etcd_took_away_is_no_persons_word() -> None:
    """The caches may have the backup's Node before the backup's job."""
    job = a_job(status=running(2, CORDONED, DRAINED))
    after, act = moved(job, node=SCHEDULABLE, restored=True)
    assert (after.close_reason, act) == (None, JobAct.NONE)
    assert after.status.hold is not None and "kubenode freeze lift" in after.status.hold.message
    again, _ = moved(after, node=SCHEDULABLE)
    assert again.close_reason == "PersonUncordoned", "once a person has lifted the freeze"


def test_nobody_is_cut_off_between_the_asking_and_the_answer() -> None:
    job = a_job(cancel=True, status=running(2, CORDONED, DRAINED, asked(2)))
    assert moved(job, node=SCHEDULABLE) == (job, JobAct.NONE)
    answered = a_job(
        cancel=True,
        status=running(2, CORDONED, DRAINED, asked(2), agent={"requests": ANSWERS["Done"]}),
    )
    done, _ = moved(answered, node=OURS)
    assert done.status.steps[2].state is StepState.DONE
    ending, _ = step(done, seen(node=OURS))
    assert ending.close_reason == "PersonCancelled"


def test_f21_a_failed_step_climbs_and_an_unanswered_one_does_not_wait_for_ever() -> None:
    failed = running(2, CORDONED, DRAINED, asked(2), agent={"requests": ANSWERS["Failed"]})
    after, _ = moved(a_job(DRAIN, RESTART, status=failed), node=OURS)
    assert (after.phase, after.status.rung, after.status.step) == (JobPhase.AWAITING_PERMIT, 1, 0)
    assert "no such unit" in after.status.message
    silent = a_job(status=running(2, CORDONED, DRAINED, asked(2)))
    at = T0 + timedelta(minutes=2, seconds=5)
    after, _ = moved(silent, node=OURS, now=at)
    assert after.phase is JobPhase.NEEDS_HUMAN
    assert "did not answer" in after.status.message


def test_asks_the_agent_once_with_boot_and_expiry() -> None:
    after, act = moved(a_job(status=running(2, CORDONED, DRAINED)), node=OURS)
    record = after.record
    assert act is JobAct.NONE and record is not None
    assert (record.by, record.request_id, record.boot_id) == (StepBy.AGENT, "r0s2a1", "boot-1")
    assert record.expires_at == T0 + timedelta(minutes=2)
    assert step(after, seen(node=OURS)) == (after, JobAct.NONE)


def test_succeeds_only_after_the_fault_was_gone_long_enough() -> None:
    job = a_job(status=verifying())
    since, _ = moved(job, node=OURS, fault=HEALED)
    assert since.status.evidence_false_since == T0
    early = seen(node=OURS, fault=HEALED, now=T0 + timedelta(seconds=59))
    assert step(since, early) == (since, JobAct.NONE)
    back, _ = step(since, seen(node=OURS, fault=FAULTY))
    assert back.status.evidence_false_since is None
    over = seen(node=OURS, fault=HEALED, now=T0 + timedelta(minutes=1), unavailable=timedelta(1))
    proven, _ = step(since, over)
    assert proven.close_reason == "Proven"
    assert proven.status.timeline.pods_unavailable == timedelta(1)
    assert step(proven, over) == (proven, JobAct.UNCORDON)


def test_f46_an_end_needs_no_permit() -> None:
    ending = a_job(status=verifying(conditions=[closing("Proven")]))
    world = seen(node=OURS, permit=refused(), fresh=False)
    assert step(ending, world) == (ending, JobAct.UNCORDON)


def test_a_closed_job_stays_until_the_record_of_its_node_holds_it() -> None:
    status = {"phase": "Cancelled", "timeline": {"closed": T0.isoformat()}}
    job, late = a_job(status=status), T0 + timedelta(days=30)
    held = replace(job, finalizer=True)
    assert step(held, seen(node=None, now=late, recorded=False)) == (held, JobAct.NONE)
    assert step(held, seen(node=None, now=late)) == (held, JobAct.REMOVE_FINALIZER)
    assert step(job, seen(node=None, now=late, recorded=False)) == (job, JobAct.NONE)
    assert step(job, seen(node=None, now=late)) == (job, JobAct.DELETE)


def test_a_dry_run_of_a_rule_that_an_earlier_version_stored_goes_once_it_is_recorded() -> None:
    status = {"phase": "Shadowed", "timeline": {"closed": T0.isoformat()}}
    job = a_job(mode="DryRun", status=status)
    assert step(job, seen(node=None, recorded=False)) == (job, JobAct.NONE)
    assert step(job, seen(node=None)) == (job, JobAct.DELETE)
    by_hand = replace(job, spec=job.spec.model_copy(update={"remedier": None}))
    assert step(by_hand, seen(node=None)) == (by_hand, JobAct.NONE), "a person wants to read it"


def test_a_closed_job_goes_before_its_time_when_newer_ones_outnumber_it() -> None:
    status = {"phase": "Cancelled", "timeline": {"closed": T0.isoformat()}}
    job = a_job(status=status)
    assert step(job, seen(node=None, outnumbered=True, recorded=False)) == (job, JobAct.NONE)
    held = replace(job, finalizer=True)
    assert step(held, seen(node=None, outnumbered=True)) == (held, JobAct.REMOVE_FINALIZER)
    assert step(job, seen(node=None, outnumbered=True)) == (job, JobAct.DELETE)


def test_a_closed_job_is_deleted_in_time_and_a_finalizer_goes_first() -> None:
    status = {"phase": "Succeeded", "timeline": {"closed": T0.isoformat()}}
    job = a_job(status=status)
    assert step(job, seen(now=T0 + timedelta(hours=71))) == (job, JobAct.NONE)
    assert step(job, seen(now=T0 + timedelta(hours=72))) == (job, JobAct.DELETE)


def test_f07_an_unsupported_step_goes_the_way_of_a_failure_and_touches_nothing() -> None:
    rung = {"name": "boot", "steps": [{"replace": {"surge": "First"}}]}
    after, act = moved(a_job(rung, status=running(0)))
    assert act is JobAct.NONE and after.phase is JobPhase.NEEDS_HUMAN
    assert "step replace with surge First is not available in this version" in after.status.message


def test_no_mark_stays_behind_when_a_hold_is_looked_at() -> None:
    """The same hold is not written again before its time: no ticking values."""
    job = a_job(status={"phase": "AwaitingPermit"})
    unknown = FAULTS[4]
    held, _ = moved(job, fault=unknown)
    same = step(held, seen(fault=unknown, now=T0 + timedelta(seconds=10)))
    assert same == (held, JobAct.NONE)


@pytest.mark.parametrize("mode", ["Enforce", "Approve", "DryRun"])
def test_mode_decides_the_way(mode: str) -> None:
    after, act = moved(a_job(mode=mode))
    if mode == "DryRun":
        assert act is JobAct.ASK_PERMIT
        after, _ = moved(a_job(mode=mode), act_result=JobActResult(JobAct.ASK_PERMIT, refused()))
        assert "would have refused (ConcurrencyLimit)" in after.status.message
    wanted = {"Enforce": "AwaitingPermit", "Approve": "AwaitingApproval", "DryRun": "Shadowed"}
    assert after.phase == wanted[mode]


DELETES = {**DRAIN, "steps": [{"cordon": {}}, {"migrate": {"onTimeout": "Delete"}}]}


@pytest.mark.parametrize("status", [running(1, CORDONED), {"phase": "AwaitingPermit"}])
def test_deleting_what_a_budget_keeps_is_approved_by_a_word_of_its_own(
    status: dict[str, Any],
) -> None:
    yes = {"decision": "Approve", "by": "ann"}
    job = a_job(DELETES, status=status, approvals=[yes])
    after, _ = moved(job, node=OURS)
    assert approved(after) and after.status.words_heard == 1
    nothing, _ = moved(a_job(DRAIN, status=status, approvals=[yes]), node=OURS)
    assert not approved(nothing) and nothing.status.words_heard == 1
    back = a_job(
        DELETES,
        status=after.status.to_dict(),
        approvals=[yes, {"decision": "Deny", "by": "bob"}],
    )
    denied, _ = moved(back, node=OURS)
    if denied.phase is JobPhase.RUNNING:
        assert not approved(denied)
    else:
        assert denied.phase is JobPhase.CANCELLED


@pytest.mark.parametrize("status", [{"phase": "AwaitingPermit"}, running(0)])
def test_f47_nothing_is_begun_on_caches_that_hear_nothing(status: dict[str, Any]) -> None:
    after, act = moved(
        a_job(status=status), fresh=False, act_result=JobActResult(JobAct.ASK_PERMIT, granted())
    )
    assert act is JobAct.NONE and after.record is None
    assert after.status.hold is not None and after.status.hold.reason == "StaleData"


def test_the_time_that_a_job_is_held_is_summed() -> None:
    job = a_job(status={"phase": "AwaitingPermit"})
    held, _ = moved(job, fault=FAULTS[4])
    assert held.status.hold is not None and held.status.hold.since == T0
    at = T0 + timedelta(minutes=3)
    guarded, _ = moved(held, fault=FAULTS[2], now=at)
    assert guarded.status.hold is not None and guarded.status.hold.since == T0, "another reason"
    at += timedelta(minutes=1)
    runs, _ = moved(guarded, now=at, act_result=JobActResult(JobAct.ASK_PERMIT, granted()))
    assert runs.phase is JobPhase.RUNNING
    assert runs.status.timeline.held == timedelta(minutes=4)
