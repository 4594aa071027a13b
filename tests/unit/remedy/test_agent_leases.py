"""Leases of agents go with their Node, and those that were left behind are removed."""

from datetime import timedelta
from typing import Any

from support.clock import FakeClock
from support.remedy_hand import NOWHERE, HandFed

from kubenode.runtime.audit import AuditLine
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, NotFound
from kubenode.runtime.kube.objects import Node, structs
from remedy.assignments.leases import OWNED_AT_ONCE, REMOVE_AFTER, REQUEUE_AFTER, AgentLeases
from remedy.assignments.writer import NODES_OF_AGENT
from remedy.remedier.build import agent_of
from remedy.remedier.leases import AGENT_LEASES, LeaseAges, Renewal, decode_renewal

HOUR = timedelta(hours=1)


class LeaseApi(Kube):
    """Remembers what is asked of it; `machines` are there, `renewed` wins over a delete."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(NOWHERE, clock=clock)
        self.patched: dict[str, Any] = {}
        self.deleted: list[str] = []
        self.machines: set[str] = set()
        self.renewed = False

    async def patch(self, path: str, body: Any, *args: Any, **options: Any) -> Any:
        self.patched[path] = body

    async def get(self, path: str, *args: Any, **options: Any) -> Any:
        if path.rsplit("/", 1)[-1] not in self.machines:
            raise NotFound(404, "NotFound", path)
        return {}

    async def delete(self, path: str, **options: Any) -> Any:
        assert options["resource_version"] == "7"
        if self.renewed:
            raise Conflict(409, "Conflict")
        self.deleted.append(path)


class AuditLines:
    def __init__(self) -> None:
        self.lines: list[AuditLine] = []

    def write(self, line: AuditLine) -> None:
        self.lines.append(line)


class Site:
    """Caches that the test feeds; agents have the names of their nodes."""

    def __init__(self) -> None:
        self.clock, self.audit = FakeClock(), AuditLines()
        self.api = LeaseApi(self.clock)
        self.nodes: HandFed[Node] = HandFed(
            self.api, paths.nodes(), structs(Node), clock=self.clock
        )
        self.nodes.add_index(NODES_OF_AGENT, lambda node: (agent_of(node),))
        self.leases: HandFed[Renewal] = HandFed(
            self.api, paths.leases(AGENT_LEASES), decode_renewal, clock=self.clock
        )
        ages = LeaseAges(self.leases, self.clock)
        self.leases.add_handler(ages.changed)
        self.heard()
        self.agents = AgentLeases(
            self.api, self.nodes, self.leases, ages, self.clock, AlwaysLeader(), self.audit
        )

    def heard(self) -> None:
        self.nodes.current()
        self.leases.current()

    def node(self, name: str) -> None:
        self.nodes.put({"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}})

    def lease(self, name: str, renewed: str = "1", **more: Any) -> None:
        metadata = {"name": name, "namespace": AGENT_LEASES, "resourceVersion": "7", **more}
        self.leases.put({"metadata": metadata, "spec": {"renewTime": renewed}})

    def after(self, time: timedelta) -> None:
        self.clock.step(time)
        self.heard()

    async def look(self, agent: str = "n1") -> Result:
        return await self.agents.reconcile(agent)


LEASE = paths.lease(AGENT_LEASES, "n1")


async def test_a_lease_of_an_agent_gets_its_node_as_owner() -> None:
    site = Site()
    site.node("n1")
    site.lease("n1")
    assert await site.look() == DONE
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-n1"}
    assert site.api.patched == {LEASE: {"metadata": {"ownerReferences": [owner]}}}


async def test_a_lease_with_an_owner_is_left_alone() -> None:
    site = Site()
    site.lease("n1", ownerReferences=[{"uid": "uid-n1"}])
    site.after(10 * HOUR)
    assert await site.look() == DONE
    assert (site.api.patched, site.api.deleted) == ({}, [])


async def test_a_lease_is_removed_and_audited_when_its_node_is_gone_and_nobody_renews_it() -> None:
    site = Site()
    site.lease("n1")
    assert await site.look() == Result(REMOVE_AFTER)
    assert site.api.deleted == []
    site.after(REMOVE_AFTER)
    assert await site.look() == DONE
    assert site.api.deleted == [LEASE]
    (line,) = site.audit.lines
    assert (line.what, line.outcome, line.node) == ("DeleteLease", "Done", "n1")


async def test_a_lease_stays_when_its_agent_lives_before_its_node_does() -> None:
    site = Site()
    site.lease("n1")
    site.after(REMOVE_AFTER)
    site.lease("n1", renewed="2")
    assert await site.look() == Result(REMOVE_AFTER)
    site.api.renewed = True
    site.after(REMOVE_AFTER)
    assert await site.look() == Result(REQUEUE_AFTER)
    assert (site.api.deleted, site.audit.lines) == ([], [])


async def test_a_lease_stays_when_a_machine_without_a_node_has_its_name() -> None:
    site = Site()
    site.api.machines.add("n1")
    site.lease("n1")
    site.after(REMOVE_AFTER)
    await site.look()
    assert site.api.deleted == []


async def test_no_lease_is_removed_when_the_cache_of_nodes_is_old() -> None:
    site = Site()
    site.lease("n1")
    site.after(REMOVE_AFTER)
    site.nodes.current(False)
    assert await site.look() == Result(REQUEUE_AFTER)
    assert site.api.deleted == []


async def test_leases_are_owned_and_removed_at_a_bounded_rate() -> None:
    site = Site()
    for i in range(200):
        site.node(f"n{i}")
        site.lease(f"n{i}")
        site.lease(f"left{i}")
    site.after(REMOVE_AFTER)
    for i in range(200):
        await site.look(f"n{i}")
        await site.look(f"left{i}")
    assert len(site.api.patched) == OWNED_AT_ONCE
    assert 0 < len(site.api.deleted) <= 20
