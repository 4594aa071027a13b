"""What Kube Defender grants and refuses is in the audit log, a refusal that lasts once."""

from typing import Any

from support.audit_lines import Kept
from support.clock import T0

from defender.audit import Auditing
from kubenode.api.v1alpha1 import Ask, Operation, Reason, Verdict
from kubenode.api.v1alpha1.ladder import Disruption
from kubenode.api.v1alpha1.permit import Holder


def an_ask(name: str = "job-1", **more: Any) -> Ask:
    holder = Holder(kind="RemedyOperationJob", name=name, uid=f"uid-{name}")
    given = {"operation": Operation.REPAIR, "class_": Disruption.NODE, "node": "n1"}
    return Ask(**{**given, "holder": holder, **more})


def no(reason: Reason = Reason.RATE_LIMIT, scope: str = "zone=b", message: str = "") -> Verdict:
    return Verdict(allowed=False, reason=reason, scope=scope, message=message or "no")


def yes(permit: str = "p1") -> Verdict:
    return Verdict(allowed=True, reason=Reason.GRANTED, permit=permit)


def lines(*answers: tuple[Ask, Verdict], most: int = 100) -> list[tuple[str, str, str]]:
    kept = Kept()
    auditing = Auditing(kept, most)
    for ask, verdict in answers:
        auditing.answered(ask, verdict, T0)
    return [(line.who, line.outcome, line.after) for line in kept.lines]


def test_a_grant_after_refusals_is_told_with_what_changed() -> None:
    ask = an_ask()
    counted = [(ask, no(message=f"{n} of 5")) for n in range(9)]
    elsewhere = [(ask, no(Reason.PAUSED, "cluster"))]
    assert lines(*counted, *elsewhere, (ask, yes()), (ask, yes())) == [
        ("job-1", "Refused", "RateLimit zone=b"),
        ("job-1", "Refused", "Paused cluster"),
        ("job-1", "Granted", "Granted p1"),
    ]


def test_a_persons_act_is_theirs() -> None:
    kept = Kept()
    holder = Holder(kind="User", name="alice", uid="user-1")
    Auditing(kept).answered(an_ask(holder=holder), no(), T0)
    [line] = kept.lines
    assert (line.who, line.job, line.node, line.what) == ("alice", "", "n1", "Repair Node")


def test_a_dry_run_is_no_line() -> None:
    assert lines((an_ask(dry_run=True), no())) == []


def test_what_is_remembered_is_bounded() -> None:
    asks = [an_ask(f"job-{n}") for n in range(5)]
    told = lines(*[(ask, no()) for ask in asks], (asks[0], no()), most=3)
    assert len(told) == 6, "the first was forgotten, and is told again"
