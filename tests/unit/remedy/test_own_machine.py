"""Replace through our own Machine: when it applies, what is written, and how far it is."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0, FakeClock
from support.defender_world import MemoryApi

from kubenode.api import meta
from kubenode.api.machinenames import name_of
from kubenode.runtime.kube.errors import BadRequest
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeCondition, NodeStatus
from remedy.machines import MACHINES
from remedy.power.machines import OwnMachine
from remedy.power.methods import RECENT_SECONDS, ReplacementRequest, ReplacementTarget
from remedy.power.observation import ReplacementObservation, RequestOutcome

NODE = Node(KubeObjectMeta(name="n1", uid="node-uid"))
SET = meta.ObjectMeta(name="web", uid="s")
ASKED = ReplacementRequest(
    "n1", "node-uid", "m1/uid-m1/7", "MachineSet web", T0, "job-uid.r0s0a1",
    operation="rj-12.r0s0a1", permit="p-81",
)  # fmt: skip


class Nodes:
    """Of an informer what is read."""

    def __init__(self, *ready: str) -> None:
        up = NodeStatus([NodeCondition("Ready", "True")])
        self.cache = {name: Node(KubeObjectMeta(name=name), status=up) for name in ready}

    def get(self, name: str) -> Node | None:
        return self.cache.get(name)


class World:
    def __init__(self, *ready: str) -> None:
        self.api = MemoryApi(FakeClock())
        self.api.readable.add(MACHINES)
        self.way = OwnMachine(self.api, Nodes(*ready))

    def machine(self, name: str, node: str = "n1", *, age: int = 600, **change: Any) -> None:
        """`age` in minutes before T0."""
        owner = {"kind": "MachineSet", "name": SET.name, "uid": SET.uid, "controller": True}
        owner |= {"apiVersion": "kubenode.io/v1alpha1"}
        spec = {"origin": "Provision", "classRef": "small", "providerID": f"local:///{name}"}
        spec |= {"nodeName": node, "mode": "Manage"}
        uid = change.pop("node_uid", f"uid-of-{node}" if node != "n1" else "node-uid")
        owners = change.pop("owners", [owner])
        metadata = {
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": (T0 - timedelta(minutes=age)).isoformat(),
            "ownerReferences": owners,
        }
        status = {"nodeRef": {"name": node, "uid": uid}, **change.pop("status", {})}
        made = {"apiVersion": "kubenode.io/v1alpha1", "kind": "Machine", "metadata": metadata}
        self.api.put(MACHINES, {**made, "spec": spec | change, "status": status})

    async def far(self, asked: ReplacementRequest) -> ReplacementObservation:
        """A look at the replacement, so long after the last one that Machines are read anew."""
        self.api.clock.step(timedelta(seconds=RECENT_SECONDS))  # type: ignore[attr-defined]
        return await self.way.far(asked)

    def operation(self, name: str = "m1") -> Any:
        return self.api.objects[MACHINES][name]["spec"].get("operation")


@pytest.mark.parametrize("name", ["m1", "n1"])
async def test_it_applies_to_a_machine_that_a_set_would_make_again(name: str) -> None:
    world = World()
    world.machine(name_of(SET, 7), "n2")
    world.machine(name)
    assert await world.way.find(NODE) == ReplacementTarget(f"{name}/uid-{name}/7", "MachineSet web")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"origin": "Import", "classRef": "", "addresses": ["10.0.0.1"]}, "not made by a provider"),
        ({"providerID": ""}, "not made by a provider"),
        ({"mode": "Observe"}, "mode Observe"),
        ({"owners": []}, "no MachineSet"),
        ({"node_uid": "an-older-node"}, "no Machine"),
        ({"node": "n2"}, "no Machine"),
    ],
)
async def test_else_it_says_why_it_does_not(change: dict[str, Any], says: str) -> None:
    world = World()
    world.machine("m1", **change)
    said = await world.way.find(NODE)
    assert isinstance(said, str) and says in said


async def test_where_machines_are_not_installed_another_way_is_taken() -> None:
    world = World()
    world.api.readable.clear()
    assert isinstance(await world.way.find(NODE), str)


async def test_asking_writes_the_operation_under_the_jobs_permit_once() -> None:
    world = World()
    world.machine("m1")
    for _ in range(2):
        assert (await world.way.ask(ASKED)).outcome is RequestOutcome.TAKEN
    wanted = {"id": "rj-12.r0s0a1", "type": "Replace", "permit": "p-81"}
    assert world.operation() == wanted


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        ({}, RequestOutcome.LATER),
        (
            {"lastOperation": {"id": "rj-9", "type": "Replace", "state": "Running"}},
            RequestOutcome.LATER,
        ),
        (
            {"lastOperation": {"id": "rj-9", "type": "Replace", "state": "Failed"}},
            RequestOutcome.TAKEN,
        ),
    ],
)
async def test_another_jobs_operation_is_let_end(
    last: dict[str, Any], outcome: RequestOutcome
) -> None:
    world = World()
    other = {"id": "rj-9", "type": "Replace", "permit": "p-1"}
    world.machine("m1", operation=other, status=last)
    assert (await world.way.ask(ASKED)).outcome is outcome
    assert (world.operation()["id"] == "rj-9") is (outcome is RequestOutcome.LATER)


@pytest.mark.parametrize("there", [False, True])
async def test_a_machine_that_is_gone_needs_no_asking(there: bool) -> None:
    world = World()
    if there:
        world.machine("m1")
        world.api.objects[MACHINES]["m1"]["metadata"]["uid"] = "made-anew"
    assert (await world.way.ask(ASKED)).outcome is RequestOutcome.TAKEN
    assert not there or world.operation() is None


async def test_it_is_over_when_the_old_is_gone_and_a_new_one_of_the_set_has_a_ready_node() -> None:
    world = World("n9")
    world.machine("m1")
    world.machine(name_of(SET, 6), "n2")
    assert not (await world.far(ASKED)).gone
    world.api.remove(MACHINES, "m1")
    far = await world.far(ASKED)
    assert (far.gone, far.new) == (True, "") and "no new Machine" in far.why
    world.machine(name_of(SET, 8), "n8")
    assert (await world.far(ASKED)).why == "the new node is not Ready"
    world.machine(name_of(SET, 9), "n9")
    assert (await world.far(ASKED)).new == "n9"


async def test_machines_are_not_listed_while_the_old_one_is_there() -> None:
    world = World()
    for n in range(1200):
        world.machine(name_of(SET, n + 1), f"other{n}")
    world.machine("m1")
    for _ in range(5):
        await world.far(ASKED)
    assert MACHINES not in world.api.lists


@pytest.mark.exhaustive
async def test_jobs_that_wait_for_new_machines_share_one_list_in_pages() -> None:
    world = World()
    for n in range(1200):
        world.machine(name_of(SET, n + 1), f"other{n}")
    for _ in range(20):
        await world.way.far(ASKED)
    assert world.api.lists[MACHINES] == [500, 500, 500]
    await world.far(ASKED)
    assert len(world.api.lists[MACHINES]) == 6


async def test_one_made_just_before_is_not_the_new_one() -> None:
    """Its Node may be Ready long before that of the one that takes the old one's place."""
    world = World("n7")
    world.machine(name_of(SET, 7), "n7", age=0)
    assert (await world.far(ASKED)).new == ""
    world.machine(name_of(SET, 8), "n8", age=0)
    assert (await world.far(ASKED)).new == ""


async def test_a_job_whose_version_wrote_no_number_down_goes_by_the_time() -> None:
    world = World("n2", "n9")
    older = replace(ASKED, target="m1/uid-m1")
    world.machine(name_of(SET, 6), "n2")
    assert (await world.far(older)).new == ""
    world.machine(name_of(SET, 8), "n9", age=-1)
    assert (await world.far(older)).new == "n9"


async def test_a_machine_that_cannot_be_replaced_says_its_code() -> None:
    world = World()
    last = {"id": ASKED.operation, "type": "Replace", "state": "Failed"}
    world.machine("m1", status={"lastOperation": last | {"code": "FAILED_PRECONDITION"}})
    far = await world.far(ASKED)
    assert far.outcome is RequestOutcome.REFUSED and "FAILED_PRECONDITION" in far.why


async def test_an_old_server_that_cannot_search_is_asked_by_the_nodes_name() -> None:
    class Old(MemoryApi):
        async def get(self, path: str, decode: Any = None, query: Any = None) -> Any:
            if query is not None and "fieldSelector" in query:
                raise BadRequest(400, "BadRequest", "field label not supported")
            return await super().get(path, decode, query)

    world = World()
    world.machine("n1")
    old = Old(FakeClock())
    old.objects, old.readable = world.api.objects, {MACHINES}
    found = await OwnMachine(old, Nodes()).find(NODE)
    assert isinstance(found, ReplacementTarget)
