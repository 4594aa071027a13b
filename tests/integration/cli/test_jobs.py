"""Jobs by hand: started, approved, led on and explained with the command, on the embedded API
server with a real operator.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from support.command import kubenode, started
from support.defender_objects import job_object
from support.embedded import EmbeddedPlane
from support.remedy_cluster import JOBS, Cluster, connected, operating
from support.remedy_engine import a_diagnoser

from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.cli.cluster import crds
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from remedy.operator import RemedyOperator, RemedySettings
from simulation.demo.server import signing

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
FAULT = "RuntimeUnhealthy"
RESTART = {"agent": {"action": "RestartUnit", "unit": "containerd.service"}}
NEVER_DONE = {"agent": {"action": "RestartUnit", "unit": "a.service", "timeout": "1s"}}


@pytest.fixture(scope="module")
def plane() -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane(crds=crds(), mutators=signing(SystemClock())) as found:
        yield found


@pytest.fixture
async def cluster(plane: EmbeddedPlane) -> AsyncIterator[Cluster]:
    async with connected(plane) as found:
        await found.node("w1")
        yield found


@pytest.fixture
async def operator(cluster: Cluster) -> AsyncIterator[RemedyOperator]:
    """With the rule `runtime`, active, whose fault is not there."""
    verify = {"for": "1s", "timeout": "30s"}
    rungs = [
        {"name": "tell", "steps": [{"notify": {}}], "verify": {"for": "1s", "timeout": "1s"}},
        {"name": "repair", "steps": [{"cordon": {}}, RESTART], "verify": verify},
        {"name": "again", "steps": [{"cordon": {}}, NEVER_DONE], "verify": verify},
    ]
    await cluster.rule(
        "runtime",
        mode="Approve",
        nodes={"all": True},
        when={"condition": {"type": FAULT, "status": "True"}},
        startupGrace="0s",
        groupWait="0s",
        ladder=rungs,
    )
    await cluster.say("w1", FAULT, "False")
    settings = RemedySettings(accept_single_engine=True)
    async with operating(cluster.operator(a_diagnoser(), settings=settings)) as running:
        await _until_active(cluster)
        yield running


async def _until_active(cluster: Cluster) -> None:
    async with asyncio.timeout(60):
        while True:
            rule = await cluster.kube.get(f"{paths.custom('noderemediers')}/runtime")
            if rule.get("status", {}).get("phase") == "Active":
                return
            await SystemClock().sleep(0.05)


async def say(plane: EmbeddedPlane, *words: str, code: int = 0) -> str:
    """What the command prints, on both streams."""
    done = await asyncio.to_thread(kubenode, *words, "--kubeconfig", plane.kubeconfig)
    told = done.stdout + done.stderr
    assert done.returncode == code, told
    assert "Traceback" not in told
    return told


def phase(job: RemedyOperationJob) -> str:
    return str(job.status.phase)


async def test_a_person_starts_a_repair_although_nothing_is_seen(
    plane: EmbeddedPlane, cluster: Cluster, operator: RemedyOperator
) -> None:
    run = ("job", "run", "w1", "--remedier", "runtime", "--from", "repair", "--mode", "Enforce")
    told = await say(plane, *run, code=1)
    assert "the fault of rule runtime is not there on node w1" in told
    assert "it moves the node's pods" in told and "say so with --yes" in told
    assert await cluster.jobs() == []
    told = await say(plane, *run, "--yes")
    asked = await cluster.wait(lambda j: any(s.by == "Agent" for s in j.status.steps))
    name = asked.metadata.name
    assert f"job {name} is started, by " in told
    assert asked.spec.remedier is None and asked.status.rung == 1
    again = await say(plane, *run, "--yes", code=1)
    assert f"node w1 has an open job, {name}" in again
    await cluster.answer(asked)
    await cluster.say("w1", FAULT, "False")  # reported after the act
    await cluster.wait(lambda j: phase(j) == "Succeeded")
    story = await say(plane, "explain", "job", name)
    assert "none: " in story and "started it by hand" in story
    assert "repair: RestartUnit containerd.service: the agent is asked" in story


async def test_a_job_started_for_approval_waits_and_hears_it(
    plane: EmbeddedPlane, cluster: Cluster, operator: RemedyOperator
) -> None:
    await say(plane, "job", "run", "w1", "--remedier", "runtime", "--from", "1", "--yes")
    waiting = await cluster.wait(lambda j: phase(j) == "AwaitingApproval")
    name = waiting.metadata.name
    rows = json.loads(await say(plane, "job", "list", "--open", "-o", "json"))
    assert [(row["name"], row["phase"], row["rung"]) for row in rows] == [
        (name, "AwaitingApproval", "repair")
    ]
    assert "waits for `kubenode approve" not in await say(plane, "approve", name, "--note", "go")
    heard = await cluster.wait(lambda j: any(s.by == "Agent" for s in j.status.steps))
    [word] = heard.spec.approvals
    assert (word.decision, word.note, heard.status.words_heard) == ("Approve", "go", 1)
    await cluster.answer(heard)
    await cluster.say("w1", FAULT, "False")
    await cluster.wait(lambda j: phase(j) == "Succeeded")


async def test_a_job_that_needs_a_person_is_led_out(
    plane: EmbeddedPlane, cluster: Cluster, operator: RemedyOperator
) -> None:
    run = ("job", "run", "w1", "--remedier", "runtime", "--from", "again", "--mode", "Enforce")
    await say(plane, *run, "--yes")
    lost = await cluster.wait(lambda j: phase(j) == "NeedsHuman", 90)
    name = lost.metadata.name
    story = await say(plane, "explain", "job", name)
    assert f"kubenode job next {name} --rung RUNG" in story
    told = await say(plane, "job", "next", name, code=1)
    assert "no rung follows" in told and "--rung" in told
    await say(plane, "job", "next", name, "--rung", "repair")
    asked = await cluster.wait(lambda j: j.status.rung == 1 and j.status.step == 1)
    await _answered(cluster, asked)
    await cluster.say("w1", FAULT, "False")
    await cluster.wait(lambda j: phase(j) == "Succeeded")


async def _answered(cluster: Cluster, job: RemedyOperationJob) -> None:
    def asked(j: RemedyOperationJob) -> bool:
        return any(s.rung == 1 and s.by == "Agent" and s.state == "Running" for s in j.status.steps)

    await cluster.answer(await cluster.wait(asked))


async def test_nobody_approves_in_time(cluster: Cluster, operator: RemedyOperator) -> None:
    rule = await cluster.kube.get(f"{paths.custom('noderemediers')}/runtime")
    node = await cluster.kube.get(paths.node("w1"))
    await cluster.say("w1", "Unrelated", "True")
    body: dict[str, Any] = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "RemedyOperationJob",
        "metadata": {"name": "w1-late"},
        "spec": {
            "nodeName": "w1",
            "agent": "w1",
            "nodeUID": node["metadata"]["uid"],
            "trigger": {"firstTrue": "2026-01-01T00:00:00Z"},
            "mode": "Approve",
            "ladder": rule["spec"]["ladder"],
            "approval": {"required": True, "expiresAfter": "2s"},
        },
    }
    await cluster.kube.create(JOBS, body)
    over = await cluster.wait(lambda j: phase(j) == "Cancelled")
    assert "nobody approved in time" in over.status.message


async def test_what_cannot_be_started_says_why(
    plane: EmbeddedPlane, cluster: Cluster, operator: RemedyOperator
) -> None:
    run = ("job", "run", "w1", "--remedier")
    assert "there is no rule none; there are: runtime" in await say(plane, *run, "none", code=1)
    told = await say(plane, *run, "runtime", "--from", "z", code=2)
    assert "'z' is no rung of the rule; there are: tell (0), repair (1), again (2)" in told
    told = await say(plane, "job", "run", "nowhere", "--remedier", "runtime", code=1)
    assert "node nowhere is not in the cluster" in told
    told = await say(plane, "explain", "job", "none", code=1)
    assert "there is no job none; `kubenode job list`" in told


async def test_a_dry_run_by_hand_plans_and_acts_on_nothing(
    plane: EmbeddedPlane, cluster: Cluster, operator: RemedyOperator
) -> None:
    for _ in range(2):
        told = await say(plane, "job", "run", "w1", "--remedier", "runtime", "--mode", "DryRun")
        assert "it plans, and acts on nothing" in told
        await cluster.wait(lambda j: phase(j) == "Shadowed")
    assert {phase(job) for job in await cluster.jobs()} == {"Shadowed"}


async def test_watch_prints_a_job_that_comes_later(plane: EmbeddedPlane, cluster: Cluster) -> None:
    words = ("--kubeconfig", str(plane.kubeconfig), "job", "list", "--watch", "--node", "w7")
    with started(*words) as process:
        assert process.stdout is not None
        head = await asyncio.to_thread(process.stdout.readline)
        assert head.split() == ["NAME", "NODE", "RULE", "PHASE", "RUNG", "HOLD", "AGE"]
        await cluster.kube.create(JOBS, job_object("w7", SystemClock().now(), phase="Running"))
        line = await asyncio.to_thread(process.stdout.readline)
    assert line.split()[:2] == ["job-w7", "w7"]
