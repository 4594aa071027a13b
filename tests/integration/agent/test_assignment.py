"""How an agent hears what is asked of it: by its own small object, and without one as before."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.agent_jobs import JOBS, PROBES, a_probe, an_agent_job, asked
from support.agent_world import World
from support.running import running, until

import agent.assignment as assignment
from agent.agent import Agent
from agent.host import UnitVerb
from agent.journal import FileJournal
from agent.probes.host import HostProbes
from kubenode.api.crd import definition
from kubenode.api.v1alpha1 import KINDS, AgentAssignment
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.paths import custom
from kubenode.runtime.kube.plain import PlainTransport
from simulation.apiserver import EmbeddedApiServer

pytestmark = pytest.mark.integration

ASSIGNMENTS = custom("agentassignments")
UNIT = "containerd.service"
SECONDS = 30.0


@asynccontextmanager
async def a_server(*, without: type[Any] | None = None) -> AsyncIterator[EmbeddedApiServer]:
    server = EmbeddedApiServer(crds=[definition(kind) for kind in KINDS if kind is not without])
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def an_agent(server: EmbeddedApiServer, world: World) -> AsyncIterator[Agent]:
    kube = Kube(PlainTransport(server.url))
    try:
        journal = FileJournal(world.folder / "journal")
        probes = HostProbes(world, str(world.folder))
        agent = Agent(kube, world, "n1", "n1", journal, SystemClock(), probes, settle=0.1)
        async with running(agent.run()):
            yield agent
    finally:
        await kube.close()


class ByHand:
    """The remedy operator, by hand."""

    def __init__(self, server: EmbeddedApiServer) -> None:
        self.kube = Kube(PlainTransport(server.url))

    async def ask(self, name: str, request: str = "r0s0a1") -> None:
        """A job with a request to agent n1."""
        await self.kube.create(JOBS, an_agent_job(name, "n1", UNIT))
        await self.request(name, request)

    async def request(self, name: str, request: str) -> None:
        status = asked("boot-1", request_id=request)
        await self.kube.patch(f"{JOBS}/{name}/status", {"status": status})

    async def assign(self, *jobs: tuple[str, str], probes: tuple[str, ...] = ()) -> None:
        spec = {
            "jobs": [{"name": name, "request": request} for name, request in jobs],
            "probes": [*probes],
        }
        found = await self.kube.get(ASSIGNMENTS)
        if any(item["metadata"]["name"] == "n1" for item in found["items"]):
            await self.kube.patch(f"{ASSIGNMENTS}/n1", {"spec": spec})
            return
        body = {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "AgentAssignment",
            "metadata": {"name": "n1"},
            "spec": spec,
        }
        await self.kube.create(ASSIGNMENTS, body)

    async def answer(self, job: str, request: str = "r0s0a1") -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            while True:
                found = await self.kube.get(f"{JOBS}/{job}")
                said = found["status"].get("agent", {}).get("requests", {}).get(request)
                if said is not None and said["state"] != "Running":
                    return dict(said)
                await asyncio.sleep(0.05)

    async def answered(self, probe: str) -> None:
        async with asyncio.timeout(SECONDS):
            while True:
                found = await self.kube.get(f"{PROBES}/{probe}")
                if "answeredAt" in found.get("status", {}):
                    return
                await asyncio.sleep(0.05)


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedApiServer]:
    async with a_server() as server:
        yield server


@pytest.fixture
async def operator(server: EmbeddedApiServer) -> AsyncIterator[ByHand]:
    by_hand = ByHand(server)
    yield by_hand
    await by_hand.kube.close()


async def test_an_agent_with_an_assignment_reads_what_it_names_and_watches_no_list(
    server: EmbeddedApiServer, operator: ByHand, tmp_path: Path
) -> None:
    world = World(tmp_path)
    await operator.assign()
    async with an_agent(server, world) as agent:
        await until(agent.requests.assignment.synced.is_set, SECONDS)
        await operator.ask("j1")
        await operator.kube.create(PROBES, a_probe("p1", "n1", "disk"))
        await operator.assign(("j1", "r0s0a1"), probes=("p1",))
        said = await operator.answer("j1")
        await operator.answered("p1")
        await operator.request("j1", "r0s1a1")
        await operator.assign(("j1", "r0s1a1"), probes=("p1",))
        again = await operator.answer("j1", "r0s1a1")
        assert agent.worker.busy() == "job j1 is open"
        await operator.assign()
        await until(lambda: not agent.worker.busy(), SECONDS)
        assert not agent.requests.jobs.synced.is_set()
        assert not agent.requests.questions.synced.is_set()
    assert (said["state"], again["state"]) == ("Done", "Done")
    assert world.acts == [(UnitVerb.RESTART, UNIT)] * 2


async def test_an_agent_that_starts_later_answers_what_its_assignment_names(
    server: EmbeddedApiServer, operator: ByHand, tmp_path: Path
) -> None:
    await operator.ask("j1")
    await operator.assign(("gone", "r0s0a1"), ("j1", "r0s0a1"), probes=("gone",))
    async with an_agent(server, World(tmp_path)):
        assert (await operator.answer("j1"))["state"] == "Done"


async def test_a_new_agent_watches_as_before_when_the_operator_is_older(tmp_path: Path) -> None:
    async with a_server(without=AgentAssignment) as server:
        operator = ByHand(server)
        async with an_agent(server, World(tmp_path)) as agent:
            await until(agent.requests.jobs.synced.is_set, SECONDS)
            await operator.ask("j1")
            assert (await operator.answer("j1"))["state"] == "Done"
            assert not agent.requests.assignment.synced.is_set()
        await operator.kube.close()


async def test_an_agent_takes_up_its_assignment_when_there_is_one(
    server: EmbeddedApiServer, operator: ByHand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignment, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(assignment, "RELIST_SPREAD", 0.1)
    world = World(tmp_path)
    async with an_agent(server, world) as agent:
        await until(agent.requests.jobs.synced.is_set, SECONDS)
        await operator.ask("j1")
        await operator.answer("j1")
        await operator.assign(("j1", "r0s0a1"))
        await until(agent.requests.assignment.synced.is_set, SECONDS)
        await operator.ask("j2")
        await operator.assign(("j1", "r0s0a1"), ("j2", "r0s0a1"))
        await operator.answer("j2")
        # And back: the operator before this one is put in again, and the object is deleted.
        await operator.kube.delete(f"{ASSIGNMENTS}/n1")
        await operator.ask("j3")
        await operator.answer("j3")
    assert world.acts == [(UnitVerb.RESTART, UNIT)] * 3
