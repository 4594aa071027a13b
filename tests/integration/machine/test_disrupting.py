"""Disruptions of nodes: a real API server, a real Kube Defender, each under its own rights."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.control_plane import ControlPlane
from support.defender_world import a_policy
from support.defending import defending
from support.machine_world import running, until
from support.remedy_cluster import Cluster, connected

from defender.service import Defender
from kubenode.api.cordon import CORDONED_BY, mark_of
from kubenode.api.v1alpha1 import Ask, DefenderPolicy, Disruption
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, PerNode, Rate
from kubenode.api.v1alpha1.machinework import ChangeClass
from kubenode.api.v1alpha1.permit import Holder, Operation
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, NotFound
from kubenode.runtime.kube.paths import custom
from machine.disruption.disruptions import NodeDisruptions
from machine.disruption.port import DisruptionHold, DisruptionRequest, DisruptionState, Prepared

pytestmark = [pytest.mark.integration, pytest.mark.timeout(420)]

PERMITS = custom("permits")
SETS = custom("machinecomponentsets")
NODES = [f"dis-{i}" for i in range(6)]
AT_ONCE = 2
TURN = 180.0
"""Seconds until the last of a crowd has had its turn, on a busy machine."""
SPACE = "shop"


@pytest.fixture(scope="module")
def plane(cluster: ControlPlane) -> Iterator[ControlPlane]:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(space))
    yield cluster
    cluster.kubectl("delete", "namespace", SPACE, "--wait=false")


@dataclass
class World:
    cluster: Cluster
    defender: Defender
    disruptions: NodeDisruptions
    _sets: list[str] = field(default_factory=list)

    @property
    def kube(self) -> Kube:
        return self.cluster.kube

    async def a_set(self, name: str) -> Holder:
        """A MachineComponentSet that selects no machine."""
        self._sets.append(name)
        spec = {"selector": {"matchLabels": {"none": "of-them"}}, "component": "absent-1"}
        body = {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "MachineComponentSet",
            "metadata": {"name": name},
            "spec": spec,
        }
        made = await self.kube.create(SETS, body)
        return Holder(kind="MachineComponentSet", name=name, uid=made["metadata"]["uid"])

    async def node(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = await self.kube.get(paths.node(name))
        return found

    async def cordoned(self, name: str) -> tuple[bool, str]:
        node = await self.node(name)
        note = node["metadata"].get("annotations", {}).get(CORDONED_BY, "")
        return bool(node["spec"].get("unschedulable")), note

    async def pod(self, name: str, node: str, **labels: str) -> None:
        """A pod that somebody owns; without a kubelet it goes as soon as it is evicted."""
        note = {"metadata": {"name": f"of-{name}"}}
        owner = await self.kube.create(f"/api/v1/namespaces/{SPACE}/configmaps", note)
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": f"of-{name}",
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        spec = {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "none"}],
        }
        meta = {"name": name, "labels": labels, "ownerReferences": [reference]}
        await self.kube.create(paths.pods(SPACE), {"metadata": meta, "spec": spec})
        ready = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "conditions": [ready]}
        await self.kube.patch(paths.pod(SPACE, name, "status"), {"status": status})

    async def pods(self, node: str) -> list[str]:
        query = {"fieldSelector": f"spec.nodeName={node}"}
        found = await self.kube.get(paths.pods(SPACE), query=query)
        return [pod["metadata"]["name"] for pod in found["items"]]

    async def open_permits(self) -> list[str]:
        found = (await self.kube.get(PERMITS))["items"]
        return [p["metadata"]["name"] for p in found if p["status"].get("state") != "Released"]

    async def ready(self, wish: DisruptionRequest) -> Prepared:
        async def look() -> Prepared | None:
            with suppress(Conflict):
                prepared = await self.disruptions.prepare(wish)
                return prepared if prepared.state is DisruptionState.READY else None
            return None  # somebody wrote to the node: a controller looks again, too

        return await until(look, f"{wish.holder.name} does not get {wish.node}", TURN)

    async def ended(self, node: str, holder: Holder) -> None:
        async def look() -> bool:
            with suppress(Conflict):
                return await self.disruptions.end(node, holder)
            return False

        await until(look, f"{holder.name} does not end on {node}")

    async def clean(self) -> None:
        for name in self._sets:
            await _gone(self.kube, f"{SETS}/{name}")
        for found in (await self.kube.get(PERMITS))["items"]:
            await _gone(self.kube, f"{PERMITS}/{found['metadata']['name']}")
        for name in NODES:
            await _gone(self.kube, paths.node(name))


async def _gone(kube: Kube, path: str) -> None:
    try:
        await kube.delete(path)
    except NotFound:
        return


@pytest.fixture
async def world(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[World]:
    async with (
        connected(plane) as cluster,
        defending(plane, cluster, a_policy_of_two(), NODES) as defender,
        running(plane, permits=defender) as operator,
    ):
        found = World(cluster, defender, operator.disruptions)
        try:
            await until(lambda: _is(operator.ready()), "the operator's caches are current")
            yield found
        finally:
            await found.clean()


def a_policy_of_two() -> DefenderPolicy:
    rate = Rate(count=1000, per=timedelta(hours=1), burst=500)
    classes = [Disruption.HOST, Disruption.PODS, Disruption.NODE]
    limit = Limit(scope=LimitScope.CLUSTER, max_concurrent=AT_ONCE, classes=classes, rate=rate)
    return a_policy(limit, per_node=PerNode(max_acts=1000))


async def _is(value: bool) -> bool:
    return value


def rollout(
    node: str, holder: Holder, class_: ChangeClass = ChangeClass.DRAIN
) -> DisruptionRequest:
    return DisruptionRequest(node, holder, Operation.ROLLOUT, class_)


async def test_a_budget_is_honoured_and_named_with_the_pod_and_the_node_given_back(
    world: World,
) -> None:
    holder = await world.a_set("budgeted")
    await world.pod("web", "dis-0")
    await world.pod("db", "dis-0", app="db")
    budgets = paths.pod_disruption_budgets(SPACE)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}
    await world.kube.create(budgets, {"metadata": {"name": "keep"}, "spec": spec})

    async def held() -> Prepared | None:
        prepared = await world.disruptions.prepare(rollout("dis-0", holder))
        return prepared if prepared.reason == DisruptionHold.PDB_BLOCKED else None

    blocked = await until(held, "no budget holds the drain")
    assert blocked.state is DisruptionState.DRAINING and blocked.permit
    assert f"{SPACE}/db" in blocked.message and f"PDB {SPACE}/keep" in blocked.message
    assert await world.pods("dis-0") == ["db"]
    assert await world.cordoned("dis-0") == (True, mark_of(holder))
    await world.kube.delete(f"{budgets}/keep")
    await world.ready(rollout("dis-0", holder))
    assert await world.pods("dis-0") == []
    await world.ended("dis-0", holder)
    assert await world.cordoned("dis-0") == (False, "")
    assert await world.open_permits() == []


async def test_f19_a_persons_cordon_stays_and_a_persons_uncordon_cancels(world: World) -> None:
    holder = await world.a_set("passing")
    await world.kube.patch(paths.node("dis-1"), {"spec": {"unschedulable": True}})
    await world.ready(rollout("dis-1", holder))
    await world.ended("dis-1", holder)
    assert await world.cordoned("dis-1") == (True, "")
    await world.ready(rollout("dis-2", holder))
    await world.kube.patch(paths.node("dis-2"), {"spec": {"unschedulable": None}})

    async def cancelled() -> bool:
        prepared = await world.disruptions.prepare(rollout("dis-2", holder))
        return prepared.reason == DisruptionHold.PERSON_UNCORDONED

    await until(cancelled, "the uncordon is not seen")
    await world.ended("dis-2", holder)
    assert await world.cordoned("dis-2") == (False, "")


async def test_f34_the_cordon_and_f33_the_slot_of_a_set_that_is_deleted_are_freed(
    world: World,
) -> None:
    holder = await world.a_set("short-lived")
    await world.ready(rollout("dis-3", holder))
    assert await world.cordoned("dis-3") == (True, mark_of(holder))
    await world.kube.delete(f"{SETS}/short-lived")

    async def freed() -> bool:
        return await world.cordoned("dis-3") == (False, "") and not await world.open_permits()

    await until(freed, "what a deleted set held is not free")


async def test_f12_kube_defender_frees_a_ghosts_slot_by_itself(world: World) -> None:
    """Nobody looks after this permit: its set is gone before anybody cordons for it."""
    ghost, lives = await world.a_set("ghost"), await world.a_set("lives")
    for node, holder in (("dis-4", ghost), ("dis-5", lives)):
        ask = Ask(operation=Operation.ROLLOUT, class_=Disruption.HOST, node=node, holder=holder)
        assert (await world.defender.ask(ask)).allowed
    await world.kube.delete(f"{SETS}/ghost")
    world.defender.keeper._clock = _Ahead()

    async def one() -> bool:
        held = [*world.defender.ledger.open()]  # hears of what is on record a moment later
        return len(held) == len(await world.open_permits()) == 1

    await until(one, "the ghost's slot is not free")
    (left,) = world.defender.ledger.open()
    assert left.holder.uid == lives.uid


class _Ahead(SystemClock):
    """Later than two looks of the keeper at a holder."""

    def now(self) -> Any:
        return super().now() + timedelta(minutes=5)


async def test_invariant_05_any_mix_of_repairs_and_sets_has_one_holder_per_node(
    world: World,
) -> None:
    """Six rollouts and four repairs want every node: never two on one, never more than the budget,
    and at the end nothing is left behind.
    """
    chance = random.Random(5)
    holders = [await world.a_set(f"mixed-{i}") for i in range(6)]
    inside: dict[str, str] = {}
    crowded = asyncio.Event()
    done: list[str] = []

    async def stay(node: str, who: str) -> None:
        assert node not in inside, f"{who} and {inside[node]} are on {node}"
        inside[node] = who
        assert len(inside) <= AT_ONCE
        if len(inside) == AT_ONCE:
            crowded.set()
        await crowded.wait()  # the first ones do not leave before the budget was full once
        await asyncio.sleep(chance.uniform(0, 0.02))
        assert inside.pop(node) == who
        done.append(who)

    async def rolls(holder: Holder) -> None:
        class_ = chance.choice([ChangeClass.RESTART, ChangeClass.DRAIN, ChangeClass.REBOOT])
        for node in chance.sample(NODES, 2):
            prepared = await world.ready(rollout(node, holder, class_))
            assert prepared.permit in {held.name for held in world.defender.ledger.open()}
            if class_ is not ChangeClass.RESTART:
                assert (await world.cordoned(node))[0]
            await stay(node, holder.name)
            await world.ended(node, holder)

    async def repairs(number: int) -> None:
        holder = Holder(kind="Test", name=f"repair-{number}", uid=f"repair-{number}")
        for node in chance.sample(NODES, 2):
            ask = Ask(operation=Operation.REPAIR, class_=Disruption.NODE, node=node, holder=holder)

            async def granted(ask: Ask = ask) -> str:
                return (await world.defender.ask(ask)).permit

            permit = await until(granted, f"{holder.name} does not get {node}", TURN)
            await stay(node, holder.name)
            await world.defender.release(permit)

    async with asyncio.TaskGroup() as tasks:
        for holder in holders:
            tasks.create_task(rolls(holder))
        for number in range(4):
            tasks.create_task(repairs(number))
    assert len(done) == 20
    assert await world.open_permits() == []
    for name in NODES:
        assert await world.cordoned(name) == (False, "")
