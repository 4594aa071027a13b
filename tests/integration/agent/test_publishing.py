"""What a detector sees, at a real API server: in the form that readers know, and late if need be.

The detector is a lever; everything from the sink on is the agent's own.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.agent_jobs import (
    CHART,
    EVENTS,
    GROUP,
    MACHINES,
    NODES,
    a_machine,
    install,
    node_token,
    user,
)
from support.agent_world import World
from support.control_plane import ControlPlane
from support.running import running, until

from agent.agent import Agent
from agent.detectors import ConditionReport, EventReport, EventSeverity, ReportedStatus, Sink
from agent.journal import FileJournal
from agent.outbox import Outbox
from agent.probes.host import HostProbes
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.process import forever

pytestmark = pytest.mark.integration

NODE = "told-1"


class Lever:
    """A detector that reports what a test gives it."""

    name = "kernel-monitor"
    conditions: tuple[str, ...] = ("KernelDeadlock", "XfsShutdown")

    def __init__(self) -> None:
        self.sink: Sink | None = None

    async def run(self, sink: Sink) -> None:
        self.sink = sink
        await forever()

    def says(self, status: ReportedStatus, reason: str, message: str) -> None:
        assert self.sink is not None
        now = SystemClock().now()
        self.sink.report(ConditionReport("KernelDeadlock", status, reason, message, now, self.name))

    def event(self, reason: str) -> None:
        assert self.sink is not None
        now = SystemClock().now()
        self.sink.report(EventReport(reason, "m", EventSeverity.WARNING, now, self.name))


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    install(control_plane)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(node))
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(a_machine(NODE)))
    yield control_plane
    pod = ("pod", f"agent-{NODE}", "--ignore-not-found", "--force", "--grace-period=0")
    control_plane.kubectl("delete", "-n", "kubenode-agents", *pod)
    control_plane.kubectl("delete", "node", NODE)
    control_plane.kubectl("delete", "knm", NODE)
    # One request, however many Events the tests before this one left.
    control_plane.kubectl("delete", "--raw", "/api/v1/namespaces/default/events")
    control_plane.kubectl("delete", "lease", "-n", "kubenode-agents", "--all")


@asynccontextmanager
async def an_agent(
    cp: ControlPlane, folder: Path, server: str = "", token: str = ""
) -> AsyncIterator[Lever]:
    """A process of the agent; `server` instead of the real one, `token` for a certificate."""
    files: tuple[str | None, ...] = None, None, str(folder / "token")
    if token:
        (folder / "token").write_text(token)
    else:
        identity = cp.issue_client_cert(user(NODE), [GROUP])
        files = str(identity.cert_file), str(identity.key_file), None
    kube = Kube(PlainTransport(server or cp.server, str(cp.ca_file), *files))
    world, lever = World(folder), Lever()
    try:
        agent = Agent(
            kube,
            world,
            NODE,
            NODE,
            FileJournal(folder / "requests"),
            SystemClock(),
            HostProbes(world, str(folder)),
            detectors=[lever],
            outbox=Outbox(folder / "outbox"),
        )
        async with running(agent.run()):
            await until(lambda: lever.sink is not None)
            yield lever
    finally:
        await kube.close()


async def read(cp: ControlPlane, path: str) -> Any:
    return await asyncio.to_thread(cp.get, path)


async def condition(cp: ControlPlane) -> dict[str, str]:
    listed = (await read(cp, f"{NODES}/{NODE}"))["status"].get("conditions", [])
    return next((c for c in listed if c["type"] == "KernelDeadlock"), {})


async def events(cp: ControlPlane, reason: str) -> list[dict[str, Any]]:
    selector = f"involvedObject.name={NODE},reason={reason}"
    found: list[dict[str, Any]] = (await read(cp, f"{EVENTS}?fieldSelector={selector}"))["items"]
    return found


async def eventually(look: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool]) -> Any:
    async with asyncio.timeout(60):
        found = await look()
        while not holds(found):
            await asyncio.sleep(0.02)
            found = await look()
    return found


async def until_told(cp: ControlPlane, status: str) -> dict[str, str]:
    told: dict[str, str] = await eventually(
        lambda: condition(cp), lambda c: c.get("status") == status
    )
    return told


async def until_events(cp: ControlPlane, reason: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await eventually(lambda: events(cp, reason), bool)
    return found


async def test_a_fault_and_its_end_in_the_form_that_readers_know(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    line = "INFO: task docker:20744 blocked for more than 120 seconds."
    async with an_agent(cluster, tmp_path) as lever:
        lever.says(ReportedStatus.TRUE, "DockerHung", line)
        told = await until_told(cluster, "True")
        assert (told["reason"], told["message"]) == ("DockerHung", line)
        assert set(told) == {
            "type",
            "status",
            "reason",
            "message",
            "lastHeartbeatTime",
            "lastTransitionTime",
        }
        (event,) = await until_events(cluster, "DockerHung")
        node = await read(cluster, f"{NODES}/{NODE}")
        assert event["involvedObject"]["uid"] == node["metadata"]["uid"]
        assert event["source"] == {"component": "kernel-monitor", "host": NODE}
        assert (event["type"], event["count"]) == ("Warning", 1)
        lever.says(ReportedStatus.FALSE, "KernelHasNoDeadlock", "kernel has no deadlock")
        await until_told(cluster, "False")
        machine = await eventually(
            lambda: read(cluster, f"{MACHINES}/{NODE}"), lambda m: "host" in m.get("status", {})
        )
    assert machine["status"]["host"]["bootID"] == "boot-1"


async def test_a_pod_of_the_daemonset_tells_the_same(cluster: ControlPlane, tmp_path: Path) -> None:
    token = await asyncio.to_thread(node_token, cluster, NODE)
    async with an_agent(cluster, tmp_path, token=token) as lever:
        lever.says(ReportedStatus.TRUE, "DockerHung", "m")
        await until_told(cluster, "True")
        await until_events(cluster, "DockerHung")
        lease = "/apis/coordination.k8s.io/v1/namespaces/kubenode-agents/leases"
        await eventually(lambda: read(cluster, lease), lambda found: bool(found["items"]))


def test_the_daemonset_is_what_the_api_server_takes(cluster: ControlPlane) -> None:
    made = cluster.kubectl("apply", "--dry-run=server", "-f", CHART / "daemonset.yaml")
    assert "daemonset.apps/kubenode-agent created" in made.stdout
    assert "warning" not in made.stderr.lower()


async def test_what_happened_while_the_server_was_away_is_told_after_a_restart(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with an_agent(cluster, tmp_path, "https://127.0.0.1:1") as lever:
        lever.says(ReportedStatus.TRUE, "DockerHung", "m")
        for _ in range(3):
            lever.event("OOMKilling")
        seen = SystemClock().now().strftime("%Y-%m-%dT%H:%M:%SZ")
        kept = tmp_path / "outbox" / "untold.json"
        await until(lambda: kept.exists() and b"OOMKilling" in kept.read_bytes())
    async with an_agent(cluster, tmp_path):
        told = await until_told(cluster, "True")
        (event,) = await until_events(cluster, "OOMKilling")
    assert told["lastTransitionTime"] <= seen
    assert event["lastTimestamp"] <= seen
    assert event["count"] == 3
