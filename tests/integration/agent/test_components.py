"""The engine of components on a real API server, under an agent's rights; the host is simulated."""

import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.agent_jobs import GROUP, Operator, a_machine, an_agent_job, asked, install, user
from support.agent_world import World
from support.component_world import CONFIG, PACKAGE, UNIT, component
from support.control_plane import ControlPlane
from support.running import running, until

from agent.agent import Agent
from agent.components.records import MemoryRecords
from agent.journal import FileJournal
from agent.probes.host import HostProbes
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.components import wire
from kubenode.runtime.components.hashes import config_hash, revision, text_digests
from kubenode.runtime.components.render import KeyText, TextRef, rendered
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport
from simulation.hosts.components import SimulatedComponents

pytestmark = pytest.mark.integration

NAME = "components-1"
SECRET = "kubenode-components-test"
PASSWORD = "s3cret-of-the-registry"
SECONDS = 60.0
FUTURE = "2099-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    install(control_plane)
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(a_machine(NAME)))
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": "kubenode-components"},
        "data": {"password": base64.b64encode(PASSWORD.encode()).decode()},
    }
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(secret))
    # As the Machine operator does for the agent's Machine.
    role = ["-n", "kubenode-components", user(NAME)]
    reads = ["--verb=get", "--resource=secrets", f"--resource-name={SECRET}"]
    control_plane.kubectl("create", "role", *role, *reads)
    control_plane.kubectl(
        "create", "rolebinding", *role, f"--role={user(NAME)}", f"--user={user(NAME)}"
    )
    yield control_plane
    control_plane.kubectl("delete", "role,rolebinding", *role)
    control_plane.kubectl("delete", "knm", NAME)
    control_plane.kubectl("delete", "knc", "--all")
    control_plane.kubectl("delete", "secret", "-n", "kubenode-components", SECRET)


def a_component(version: str) -> dict[str, Any]:
    key = {"secretKey": {"name": SECRET, "key": "password"}}
    files = [{"path": CONFIG, "content": key, "mode": "0600", "onChange": "Restart"}]
    made = component(version, files=files, healthDeadline="20s")
    return {"apiVersion": "kubenode.io/v1alpha1", "kind": "MachineComponent", **made}


def assign(cp: ControlPlane, made: dict[str, Any], most: str = "") -> None:
    """As a set does: once made, the component, its assignment, and a permit up to class `most`."""
    spec = wire.spec_of(made["spec"])
    uid = cp.get(f"/api/v1/namespaces/kubenode-components/secrets/{SECRET}")["metadata"]["uid"]
    texts = {TextRef("Secret", SECRET, "password"): KeyText(PASSWORD, uid)}
    entry = {
        "name": "containerd",
        "component": made["metadata"]["name"],
        "revision": revision(spec, {}, "Running", text_digests(texts)),
        "configHash": config_hash(rendered(spec, {}, {}, texts)),
    }
    permit = {
        "name": "p-1",
        "components": ["containerd"],
        "maxDisruption": most,
        "startBefore": FUTURE,
    }
    patch = {"spec": {"components": [entry], "permit": permit if most else None}}
    cp.kubectl("patch", "knm", NAME, "--type=merge", "-p", json.dumps(patch))


def reported(cp: ControlPlane) -> dict[str, Any]:
    found = (
        cp.get(f"/apis/kubenode.io/v1alpha1/machines/{NAME}")
        .get("status", {})
        .get("components", [])
    )
    return found[0] if found else {}


@asynccontextmanager
async def an_agent(
    cp: ControlPlane, world: World, host: SimulatedComponents, records: MemoryRecords
) -> AsyncIterator[Agent]:
    identity = cp.issue_client_cert(user(NAME), [GROUP])
    files = str(cp.ca_file), str(identity.cert_file), str(identity.key_file)
    kube = Kube(PlainTransport(cp.server, *files))
    try:
        agent = Agent(
            kube,
            world,
            NAME,
            NAME,
            FileJournal(world.folder / NAME),
            SystemClock(),
            HostProbes(world, str(world.folder)),
            settle=0.1,
            software=(host.ports(), records),
        )
        async with running(agent.run()):
            yield agent
    finally:
        await kube.close()


async def test_a_machines_component_comes_to_its_host_and_is_told(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    host, records, world = SimulatedComponents(), MemoryRecords(), World(tmp_path)
    host.packages.brings[PACKAGE] = (UNIT,)

    def state(wanted: str, version: str) -> bool:
        told = reported(cluster)
        return (told.get("state"), told.get("version")) == (wanted, version)

    for made in (a_component("2.1.3"), a_component("2.1.4")):
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(made))
    async with an_agent(cluster, world, host, records):
        assign(cluster, a_component("2.1.3"), most="Drain")
        await until(lambda: state("Healthy", "2.1.3"), SECONDS)
        assert host.files.files[CONFIG].content == PASSWORD.encode()
        assign(cluster, a_component("2.1.4"))
        await until(lambda: reported(cluster).get("needs") == "Restart", SECONDS)
        starts = host.units.starts[UNIT]
        assign(cluster, a_component("2.1.4"), most="Restart")
        await until(lambda: state("Healthy", "2.1.4"), SECONDS)
        assert host.units.starts[UNIT] == starts + 1
    before = cluster.get(f"/apis/kubenode.io/v1alpha1/machines/{NAME}")
    assert before["status"]["components"][0]["previous"]["component"] == "containerd-2.1.3"
    assert PASSWORD not in json.dumps(before)
    async with an_agent(cluster, world, host, records):
        operator = Operator(cluster)
        job = an_agent_job("components-1-a", NAME, UNIT)
        step = {"action": "RepairComponent", "params": {"component": "containerd"}}
        job["spec"]["ladder"][0]["steps"][0]["agent"] = step
        name = operator.make(job, asked("boot-1"))
        await until(lambda: operator.answer(name) is not None, SECONDS)
        answer = operator.answer(name)
        assert answer is not None and answer["state"] == "Done", answer
        await until(lambda: state("Healthy", "2.1.4"), SECONDS)
    assert host.units.starts[UNIT] == starts + 2
    cluster.kubectl("delete", "knj", name)
