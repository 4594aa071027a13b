"""What was asked is rebuilt from the record of requests, from permits and from jobs."""

from datetime import datetime, timedelta
from typing import Any

from support.clock import T0
from support.defender_core import a_node, an_ask

from defender.decision.history import USUAL, History, history
from defender.decision.jobs import (
    Evidence,
    JobHold,
    JobRemedier,
    JobTimes,
    JobTrigger,
    JobViewSpec,
    JobViewStatus,
    ObservedJob,
)
from defender.decision.ledger import LedgerPermit
from defender.decision.requests import Requests
from kubenode.api.v1alpha1 import Disruption, Operation, Reason, Verdict
from kubenode.api.v1alpha1.permit import Holder, PermitState
from kubenode.runtime.kube.objects import KubeObjectMeta, Node

MINUTE = timedelta(minutes=1)
END = T0 + timedelta(hours=2)
NODES = [a_node(f"n{i}") for i in range(5)]


def at(minute: float) -> datetime:
    return T0 + minute * MINUTE


def permit(node: str, granted: float, released: float | None = None, **more: Any) -> LedgerPermit:
    holder = Holder(kind="RemedyOperationJob", name=f"job-{node}", uid=f"uid-job-{node}")
    return LedgerPermit(
        name=f"p-{node}",
        node=node,
        operation=Operation.REPAIR,
        holder=holder,
        grants=more.get("grants", [(Disruption.NODE, at(granted))]),
        expires_at=END,
        state=PermitState.GRANTED if released is None else PermitState.RELEASED,
        released_at=None if released is None else at(released),
    )


def job(node: str, made: float, phase: str = "Succeeded", **status: Any) -> ObservedJob:
    meta = KubeObjectMeta(name=f"job-{node}", uid=f"uid-job-{node}", creation_timestamp=at(made))
    trigger = JobTrigger(
        first_true=at(made - 1), facts=(Evidence("condition Ready Unknown 1m", source="NPD"),)
    )
    spec = JobViewSpec(node, JobRemedier("r"), trigger, "Enforce", "Critical", "kubelet_down")
    return ObservedJob(meta, spec, JobViewStatus(phase=phase, **status))


def rebuilt(
    *,
    permits: tuple[LedgerPermit, ...] = (),
    jobs: tuple[ObservedJob, ...] = (),
    record: Requests | None = None,
    nodes: list[Node] = NODES,
) -> History:
    page = record.page() if record is not None else None
    return history(nodes, permits, jobs, page, T0, END)


def test_a_permit_was_asked_for_when_its_job_was_made_and_lasted_till_its_release() -> None:
    found = rebuilt(permits=(permit("n1", 10, 25),), jobs=(job("n1", 4),))
    (wish,) = found.wishes
    assert (wish.at, wish.was, wish.lasts) == (at(4), at(10), 15 * MINUTE)
    assert (wish.ask.severity, wish.ask.fault_class) == ("Critical", "kubelet_down")
    assert wish.ask.evidence == ["NPD"]


def test_without_its_job_a_permit_was_asked_for_when_it_was_granted() -> None:
    (wish,) = rebuilt(permits=(permit("n1", 10),)).wishes
    assert (wish.at, wish.lasts) == (at(10), None)


def test_a_stronger_class_is_a_wish_of_its_own() -> None:
    grants = [(Disruption.HOST, at(5)), (Disruption.NODE, at(8))]
    found = rebuilt(permits=(permit("n1", 5, 20, grants=grants),), jobs=(job("n1", 2),))
    assert [(w.at, w.ask.class_, w.lasts) for w in found.wishes] == [
        (at(2), Disruption.HOST, 15 * MINUTE),
        (at(8), Disruption.NODE, 12 * MINUTE),
    ]


def test_an_open_job_that_kube_defender_holds_is_a_wish_that_was_never_granted() -> None:
    held = job("n1", 3, "AwaitingPermit", hold=JobHold("RateLimit"))
    guarded = job("n2", 3, "AwaitingPermit", hold=JobHold("GuardTrue"))
    found = rebuilt(jobs=(held, guarded), permits=(permit("n3", 0, 20),))
    wish = next(w for w in found.wishes if w.was is None)
    assert (wish.ask.node, wish.at, wish.until) == ("n1", at(3), None)
    assert wish.lasts == 20 * MINUTE  # as long as acts of this class usually last here
    assert found.doubt.guessed == 1
    assert len(found.wishes) == 2


def test_remembered_requests_come_first_and_are_not_counted_twice() -> None:
    record = Requests(T0 - MINUTE)
    no = Verdict(allowed=False, reason=Reason.RATE_LIMIT, look_again_at=at(2))
    record.answered(an_ask("n1"), no, at(1))
    record.answered(
        an_ask("n1"), Verdict(allowed=True, reason=Reason.GRANTED, permit="p-n1"), at(10)
    )
    record.answered(an_ask("n2"), no, at(1))
    found = rebuilt(record=record, permits=(permit("n1", 10, 25),), jobs=(job("n1", 0),))
    first, second = found.wishes
    assert (first.at, first.was, first.lasts) == (at(1), at(10), 15 * MINUTE)
    assert (second.ask.node, second.until) == ("n2", at(1))  # it never came back
    assert found.doubt.remembered_since == T0


def test_permits_of_before_are_there_as_they_were_at_the_start() -> None:
    found = rebuilt(permits=(permit("n1", -90, -30), permit("n2", -10, 30), permit("n3", -5)))
    assert [held.open for held in found.before] == [False, True, True]
    assert found.ends["p-n2"] == at(30)
    assert "p-n3" not in found.ends
    assert not found.wishes


def test_faults_come_from_jobs_and_from_nodes_that_are_not_ready_now() -> None:
    helped = job("n1", 5, timeline=JobTimes(closed=at(30)))
    gone_by_itself = job("n2", 5, "Cancelled", timeline=JobTimes(closed=at(9)))
    nodes = [*NODES, a_node("n9", ready=False, since=at(50))]
    found = rebuilt(jobs=(helped, gone_by_itself), permits=(permit("n1", 6, 30),), nodes=nodes)
    assert [(f.node, f.at, f.until) for f in found.faults] == [
        ("n1", at(4), None),
        ("n2", at(4), at(9)),
        ("n9", at(50), None),
    ]
    assert all(fault.silent for fault in found.faults)
    assert found.doubt.unseen == 1


def test_nodes_that_are_gone_are_named_and_left_out() -> None:
    found = rebuilt(permits=(permit("gone", 5),))
    assert (found.wishes, found.doubt.gone) == ([], {"gone"})


def test_where_nothing_tells_how_long_an_act_lasts_it_is_guessed() -> None:
    (wish,) = rebuilt(jobs=(job("n1", 3, "AwaitingPermit", hold=JobHold("Paused")),)).wishes
    assert wish.lasts == USUAL
