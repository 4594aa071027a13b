"""Jobs that wait for Kube Defender: woken, held, denied, and with permits for long steps."""

from datetime import timedelta
from typing import Any

from support.clock import T0
from support.remedy_builders import RESTART, a_job, an_object, granted, refused, seen
from support.remedy_world import FakeWorld

from kubenode.api.v1alpha1 import Ask, JobPhase, Reason, Verdict
from remedy.job.act import act, ask_for
from remedy.job.model import JobAct, JobActResult
from remedy.job.step import step
from remedy.job.stepaccess import StepAccess

MINUTE = timedelta(minutes=1)
HELD: dict[str, Any] = {
    "reason": "ConcurrencyLimit",
    "scope": "cluster",
    "message": "cluster: 5 of 5 permits are held",
    "lookAgainAt": (T0 + 10 * MINUTE).isoformat(),
}
WAITS = {"phase": "AwaitingPermit", "hold": HELD}
LOST = {
    "phase": "Running",
    "permit": {"name": "p", "class": "Host", "grantedAt": T0.isoformat()},
    "hold": HELD | {"reason": "PermitLost"},
}


def test_a_woken_job_asks_at_once() -> None:
    job = a_job(status=WAITS)
    assert step(job, seen())[1] is JobAct.NONE
    assert step(job, seen(woken=True))[1] is JobAct.ASK_PERMIT


def test_a_woken_job_that_lost_its_permit_asks_at_once() -> None:
    job = a_job(RESTART, status=LOST)
    gone = refused(Reason.UNKNOWN)
    assert step(job, seen(permit=gone))[1] is JobAct.NONE
    assert step(job, seen(permit=gone, woken=True))[1] is JobAct.ASK_PERMIT


def test_a_time_that_lies_too_far_ahead_is_a_clock_that_was_set_back() -> None:
    job = a_job(status=WAITS)
    assert step(job, seen(now=T0 - timedelta(hours=2)))[1] is JobAct.ASK_PERMIT


def test_a_hold_is_not_written_again_for_another_count() -> None:
    job = a_job(status=WAITS)
    said = Verdict(
        allowed=False,
        reason=Reason.CONCURRENCY_LIMIT,
        scope="cluster",
        message="cluster: 6 of 6 permits are held",
        look_again_at=T0 + 20 * MINUTE,
    )
    after, what = step(
        job, seen(woken=True, act_result=JobActResult(JobAct.ASK_PERMIT, verdict=said))
    )
    assert (after, what) == (job, JobAct.NONE)
    elsewhere = said.model_copy(update={"scope": "zone=b"})
    after, _ = step(
        job, seen(woken=True, act_result=JobActResult(JobAct.ASK_PERMIT, verdict=elsewhere))
    )
    assert after.status.hold is not None and after.status.hold.scope == "zone=b"


def test_a_hold_says_what_kube_defender_said() -> None:
    job = a_job(status={"phase": "AwaitingPermit"})
    said = Verdict(
        allowed=False,
        reason=Reason.BREAKER_OPEN,
        scope="zone=b",
        message="too much is wrong in zone b",
        look_again_at=T0 + 7 * MINUTE,
    )
    after, _ = step(job, seen(act_result=JobActResult(JobAct.ASK_PERMIT, verdict=said)))
    hold = after.status.hold
    assert hold is not None
    assert (hold.reason, hold.scope, hold.message) == (said.reason, said.scope, said.message)
    assert hold.look_again_at == said.look_again_at


def test_a_denial_counts_while_the_job_waits_for_its_permit() -> None:
    approvals = [{"decision": "Approve", "by": "ann"}, {"decision": "Deny", "by": "bob"}]
    job = a_job(status=WAITS | {"wordsHeard": 1}, approvals=approvals, mode="Approve")
    after, _ = step(job, seen())
    assert after.phase is JobPhase.CANCELLED
    assert "bob" in after.status.message


def test_an_approval_leads_on() -> None:
    job = a_job(
        status={"phase": "AwaitingApproval"},
        approvals=[{"decision": "Approve", "by": "ann"}],
        mode="Approve",
    )
    after, _ = step(job, seen())
    assert after.phase is JobPhase.AWAITING_PERMIT


def test_what_is_asked_names_severity_deadline_and_known_evidence_only() -> None:
    facts = [
        {"atom": "a", "value": True, "source": "NPD"},
        {"atom": "b", "source": "Probe"},
    ]
    deadline = T0 + timedelta(hours=3)
    job = a_job(
        trigger={"firstTrue": T0.isoformat(), "facts": facts},
        severity="Critical",
        deadline=deadline.isoformat(),
        faultClass="gpu",
    )
    ask = ask_for(job)
    assert (ask.severity, ask.deadline, ask.fault_class) == ("Critical", deadline, "gpu")
    assert ask.evidence == ["NPD"], "a probe that nobody answered proves nothing"


class Renewing:
    """A Kube Defender that is only asked to prolong."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def renew(self, permit: str, seconds: float) -> Verdict | str:
        self.seconds.append(seconds)
        return granted(timedelta(seconds=seconds))

    async def ask(self, ask: Ask) -> Verdict | str:
        raise AssertionError

    async def release(self, permit: str) -> str:
        raise AssertionError


async def test_a_permit_is_prolonged_for_as_long_as_the_step_needs() -> None:
    """It lives for minutes, and the step may take half an hour."""
    unit = {"action": "RestartUnit", "unit": "a.service", "timeout": "30m"}
    job = a_job(RESTART | {"steps": [{"agent": unit}]}, status=LOST | {"hold": None})
    too_short = refused(Reason.UNKNOWN)
    assert step(job, seen(permit=too_short))[1] is JobAct.RENEW_PERMIT
    leave, effects = Renewing(), FakeWorld(an_object())
    _, heard = await act(job, JobAct.RENEW_PERMIT, seen(), effects, leave, StepAccess())
    assert leave.seconds == [1800.0]
    after, _ = step(job, seen(permit=too_short, act_result=heard))
    assert after.status.hold is None and after.status.permit is not None
    assert after.status.permit.expires_at == T0 + 30 * MINUTE
