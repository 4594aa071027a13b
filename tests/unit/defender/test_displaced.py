"""Pods that we displaced: who they belong to, how many wait, and when that stops new acts."""

from datetime import datetime, timedelta

import pytest
from support.clock import T0, FakeClock
from support.defender_core import Core, a_policy, an_ask
from support.fake_kube import FakeKube

from defender.displacing import MIRROR, UNRECORDED, Displacing, controllers, displaced, lost
from kubenode.api.v1alpha1 import Disruption, Reason
from kubenode.runtime.kube.objects import ObjectMeta, OwnerReference, Pod, PodStatus

LONG_AGO = T0 - timedelta(minutes=5)


def a_pod(
    owner: str = "", kind: str = "ReplicaSet", phase: str = "Running", born: datetime = LONG_AGO
) -> Pod:
    owners = [OwnerReference("apps/v1", kind, owner, owner, controller=True)] if owner else []
    meta = ObjectMeta(name="p", creation_timestamp=born, owner_references=owners)
    return Pod(meta, status=PodStatus(phase=phase))


def a_core(most: int = 2) -> Core:
    core = Core(
        a_policy(
            limits=[{"scope": "Cluster", "maxConcurrent": 5}],
            workload={"maxDisplacedPending": most},
        )
    )
    core.fleet(20)
    return core


def test_controllers_of_a_node_are_those_whose_pods_move() -> None:
    mirror = a_pod("static", "Node")
    mirror.metadata.annotations = {MIRROR: "x"}
    pods = [a_pod("a"), a_pod("a"), a_pod("b", "StatefulSet"), a_pod("d", "DaemonSet")]
    pods += [mirror, a_pod(), a_pod("over", "Job", phase="Succeeded")]
    assert controllers(pods) == {"a": 2, "b": 1}


def test_no_more_controllers_are_recorded_than_a_permit_has_room_for() -> None:
    pods = [a_pod(f"c{number}") for number in range(300)] + [a_pod("big"), a_pod("big")]
    found = controllers(pods)
    assert len(found) == 256 and found["big"] == 2


def test_pending_pods_count_up_to_what_their_controller_lost() -> None:
    pending = [a_pod("a", phase="Pending") for _ in range(5)]
    pending += [a_pod("other", phase="Pending"), a_pod("b", phase="Pending", born=T0)]
    leaving = a_pod("b", phase="Pending")
    leaving.metadata.deletion_timestamp = T0
    assert displaced([*pending, leaving], {"a": 3, "b": 2}, T0) == 3
    assert displaced([], {"a": 3}, T0) == 0


def test_what_permits_displaced_is_remembered_for_a_while_after_their_release() -> None:
    core = a_core()
    held = core.ledger.get(core.ask(an_ask("n0")).permit)
    assert held is not None
    held.displaced = {"a": 2}
    core.release(held.name)
    assert lost(core.ledger, core.now + timedelta(minutes=29)) == {"a": 2}
    assert lost(core.ledger, core.now + timedelta(minutes=31)) == {}


def test_a_permit_whose_pods_nobody_could_see_makes_the_number_unknown() -> None:
    core = a_core()
    core.ask(an_ask("n0", Disruption.HOST))
    core.ask(an_ask("n1", Disruption.PODS))
    assert lost(core.ledger, core.now + UNRECORDED) == {}
    assert lost(core.ledger, core.now + UNRECORDED + timedelta(seconds=1)) is None


async def test_what_cannot_be_seen_is_not_known() -> None:
    core, world = a_core(), FakeKube()
    displacing = Displacing(world, FakeClock(), core.control)  # type: ignore[arg-type]
    displacing.count()  # its informer never listed anything
    assert core.control.displaced is None


@pytest.mark.parametrize(
    ("pending", "class_", "reason"),
    [
        (2, Disruption.NODE, Reason.GRANTED),
        (3, Disruption.NODE, Reason.DISPLACED_PODS),
        (3, Disruption.PODS, Reason.DISPLACED_PODS),
        (3, Disruption.HOST, Reason.GRANTED),
        (None, Disruption.NODE, Reason.STALE_DATA),
        (None, Disruption.HOST, Reason.GRANTED),
    ],
)
def test_more_than_the_limit_or_an_unknown_number_stops_what_displaces_more(
    pending: int | None, class_: Disruption, reason: Reason
) -> None:
    core = a_core()
    core.control.displaced = pending
    verdict = core.judge(an_ask("n0", class_))
    assert verdict.reason is reason
    if reason is Reason.DISPLACED_PODS:
        assert (verdict.used, verdict.limit) == (pending, 2)
