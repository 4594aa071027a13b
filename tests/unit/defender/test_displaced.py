"""Pods that we displaced: who they belong to, how many wait, and when that stops new acts."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from support.clock import T0, FakeClock
from support.defender_core import Core, a_policy, an_ask
from support.defender_world import World
from support.defender_world import an_ask as an_ask_of_world
from support.remedy_hand import NOWHERE

from defender.server.displacement import (
    MIRROR,
    UNRECORDED,
    Displacing,
    Lost,
    Recording,
    controllers,
    displaced,
    lost,
)
from kubenode.api.v1alpha1 import Disruption, Reason
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.objects import KubeObjectMeta, KubeOwnerReference, Pod, PodStatus


class PodsOf(Kube):
    """Answers a list of pods by the node that is asked for, as bytes; takes every patch."""

    def __init__(self, bodies: dict[str, bytes]) -> None:
        super().__init__(NOWHERE, clock=FakeClock())
        self._bodies = bodies

    async def call(self, method: str, path: str, query: Any = None, *rest: Any, **more: Any) -> Any:
        if method != "GET":
            return None
        try:
            return more["decode"](self._bodies[query["fieldSelector"].partition("=")[2]])
        except ValueError as error:
            raise KubeError(200, "", f"cannot be decoded: {error}") from error


LONG_AGO = T0 - timedelta(minutes=5)


def a_pod(
    owner: str = "", kind: str = "ReplicaSet", phase: str = "Running", born: datetime = LONG_AGO
) -> Pod:
    owners = [KubeOwnerReference("apps/v1", kind, owner, owner, controller=True)] if owner else []
    meta = KubeObjectMeta(name="p", creation_timestamp=born, owner_references=owners)
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
    assert displaced([*pending, leaving], Lost({"a": 3, "b": 2}), T0) == 3
    assert displaced([], Lost({"a": 3}), T0) == 0


def test_what_permits_displaced_is_remembered_for_a_while_after_their_release() -> None:
    core = a_core()
    held = core.ledger.get(core.ask(an_ask("n0")).permit)
    assert held is not None
    held.displaced = {"a": 2}
    core.release(held.name)
    assert lost(core.ledger, core.now + timedelta(minutes=29)) == Lost({"a": 2})
    assert lost(core.ledger, core.now + timedelta(minutes=31)) == Lost({})


def test_of_a_permit_whose_pods_nobody_could_see_the_worst_case_counts() -> None:
    core = a_core()
    core.ask(an_ask("n0", Disruption.HOST))
    core.ask(an_ask("n1", Disruption.PODS))
    assert lost(core.ledger, core.now + UNRECORDED) == Lost({})
    later = core.now + UNRECORDED + timedelta(seconds=1)
    doubt = lost(core.ledger, later)
    assert doubt == Lost({}, since=core.now)
    since = [a_pod("a", phase="Pending", born=core.now) for _ in range(3)]
    before = [a_pod("b", phase="Pending") for _ in range(9)]
    daemons = [a_pod("d", "DaemonSet", phase="Pending", born=core.now)]
    assert displaced([*since, *before, *daemons], doubt, later) == 3


def test_a_pod_that_is_known_and_in_doubt_counts_once() -> None:
    pods = [a_pod("a", phase="Pending", born=T0 - timedelta(minutes=1)) for _ in range(4)]
    assert displaced(pods, Lost({"a": 2}, since=T0 - timedelta(minutes=2)), T0) == 4
    assert displaced(pods, Lost({"a": 9}, since=T0), T0) == 4


async def test_other_nodes_are_granted_while_the_pods_of_one_cannot_be_recorded() -> None:
    world = World(10)
    defender = await world.start()
    assert (await defender.ask(an_ask_of_world("n0"))).allowed
    world.step(minutes=2)
    pending: Any = defender.displacement.pending
    pending.current()
    defender.displacement.count()
    assert (await defender.ask(an_ask_of_world("n1"))).allowed


async def test_a_permit_whose_pods_never_decode_keeps_none_behind_it_from_being_recorded() -> None:
    world = World(10)
    defender = await world.start()
    for node in ("n0", "n1"):
        assert (await defender.ask(an_ask_of_world(node))).allowed
    pods = PodsOf({"n0": b'{"items": 3}', "n1": b'{"items": [{"metadata": {"labels": null}}]}'})
    recording = Recording(pods, world.clock, AlwaysLeader(), defender.control)
    await recording.round()
    recorded = {held.node: held.displaced for held in defender.ledger.open()}
    assert recorded == {"n0": None, "n1": {}}


async def test_what_cannot_be_seen_is_not_known() -> None:
    core, clock = a_core(), FakeClock()
    kube = Kube(NOWHERE, clock=clock)
    displacing = Displacing(kube, clock, core.control)
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
