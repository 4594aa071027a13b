"""Two replacements never count the same new node, however the looks of their jobs interleave."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0, FakeClock
from support.disruption_guard import GuardLevers
from support.remedy_builders import SCHEDULABLE, a_job, a_record, by_kubelet

from kubenode.providers.port import Can, Power, PowerState
from kubenode.runtime.kube.errors import Conflict, NotFound
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeCondition, NodeSpec, NodeStatus
from remedy.job.model import Job
from remedy.power.claims import REPLACES, ReplacementClaims
from remedy.power.instancegroup import InstanceGroup
from remedy.power.methods import MOST_UIDS, ReplacementRequest, ReplacementTarget, newest_of
from remedy.power.observation import ReplacementObservation
from remedy.power.replacer import Replacing

POOL = {"kubenode.io/pool": "online"}


class Server:
    """Nodes with compare-and-swap; each read waits until all readers have read."""

    def __init__(self, *names: str, together: int = 1) -> None:
        self.nodes = {name: _meta(name) for name in names}
        self.barrier = asyncio.Barrier(together) if together > 1 else None
        self.conflicts = 0

    async def get(self, path: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if name not in self.nodes:
            raise NotFound(404)
        meta = dict(self.nodes[name])
        if self.barrier is not None:
            await self.barrier.wait()
        return {"metadata": meta}

    async def patch(self, path: str, body: Any) -> dict[str, Any]:
        meta = self.nodes[path.rpartition("/")[2]]
        if body["metadata"]["resourceVersion"] != meta["resourceVersion"]:
            self.conflicts += 1
            raise Conflict(409)
        meta["annotations"] = body["metadata"]["annotations"]
        meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)
        return {"metadata": meta}


def _meta(name: str) -> dict[str, Any]:
    return {"name": name, "uid": f"u-{name}", "resourceVersion": "1"}


async def test_of_two_that_claim_the_same_node_at_once_one_gets_it() -> None:
    server = Server("new-1", together=2)
    claims = ReplacementClaims(server)
    got = await asyncio.gather(claims.claim(["new-1"], "a.r0"), claims.claim(["new-1"], "b.r0"))
    assert sorted(got) == ["", "new-1"] and server.conflicts == 1


async def test_a_claim_is_found_again_and_no_second_node_is_claimed() -> None:
    server = Server("new-1", "new-2")
    claims = ReplacementClaims(server)
    assert await claims.claim(["new-2"], "a.r0") == "new-2"
    assert await claims.claim(["new-1", "new-2"], "a.r0") == "new-2"
    assert await claims.claim(["new-1", "new-2"], "b.r0") == "new-1"
    assert await claims.claim(["new-1", "new-2", "gone"], "c.r0") == ""


class Provider:
    name, can = "fake", Can(off=True, reset=True, replace=True)

    async def power(self, machine: object) -> Power:
        return Power(PowerState.GONE, "terminated", T0)


class Providers:
    def of(self, machine: object) -> Provider:
        return Provider()


class Nodes:
    def __init__(self, *nodes: Node) -> None:
        self.cache = {node.metadata.name: node for node in nodes}

    def get(self, name: str) -> Node | None:
        return self.cache.get(name)


def a_node(name: str, seconds: float = 60, claimed: str = "") -> Node:
    meta = KubeObjectMeta(
        name=name,
        uid=f"u-{name}",
        creation_timestamp=T0 + timedelta(seconds=seconds),
        labels=POOL,
        annotations={REPLACES: claimed} if claimed else {},
    )
    ready = NodeStatus([NodeCondition("Ready", "True")])
    return Node(meta, NodeSpec(provider_id=f"fake:///{name}"), ready)


def replacing(server: Server, *nodes: Node) -> Replacing:
    levers = GuardLevers(FakeClock())
    return Replacing(
        server,  # type: ignore[arg-type]
        Nodes(*nodes),
        Providers(),  # type: ignore[arg-type]
        by_kubelet,
        levers.guard,
        levers,  # type: ignore[arg-type]
    )


def a_replacement(name: str) -> Job:
    output = {"path": "InstanceGroup", "target": f"fake:///{name}", "newest": T0.isoformat()}
    output["group"] = "kubenode.io/pool=online"
    record = a_record(
        0,
        "replace",
        by="Provider",
        requestID="r0s0a1",
        askedAt=T0.isoformat(),
        bootID="boot-1",
        output={**output, "asked": "replace"},
    )
    rung = {"name": "replace", "steps": [{"replace": {}}], "verify": {"for": "1m", "timeout": "5m"}}
    status = {"phase": "Running", "rung": 0, "step": 0, "steps": [record]}
    return a_job(rung, name=f"job-{name}", nodeName=name, nodeUID=f"u-{name}", status=status)


@pytest.mark.parametrize("others", [(), ("scaled-up",)])
async def test_two_concurrent_replacements_count_two_new_nodes(others: tuple[str, ...]) -> None:
    """A scale-up is counted for a replacement at most once, too."""
    jobs = [a_replacement(name) for name in ("a", "b")]
    counted: list[str] = []
    server = Server()
    for there in (("new-1", *others), ("new-1", "new-2", *others)):
        for name in there:
            server.nodes.setdefault(name, _meta(name))
        ways = replacing(server, *(a_node(name) for name in there))
        seen: list[ReplacementObservation] = list(
            await asyncio.gather(*(ways.observe(job, None) for job in jobs))
        )
        counted = [one.new for one in seen if one.new]
        assert len(counted) == len(set(counted)) == min(len(there), 2)
        assert all(one.gone for one in seen)
    holders = [meta.get("annotations", {}).get(REPLACES) for meta in server.nodes.values()]
    assert sorted(one for one in holders if one) == [
        "uid-of-job-a.r0s0a1",
        "uid-of-job-b.r0s0a1",
    ]


async def test_nothing_is_claimed_before_the_old_node_is_gone() -> None:
    server = Server("new-1")
    seen = await replacing(server, a_node("new-1")).observe(a_replacement("a"), SCHEDULABLE)
    assert seen.new == "" and "annotations" not in server.nodes["new-1"]


async def test_a_sibling_that_was_made_just_before_the_request_is_no_replacement() -> None:
    old, sibling = a_node("a", -600), a_node("sibling", -5)
    group = InstanceGroup(Providers(), Nodes(old, sibling), by_kubelet)  # type: ignore[arg-type]
    found = await group.find(old)
    assert isinstance(found, ReplacementTarget) and found.newest
    asked = ReplacementRequest(
        "a", "u-a", found.target, found.group, T0, "a.r0", newest=found.newest
    )
    assert (await group.far(asked)).candidates == ()
    nodes = Nodes(sibling, a_node("new-1", 1))
    later = InstanceGroup(Providers(), nodes, by_kubelet)  # type: ignore[arg-type]
    assert (await later.far(asked)).candidates == ("new-1",)


async def test_a_replacement_of_the_same_second_as_a_sibling_is_told_by_its_uid() -> None:
    old, sibling, new = a_node("a", -600), a_node("sibling", -5), a_node("new-1", -5)
    group = InstanceGroup(Providers(), Nodes(old, sibling), by_kubelet)  # type: ignore[arg-type]
    found = await group.find(old)
    assert isinstance(found, ReplacementTarget)
    later = InstanceGroup(Providers(), Nodes(sibling, new), by_kubelet)  # type: ignore[arg-type]
    asked = ReplacementRequest(
        "a", "u-a", found.target, found.group, T0, "a.r0", newest=found.newest
    )
    assert (await later.far(asked)).candidates == ("new-1",)
    of_earlier_version = replace(asked, newest=found.newest.partition(" ")[0])
    assert (await later.far(of_earlier_version)).candidates == ()


@pytest.mark.parametrize(("members", "new"), [(MOST_UIDS, True), (MOST_UIDS + 1, False)])
def test_a_scale_up_of_many_in_one_second_is_told_by_its_time_alone(
    members: int, new: bool
) -> None:
    newest = newest_of((T0, f"u{number}") for number in range(members))
    asked = ReplacementRequest("a", "u-a", "t", "g", T0, "a.r0", newest=newest)
    assert asked.is_new(T0, "another") is new
    assert not asked.is_new(T0, "u1")
    assert asked.is_new(T0 + timedelta(seconds=1), "another")


async def test_a_node_that_another_request_has_claimed_is_no_candidate() -> None:
    nodes = Nodes(a_node("new-1", claimed="b.r0"), a_node("new-2", claimed="a.r0"))
    group = InstanceGroup(Providers(), nodes, by_kubelet)  # type: ignore[arg-type]
    asked = ReplacementRequest("a", "u-a", "fake:///a", "kubenode.io/pool=online", T0, "a.r0")
    assert (await group.far(asked)).candidates == ("new-2",)
