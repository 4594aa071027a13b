"""Machines that are made, and hosts that are given back empty, on a real API server."""

import asyncio
import base64
from collections.abc import AsyncIterator
from email import message_from_string
from pathlib import Path

import pytest
from support.control_plane import ControlPlane
from support.fake_instances import FakeInstances
from support.machine_life import Hosts, assigned, healthy
from support.machine_world import machine_world

from kubenode.providers.instances import ErrorCode, InstanceError, InstanceProviders
from kubenode.runtime.kube.paths import custom, resource
from machine.ground import MachineSettings
from machine.site_settings import Provisioning

pytestmark = pytest.mark.integration

SETTINGS = MachineSettings(stale=3600.0)
SECRETS = resource("/api/v1", "secrets", namespace="kubenode-system")


@pytest.fixture
def cloud() -> FakeInstances:
    return FakeInstances()


@pytest.fixture
async def hosts(
    cluster: ControlPlane, tmp_path: Path, cloud: FakeInstances
) -> AsyncIterator[Hosts]:
    ca = cluster.ca_file.read_text()
    made = Provisioning(InstanceProviders([cloud]), "test", cluster.server, ca)
    world_of = machine_world(cluster, tmp_path, SETTINGS, provisioning=made)
    async with world_of as world, asyncio.TaskGroup() as tasks:
        hosts = Hosts(world)
        living = tasks.create_task(hosts.live())
        try:
            yield hosts
        finally:
            living.cancel()
            await hosts.clean()


async def test_invariant_02_a_machine_is_made_with_its_token_and_goes_with_its_instance(
    hosts: Hosts, cloud: FakeInstances
) -> None:
    """The first answer of the provider is lost, its first refusals of the end are waited out."""
    cloud.lose_reply = 1
    kube, own = hosts.kube, base64.b64encode(b"#cloud-config\npackages: [jq]\n").decode()
    secret = {"metadata": {"name": "made-data"}, "data": {"userData": own}}
    await kube.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", **secret})
    kind = {"apiVersion": "kubenode.io/v1alpha1", "kind": "MachineClass"}
    spec = {"provider": "local", "config": {}, "userDataRef": "made-data"}
    body = {**kind, "metadata": {"name": "made-class"}, "spec": spec}
    await kube.create(custom("machineclasses"), body)
    try:
        await hosts.make("made-1", origin="Provision", classRef="made-class", node="None")
        machine = await hosts.phase("made-1", "Provisioned")
        token = f"{machine.metadata.uid}-1"
        assert cloud.made == [token]
        assert machine.spec.provider_id == f"fake:///{token}"
        assert machine.spec.addresses == ["10.3.0.1"]
        assert machine.status.provisioning is not None
        assert machine.status.provisioning.class_hash.startswith("1-")
        bootstrap = await hosts.world.token("made-1")
        given = message_from_string(cloud.user_data[token])
        parts = [part.get_payload(decode=True) for part in given.walk() if not part.is_multipart()]
        texts = [part for part in parts if isinstance(part, bytes)]
        assert [bootstrap.text.encode() in text for text in texts] == [False, True]
        assert b"jq" in texts[0]
        await hosts.beat("made-1")
        await hosts.phase("made-1", "Running")
        cloud.failing = InstanceError("fake", ErrorCode.INTERNAL, "500")
        await hosts.world.delete("made-1")
        await hosts.condition("made-1", "Deletable", "Terminating")
        assert (await hosts.world.machine("made-1")).metadata.finalizers
        cloud.failing = None
        await hosts.gone(custom("machines", "made-1"))
        assert not cloud.instances and len(cloud.deleted) == 1
    finally:
        await kube.delete(custom("machineclasses", "made-class"))
        await kube.delete(f"{SECRETS}/made-data")


async def test_uninstall_waits_until_the_host_is_empty(hosts: Hosts) -> None:
    components = [assigned("runc", "1-0000000001")]
    given_up = {"imported": "Uninstall"}
    await hosts.make("bare-1", node="None", deletion=given_up, components=components)
    await hosts.beat("bare-1")
    await hosts.report("bare-1", runc=healthy("1-0000000001"))
    await hosts.phase("bare-1", "Running")
    await hosts.world.delete("bare-1")
    machine = await hosts.seen(
        "bare-1", lambda m: m.spec.components[0].desired_state == "Absent", "to be emptied"
    )
    assert machine.spec.permit is not None and machine.spec.permit.components == ["runc"]
    attempt = machine.spec.components[0].attempt
    absent = {"revision": "1-0000000001", "attempt": attempt, "state": "Absent"}
    await hosts.report("bare-1", runc=absent)
    await hosts.gone(custom("machines", "bare-1"))
