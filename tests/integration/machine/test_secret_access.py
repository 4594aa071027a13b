"""Each agent reads the Secrets of its own components, on a real API server (finding 19)."""

import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.component_world import component
from support.control_plane import ControlPlane
from support.machine_world import MachineWorld, closing, machine_world, until

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, NotFound
from kubenode.runtime.kube.paths import custom, resource
from machine.names import COMPONENTS, agent_user

pytestmark = pytest.mark.integration

SECRETS = ("access-one", "access-two")
MACHINES = ("access-m1", "access-m2")


def secret_path(name: str) -> str:
    return resource("/api/v1", "secrets", namespace=COMPONENTS, name=name)


def rights_path(plural: str, machine: str) -> str:
    base = "/apis/rbac.authorization.k8s.io/v1"
    return resource(base, plural, namespace=COMPONENTS, name=agent_user(machine))


@pytest.fixture(scope="module")
def secrets(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """Two Secrets, and for each a MachineComponent named like it."""
    for name in SECRETS:
        meta = {"name": name, "namespace": COMPONENTS}
        data = {"password": base64.b64encode(name.encode()).decode()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(secret))
        key = {"secretKey": {"name": name, "key": "password"}}
        made = component("1.0.0", files=[{"path": f"/etc/{name}", "content": key}])
        made |= {"apiVersion": "kubenode.io/v1alpha1", "kind": "MachineComponent"}
        made["metadata"] = {"name": name}
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(made))
    yield cluster
    cluster.kubectl("delete", "secret", "-n", COMPONENTS, *SECRETS)
    free = ["--type=merge", "-p", '{"metadata": {"finalizers": null}}']
    for name in SECRETS:
        cluster.kubectl("patch", "knc", name, *free)
    cluster.kubectl("delete", "knc", *SECRETS)


@asynccontextmanager
async def two_machines(cp: ControlPlane, folder: Path) -> AsyncIterator[MachineWorld]:
    async with machine_world(cp, folder) as world:
        for name in MACHINES:
            await world.make(name)
        yield world


async def assign(world: MachineWorld, machine: str, *names: str, state: str = "Running") -> None:
    entries = [
        {
            "name": name,
            "component": name,
            "revision": "1-0123456789",
            "configHash": "1-0123456789",
            "desiredState": state,
        }
        for name in names
    ]
    await world.kube.patch(custom("machines", machine), {"spec": {"components": entries}})


async def is_readable(kube: Kube, secret: str) -> bool:
    try:
        found: dict[str, Any] = await kube.get(secret_path(secret))
    except Forbidden:
        return False
    assert base64.b64decode(found["data"]["password"]).decode() == secret
    return True


async def wait_readable(kube: Kube, secret: str, *, readable: bool) -> None:
    async def look() -> bool:
        return await is_readable(kube, secret) is readable

    await until(look, f"{secret}: readable is not {readable}")


async def test_an_agent_reads_the_secrets_of_its_own_components_alone(
    secrets: ControlPlane, tmp_path: Path
) -> None:
    one, two = SECRETS
    async with (
        two_machines(secrets, tmp_path) as world,
        closing(world.agent(MACHINES[0])) as first,
        closing(world.agent(MACHINES[1])) as second,
    ):
        await assign(world, MACHINES[0], one)
        await assign(world, MACHINES[1], two)
        await wait_readable(first, one, readable=True)
        await wait_readable(second, two, readable=True)
        assert not await is_readable(first, two)
        assert not await is_readable(second, one)
        with pytest.raises(Forbidden):
            await first.get(resource("/api/v1", "secrets", namespace=COMPONENTS))


async def test_a_secret_is_no_longer_readable_once_its_component_leaves(
    secrets: ControlPlane, tmp_path: Path
) -> None:
    one, two = SECRETS
    async with (
        two_machines(secrets, tmp_path) as world,
        closing(world.agent(MACHINES[0])) as agent,
    ):
        await assign(world, MACHINES[0], one, two)
        await wait_readable(agent, one, readable=True)
        await wait_readable(agent, two, readable=True)
        await assign(world, MACHINES[0], two)
        await wait_readable(agent, one, readable=False)
        assert await is_readable(agent, two)
        await assign(world, MACHINES[0], two, state="Absent")
        await wait_readable(agent, two, readable=False)


async def test_the_rights_are_put_right_when_somebody_edits_or_deletes_them(
    secrets: ControlPlane, tmp_path: Path
) -> None:
    one, two = SECRETS
    async with (
        two_machines(secrets, tmp_path) as world,
        closing(world.agent(MACHINES[0])) as agent,
    ):
        await assign(world, MACHINES[0], one)
        await wait_readable(agent, one, readable=True)
        wide = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
        await world.kube.patch(rights_path("roles", MACHINES[0]), {"rules": wide})
        await world.kube.delete(rights_path("rolebindings", MACHINES[0]))
        await wait_readable(agent, one, readable=True)
        await wait_readable(agent, two, readable=False)


async def test_a_machine_without_secrets_has_no_role(secrets: ControlPlane, tmp_path: Path) -> None:
    async with two_machines(secrets, tmp_path) as world:
        await world.make("access-plain")
        await assign(world, MACHINES[0], SECRETS[0])
        async with closing(world.agent(MACHINES[0])) as agent:
            await wait_readable(agent, SECRETS[0], readable=True)
        with pytest.raises(NotFound):
            await world.kube.get(rights_path("roles", "access-plain"))


async def test_the_rights_belong_to_the_machine_and_go_with_it(
    secrets: ControlPlane, tmp_path: Path
) -> None:
    async with two_machines(secrets, tmp_path) as world:
        await assign(world, MACHINES[0], SECRETS[0])
        async with closing(world.agent(MACHINES[0])) as agent:
            await wait_readable(agent, SECRETS[0], readable=True)
        uid = (await world.machine(MACHINES[0])).metadata.uid
        for plural in ("roles", "rolebindings"):

            async def is_owned(plural: str = plural) -> bool:
                found = await world.kube.get(rights_path(plural, MACHINES[0]))
                return [o["uid"] for o in found["metadata"]["ownerReferences"]] == [uid]

            await until(is_owned, f"{plural} do not belong to the Machine")
