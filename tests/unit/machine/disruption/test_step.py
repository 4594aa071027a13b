"""How far a disruption is prepared: each reason to wait, and what must be seen before each act."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest
from support.clock import T0

from kubenode.api.cordon import CORDONED_BY, CordonState, mark_of
from kubenode.api.v1alpha1 import Reason, Verdict
from kubenode.api.v1alpha1.machinework import ChangeClass
from kubenode.api.v1alpha1.permit import Holder, Operation
from kubenode.runtime.drain.observation import Blocked, Pods
from machine.disruption.port import (
    UNNEEDED,
    DisruptionHold,
    DisruptionRequest,
    DisruptionState,
    Prepared,
)
from machine.disruption.step import DisruptionAct, DisruptionObservation, step

HOLDER = Holder(kind="MachineComponentSet", name="containerd", uid="u1")
WISH = DisruptionRequest("n1", HOLDER, Operation.ROLLOUT, ChangeClass.DRAIN)
GRANTED = Verdict(
    allowed=True,
    reason=Reason.GRANTED,
    permit="p-1",
    granted_at=T0,
    expires_at=T0 + timedelta(minutes=30),
)
REFUSED = Verdict(
    allowed=False,
    reason=Reason.CONCURRENCY_LIMIT,
    message="cluster: 2 of 2",
    look_again_at=T0 + timedelta(seconds=20),
)
UNCLEAR = Verdict(allowed=False, reason=Reason.STORE_UNAVAILABLE)
MARKED = CordonState(True, {CORDONED_BY: mark_of(HOLDER)})
EMPTY, FULL = Pods(), Pods(remaining=2, due=("a/x",), every=("a/x", "a/y"))
LEAVING = Pods(remaining=1, every=("a/y",))

NODES = (None, CordonState(), CordonState(True), MARKED, CordonState(False, MARKED.annotations))
VERDICTS = (None, "no route to host", GRANTED, REFUSED, UNCLEAR)
LATER = T0 + timedelta(minutes=30)


def every_case() -> Iterator[tuple[DisruptionRequest, DisruptionObservation]]:
    nodes = product(NODES, ("", "rj-1"), ("", "too many silent"), (False, True), VERDICTS)
    wishes = [replace(WISH, class_=c, begun=b) for c, b in product(ChangeClass, (False, True))]
    wishes.append(replace(WISH, node=None))
    for node, job, frozen, owned, verdict in nodes:
        for pods, evicted, now in product((None, EMPTY, FULL), (False, True), (T0, LATER)):
            seen = DisruptionObservation(
                now, node, job, frozen, owned, verdict, None, pods, evicted
            )
            for wish in wishes:
                yield wish, seen


@pytest.mark.exhaustive
def test_every_case_keeps_the_promises() -> None:
    answers = set()
    for wish, seen in every_case():
        said = step(wish, seen)
        answers.add(said.state if isinstance(said, Prepared) else said)
        allowed = isinstance(seen.verdict, Verdict) and seen.verdict.allowed
        drains = wish.class_.weight >= ChangeClass.DRAIN.weight
        disturbs = wish.class_.weight >= ChangeClass.RESTART.weight
        held = bool(seen.job or seen.frozen) and not wish.begun
        if said in (DisruptionAct.CORDON, DisruptionAct.LIST_PODS, DisruptionAct.EVICT):
            assert allowed and drains and not held and not wish.begun
            assert seen.node is not None
        if said is DisruptionAct.CORDON:
            assert not seen.node.unschedulable  # type: ignore[union-attr]
        if said is DisruptionAct.EVICT:
            assert seen.node.unschedulable  # type: ignore[union-attr]
            assert seen.pods is not None and seen.pods.due and not seen.evicted
            assert seen.now < LATER
        if said is DisruptionAct.ASK:
            assert seen.verdict is None and not held
        if not isinstance(said, Prepared):
            continue
        if said.state is DisruptionState.READY and disturbs and wish.node and seen.node is not None:
            assert allowed and said.permit == "p-1"
            assert not held
            if drains and not wish.begun:
                assert seen.node.unschedulable
                assert seen.pods is not None and seen.pods.remaining == 0
        if said.state is DisruptionState.READY and disturbs and not wish.begun:
            assert not seen.frozen
        assert said.permit == "" or said.state is not DisruptionState.WAITING
        assert said.reason
    assert answers == {*DisruptionState, *DisruptionAct}


def test_a_node_that_is_not_there_needs_no_permit_and_no_drain() -> None:
    """Kube Defender counts Nodes, and there is no pod."""
    for wish, node in ((replace(WISH, node=None), None), (WISH, None)):
        assert step(wish, DisruptionObservation(T0, node)) == Prepared(
            DisruptionState.READY, UNNEEDED
        )


@pytest.mark.parametrize("class_", [ChangeClass.NONE, ChangeClass.RELOAD])
def test_what_disturbs_nothing_asks_nobody(class_: ChangeClass) -> None:
    seen = DisruptionObservation(T0, CordonState(), job="rj-1", frozen="too many silent")
    assert step(replace(WISH, class_=class_), seen) == Prepared(DisruptionState.READY, UNNEEDED)


def test_an_open_job_gets_the_node_back_before_the_act_and_not_in_its_middle() -> None:
    seen = DisruptionObservation(T0, MARKED, job="rj-1", owned=True)
    assert step(WISH, seen) is DisruptionAct.GIVE_BACK
    said = step(WISH, replace(seen, node=CordonState(), owned=False))
    assert isinstance(said, Prepared)
    assert (said.state, said.reason) == (DisruptionState.WAITING, DisruptionHold.REMEDY_JOB_OPEN)
    assert "rj-1" in said.message
    begun = step(replace(WISH, begun=True), replace(seen, verdict=GRANTED))
    assert isinstance(begun, Prepared) and begun.state is DisruptionState.READY


def test_a_refusal_is_told_in_kube_defenders_words_and_time() -> None:
    said = step(WISH, DisruptionObservation(T0, CordonState(), verdict=REFUSED))
    assert isinstance(said, Prepared)
    assert (said.state, said.reason, said.message) == (
        DisruptionState.WAITING,
        "ConcurrencyLimit",
        "cluster: 2 of 2",
    )
    assert said.requeue_after == 20


def test_a_refusal_in_the_middle_of_a_drain_uncordons_but_a_doubt_does_not() -> None:
    assert (
        step(WISH, DisruptionObservation(T0, MARKED, owned=True, verdict=REFUSED))
        is DisruptionAct.GIVE_BACK
    )
    for verdict in (UNCLEAR, "no route to host"):
        said = step(WISH, DisruptionObservation(T0, MARKED, owned=True, verdict=verdict))
        assert isinstance(said, Prepared) and said.state is DisruptionState.WAITING


def test_f17_a_budget_that_holds_a_pod_is_named_and_the_drain_fails_in_its_time() -> None:
    blocked = Blocked("shop/db-0", "pdb=shop/db", "PDB shop/db: it would be too few.", LATER)
    pods = Pods(remaining=1, every=("shop/db-0",), blocked=blocked)
    seen = DisruptionObservation(T0, MARKED, owned=True, verdict=GRANTED, pods=pods)
    said = step(WISH, seen)
    assert isinstance(said, Prepared)
    assert (said.state, said.reason, said.permit) == (
        DisruptionState.DRAINING,
        DisruptionHold.PDB_BLOCKED,
        "p-1",
    )
    assert "shop/db-0" in said.message and "PDB shop/db" in said.message
    said = step(WISH, replace(seen, now=LATER))
    assert isinstance(said, Prepared)
    assert (said.state, said.reason) == (DisruptionState.FAILED, DisruptionHold.DRAIN_TIMEOUT)
    assert "30m" in said.message and "PDB shop/db" in said.message
    assert said.permit == "p-1"  # whoever goes on all the same goes on under it


def test_what_is_told_of_a_drain_changes_only_with_what_it_waits_for() -> None:
    seen = DisruptionObservation(
        T0, MARKED, owned=True, verdict=GRANTED, pods=LEAVING, evicted=True
    )
    more = replace(LEAVING, remaining=7, every=tuple("abcdefg"))
    first, second = step(WISH, seen), step(WISH, replace(seen, pods=more))
    assert isinstance(first, Prepared) and isinstance(second, Prepared)
    assert first.message == second.message == "pods are leaving"


@pytest.mark.parametrize("begun", [False, True])
def test_a_persons_uncordon_cancels(begun: bool) -> None:
    seen = DisruptionObservation(
        T0, CordonState(False, MARKED.annotations), owned=True, verdict=GRANTED, pods=EMPTY
    )
    said = step(replace(WISH, begun=begun), seen)
    assert isinstance(said, Prepared)
    assert (said.state, said.reason) == (DisruptionState.FAILED, DisruptionHold.PERSON_UNCORDONED)
    frozen = step(replace(WISH, begun=begun), replace(seen, frozen="restored from a backup"))
    assert isinstance(frozen, Prepared)
    assert (frozen.state, frozen.reason) == (DisruptionState.WAITING, DisruptionHold.MELTDOWN)
