"""The agent's own code and identity on a real API server; only the host is simulated."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.agent_jobs import (
    GROUP,
    PROBES,
    Operator,
    a_probe,
    an_agent_job,
    asked,
    install,
    user,
)
from support.agent_world import World
from support.control_plane import ControlPlane
from support.running import running, until

from agent.agent import Agent
from agent.host import UnitVerb
from agent.journal import FileJournal
from agent.probes.host import HostProbes
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport

pytestmark = pytest.mark.integration

UNIT = "containerd.service"


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    install(control_plane)
    return control_plane


@asynccontextmanager
async def an_agent(cp: ControlPlane, name: str, world: World) -> AsyncIterator[Agent]:
    identity = cp.issue_client_cert(user(name), [GROUP])
    files = str(cp.ca_file), str(identity.cert_file), str(identity.key_file)
    kube = Kube(PlainTransport(cp.server, *files))
    try:
        journal = FileJournal(world.folder / name)
        probes = HostProbes(world, str(world.folder))
        agent = Agent(kube, world, name, name, journal, SystemClock(), probes, settle=0.1)
        async with running(agent.run()):
            yield agent
    finally:
        await kube.close()


async def answered(operator: Operator, job: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    def look() -> bool:
        if (answer := operator.answer(job)) is not None:
            found.append(answer)
        return bool(found)

    await until(look, 60, f"an answer in {job}")
    return found[0]


async def test_it_answers_once_and_tells_its_boot(cluster: ControlPlane, tmp_path: Path) -> None:
    operator, world = Operator(cluster), World(tmp_path)
    async with an_agent(cluster, "int-1", world) as agent:
        await until(agent.requests.jobs.synced.is_set, 60)
        job = operator.make(an_agent_job("int-1-a", "int-1", UNIT), asked("boot-1"))
        answer = await answered(operator, job)
        written = operator.read(job)["metadata"]["resourceVersion"]
        operator.write(job, {"message": "the operator writes on"})
        await until(lambda: agent.requests.jobs.cache[job].metadata.resource_version != written, 60)
    assert (answer["state"], answer["code"], answer["bootID"]) == ("Done", 0, "boot-1")
    assert answer["startedAt"] <= answer["finishedAt"]
    assert world.acts == [(UnitVerb.RESTART, UNIT)]
    lease = cluster.get("/apis/coordination.k8s.io/v1/namespaces/kubenode-agents/leases/int-1")
    assert lease["metadata"]["annotations"]["kubenode.io/boot-id"] == "boot-1"
    assert lease["spec"]["holderIdentity"] == "int-1"
    cluster.kubectl("delete", "knj", job)


async def test_what_was_asked_while_it_was_away_is_done_if_it_is_still_valid(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    operator, world = Operator(cluster), World(tmp_path)
    fresh = operator.make(an_agent_job("int-2-fresh", "int-2", UNIT), asked("boot-1"))
    late = operator.make(
        an_agent_job("int-2-late", "int-2", UNIT), asked("boot-1", valid=timedelta(seconds=-1))
    )
    old = operator.make(an_agent_job("int-2-old", "int-2", UNIT), asked("boot-0"))
    foreign = operator.make(an_agent_job("int-2-x", "int-2", UNIT, "other"), asked("boot-1"))
    async with an_agent(cluster, "int-2", world):
        assert (await answered(operator, fresh))["state"] == "Done"
        refused = [await answered(operator, job) for job in (late, old)]
    assert [answer["state"] for answer in refused] == ["Refused", "Refused"]
    assert "expired at" in refused[0]["output"]
    assert "asked of boot boot-0" in refused[1]["output"]
    assert operator.answer(foreign) is None
    assert len(world.acts) == 1
    cluster.kubectl("delete", "knj", fresh, late, old, foreign)


async def test_it_may_follow_its_assignment_and_read_what_that_names(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    operator, world = Operator(cluster), World(tmp_path)
    made = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "AgentAssignment",
        "metadata": {"name": "int-9"},
        "spec": {},
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(made))
    async with an_agent(cluster, "int-9", world) as agent:
        await until(agent.requests.assignment.synced.is_set, 60)
        job = operator.make(an_agent_job("int-9-a", "int-9", UNIT), asked("boot-1"))
        probe = operator.ask(a_probe("int-9-disk", "int-9", "disk"))
        spec = {"jobs": [{"name": job, "request": "r0s0a1"}], "probes": [probe]}
        patch = json.dumps({"spec": spec})
        cluster.kubectl("patch", "knaa", "int-9", "--type=merge", "-p", patch)
        answer = await answered(operator, job)
        await asyncio.to_thread(operator.wait_status, probe)
        assert not agent.requests.jobs.synced.is_set()
    assert answer["state"] == "Done"


async def test_it_answers_its_questions_while_somebody_wants_to_know(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    operator, world = Operator(cluster), World(tmp_path)
    early = operator.ask(a_probe("int-3-early", "int-3", "disk"))
    late = operator.ask(a_probe("int-3-late", "int-3", "disk", timedelta(seconds=-1)))
    other = operator.ask(a_probe("int-3-other", "int-4", "disk"))
    outside = operator.ask(a_probe("int-3-power", "int-3", "power"))
    async with an_agent(cluster, "int-3", world) as agent:
        said = await asyncio.to_thread(operator.wait_status, early)
        strange = operator.ask(a_probe("int-3-bundle", "int-3", "diagnostics"))
        refused = await asyncio.to_thread(operator.wait_status, strange)
        await until(agent.requests.questions.synced.is_set, 60)
    assert 0 < said["answer"]["used_pct"] < 100 and not said["error"]
    assert said["answer"]["space_ok"] in (True, False)
    assert refused["error"] == (
        "an agent of this version answers clock, disk, host, mount, peers, write, not diagnostics"
    )
    assert not refused["answer"]
    for unanswered in (late, other, outside):
        assert "answeredAt" not in cluster.get(f"{PROBES}/{unanswered}").get("status", {})
    cluster.kubectl("delete", "knhp", "--all")
