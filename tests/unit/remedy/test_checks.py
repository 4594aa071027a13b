"""A rung's own proof: asked for last, all at once, again if one fails, and never believed early."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import FAULTY, HEALED, OURS, RESTART, a_job, a_record, seen

from kubenode.api.v1alpha1 import Expression, JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import StepBy, StepState
from remedy.job.model import CloseReason, FaultAssessment, Job, JobAct, binding
from remedy.job.records import FIRST_CHECK
from remedy.job.step import step
from remedy.job.wake import requeue_at

MINUTE = timedelta(minutes=1)


def a_check(name: str) -> dict[str, Any]:
    return {"agent": {"action": "RunCheck", "check": name, "timeout": "30s"}}


def verifying(**verify: Any) -> Job:
    checks = [a_check("disk"), a_check("net")]
    rung = {**RESTART, "verify": {"for": "1m", "timeout": "16m", "checks": checks, **verify}}
    acted = {
        "type": "Acted",
        "status": "True",
        "reason": "Rung0",
        "lastTransitionTime": T0.isoformat(),
    }
    status = {"phase": "Verifying", "step": 1, "conditions": [acted], "steps": [done_act()]}
    return a_job(rung, status=status)


def done_act() -> dict[str, Any]:
    return a_record(0, "agent", "Done", by="Agent", requestID="r0s0a1", askedAt=T0.isoformat())


def after(job: Job, at: datetime, fault: FaultAssessment = FAULTY) -> Job:
    """All moves of that instant."""
    for _ in range(10):
        moved, act = step(job, seen(now=at, fault=fault, node=OURS))
        if moved == job:
            assert act is JobAct.NONE
            return job
        job = moved
        if job.close_reason is not None:
            return job
    raise AssertionError("no end")


def answered(job: Job, **codes: int | None) -> Job:
    """By the name of the check; None: refused."""
    requests = {}
    for n, check in enumerate(job.rung.verify.checks):
        assert check.agent is not None and check.agent.check is not None
        if check.agent.check not in codes:
            continue
        code = codes[check.agent.check]
        state = "Refused" if code is None else "Failed" if code else "Done"
        requests[record(job, n).request_id] = {"state": state, "code": code, "output": "said"}
    status = {**job.status.to_dict(), "agent": {"requests": requests}}
    return job.having(agent=type(job.status).model_validate(status).agent)


def record(job: Job, n: int) -> Any:
    return next(r for r in job.status.steps if r.index == FIRST_CHECK + n)


def test_checks_are_asked_of_the_boot_that_runs_once_the_rest_has_stood_long_enough() -> None:
    early = after(verifying(), T0)
    assert len(early.status.steps) == 1, "not before verify.for"
    job = after(early, T0 + MINUTE)
    for n in (0, 1):
        request = record(job, n)
        assert (request.name, request.by, request.state) == ("check", StepBy.AGENT, "Running")
        assert request.request_id == f"r0c{n}a1" and request.boot_id == "boot-1"
        assert request.expires_at == T0 + MINUTE + timedelta(seconds=30)
        assert not binding(job, request), "a check only looks"
    assert not job.in_flight, "and nobody is kept from interrupting"


def test_all_must_pass_and_then_it_is_proven() -> None:
    asked = after(after(verifying(), T0), T0 + MINUTE)
    half = after(answered(asked, disk=0), T0 + MINUTE)
    assert half.close_reason is None
    both = after(answered(half, disk=0, net=0), T0 + MINUTE)
    assert both.close_reason is CloseReason.CHECKED, "the evidence still says otherwise"
    gone = after(answered(asked, disk=0, net=0), T0 + MINUTE, HEALED)
    assert gone.close_reason is CloseReason.PROVEN
    assert CloseReason.CHECKED.outlasts_the_job and not CloseReason.PROVEN.outlasts_the_job


@pytest.mark.parametrize(
    ("code", "words"), [(1, "net failed: said"), (127, "net says nothing"), (None, "says nothing")]
)
def test_one_that_fails_or_says_nothing_proves_nothing_and_all_are_asked_again(
    code: int | None, words: str
) -> None:
    asked = after(after(verifying(), T0), T0 + MINUTE)
    failed = after(answered(asked, disk=0, net=code), T0 + MINUTE)
    assert failed.close_reason is None and words in record(failed, 1).message
    again_at = requeue_at(failed, seen(now=T0 + MINUTE, node=OURS))
    assert again_at is not None
    soon = after(failed, T0 + 2 * MINUTE)
    assert record(soon, 0).state is StepState.DONE, "not asked yet"
    again = after(soon, T0 + 3 * MINUTE)  # an eighth of verify.timeout later
    assert [record(again, n).request_id for n in (0, 1)] == ["r0c0a2", "r0c1a2"]
    assert after(answered(again, disk=0, net=0), T0 + 3 * MINUTE).close_reason is not None


def test_what_nobody_answers_is_not_waited_for_for_ever() -> None:
    asked = after(after(verifying(), T0), T0 + MINUTE)
    late = after(asked, T0 + MINUTE + timedelta(seconds=35))
    assert "did not answer" in record(late, 0).message
    over = after(late, T0 + 16 * MINUTE)
    assert over.phase is JobPhase.NEEDS_HUMAN and "did not answer" in over.status.message
    assert all(r.state is not StepState.RUNNING for r in over.status.steps)


def test_a_host_without_a_known_boot_is_not_asked() -> None:
    job = after(verifying(), T0)
    world = seen(now=T0 + MINUTE)
    assert step(job, seen(now=T0 + MINUTE, node=type(OURS)(unschedulable=True))) == (
        job,
        JobAct.NONE,
    )
    assert step(job, world)[0] != job


def test_a_pass_from_before_the_proof_began_to_stand_does_not_count() -> None:
    """With `cleared` the proof may fall and stand again: checks are asked anew."""
    cleared = {"condition": {"type": "Ready", "status": "True"}}
    job = after(after(verifying(cleared=cleared), T0, HEALED), T0 + MINUTE, HEALED)
    passed = answered(job, disk=0, net=1)
    fallen = after(after(passed, T0 + MINUTE, HEALED), T0 + 2 * MINUTE, FAULTY)
    assert fallen.status.evidence_false_since is None
    stands = after(fallen, T0 + 3 * MINUTE, HEALED)
    again = after(stands, T0 + 4 * MINUTE, HEALED)
    assert record(again, 0).request_id == "r0c0a2"


def test_while_a_person_is_waited_for_nobody_is_asked_unless_the_evidence_is_gone() -> None:
    job = verifying().having(phase=JobPhase.NEEDS_HUMAN)
    assert after(job, T0 + 5 * MINUTE) == job
    well = after(after(job, T0 + 5 * MINUTE, HEALED), T0 + 6 * MINUTE, HEALED)
    assert record(well, 0).state is StepState.RUNNING


def test_checks_prove_nothing_of_a_node_that_is_not_ready_if_the_evidence_is_about_that() -> None:
    ready = Expression.model_validate({"condition": {"type": "Ready", "status": "Unknown"}})
    job = verifying()
    about = replace(job, spec=job.spec.model_copy(update={"when": ready}))
    for state, stands in (("True", True), ("False", False), ("Unknown", False), ("", False)):
        world = seen(now=T0, fault=FAULTY, node=replace(OURS, ready=state))
        assert (step(about, world)[0].status.evidence_false_since is not None) is stands
        assert step(job, world)[0].status.evidence_false_since == T0, "of other evidence it does"
