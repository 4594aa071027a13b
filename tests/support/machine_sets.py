"""A site where machines are made: a cloud in memory, and hosts that join once they run."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from support.control_plane import ControlPlane
from support.fake_instances import FakeInstances
from support.machine_life import Hosts
from support.machine_world import MACHINES, MachineWorld, machine_world, until
from support.remedy_cluster import YesPermits

from defender.client import Permits
from kubenode.api.v1alpha1 import Machine, MachineClass, MachineSet, NodeClass, NodeSet
from kubenode.providers.instances import Instance, InstanceProviders
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube
from kubenode.runtime.kube.errors import AlreadyExists, NotFound
from machine.ground import MachineSettings
from machine.site_settings import Provisioning

T = TypeVar("T")
CLASS = "ecs-a"
KINDS_MADE = {kind.resource.kind: kind for kind in (MachineSet, MachineClass, NodeSet, NodeClass)}


def a_class(name: str = CLASS, **spec: Any) -> dict[str, Any]:
    fixed = {"provider": "local", "config": {"image": "debian"}, "failureDomain": "zone-a"}
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": {"name": name},
        "spec": {**fixed, "limits": {"createsPerMinute": 1000}, **spec},
    }


def a_set(name: str, replicas: int, **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"set": name}},
        "spec": {"classRef": CLASS, "minReady": "0s"},
    }
    selector = {"matchLabels": {"set": name}}
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "MachineSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template, **spec},
    }


class Cloud(FakeInstances):
    """lists  how often all instances were listed"""

    lists = 0

    async def list(self, cluster: str) -> Sequence[Instance]:
        self.lists += 1
        return await FakeInstances.list(self, cluster)


@dataclass
class Site:
    """joined  Machines whose hosts have joined, to whether their kubelets say Ready, since when"""

    world: MachineWorld
    cloud: Cloud
    permits: YesPermits
    hosts: Hosts
    joined: dict[str, tuple[bool, str]] = field(default_factory=dict)
    objects: list[str] = field(default_factory=list)

    @property
    def kube(self) -> Kube:
        return self.world.kube

    async def make(self, body: dict[str, Any]) -> None:
        plural = KINDS_MADE[body["kind"]].resource.plural
        self.objects.append(paths.custom(plural, body["metadata"]["name"]))
        await self.kube.create(paths.custom(plural), body)

    async def change(self, name: str, **spec: Any) -> None:
        await self.kube.patch(paths.custom("machinesets", name), {"spec": spec})

    async def members(self, name: str) -> list[Machine]:
        """Machines of a set, by name."""
        found = await self.kube.get(MACHINES, query={"labelSelector": f"set={name}"})
        return [Machine.model_validate(item, extra="ignore") for item in found["items"]]

    async def names(self, name: str) -> list[str]:
        return sorted(m.metadata.name for m in await self.members(name))

    async def the_set(self, name: str) -> MachineSet:
        return await self.kube.get(paths.custom("machinesets", name), MachineSet.from_server)

    async def counts(self, name: str, **counts: int) -> MachineSet:
        """The set once its status counts so."""

        async def so() -> MachineSet | None:
            found = await self.the_set(name)
            told = {key: getattr(found.status, key) for key in counts}
            return found if told == counts else None

        return await self._wait(so, name, f"counts {counts}")

    async def says(self, name: str, type_: str, reason: str, words: str = "") -> str:
        """The message of a condition once it has this reason and these words."""

        async def so() -> str | None:
            for condition in (await self.the_set(name)).status.conditions:
                told = (condition.type, condition.reason) == (type_, reason)
                if told and words in condition.message:
                    return condition.message
            return None

        return await self._wait(so, name, f"{type_} is {reason}")

    async def settled(self, name: str, *machines: str) -> None:
        """Wait until exactly these are the set's, and each has one instance."""

        async def so() -> bool | None:
            return await self.names(name) == sorted(machines) or None

        await self._wait(so, name, f"has {machines}")

    async def _wait(self, look: Callable[[], Awaitable[T | None]], name: str, what: str) -> T:
        try:
            return await until(look, what)
        except TimeoutError:
            told = (await self.the_set(name)).status.to_dict()
            machines = {m.metadata.name: m.status.to_dict() for m in await self.members(name)}
            raise AssertionError(f"{name}: not {what}: {told} {machines}") from None

    async def falls_ill(self, name: str) -> None:
        """Its Node is not Ready, as its kubelet says."""
        self.joined[name] = False, _now(self.kube)
        await self._heartbeat(name)

    async def live(self) -> None:
        """Hosts join as their instances come to be, for ever."""
        while True:
            found = await self.kube.get(MACHINES)
            for item in found["items"]:
                name, spec = item["metadata"]["name"], item["spec"]
                if spec.get("providerID", "") in self.cloud.instances and name not in self.joined:
                    await self._join(name, spec["providerID"])
            await asyncio.sleep(0.2)

    async def beat(self) -> None:
        """Kubelets and agents go on, for ever: a node that is silent for 40 s is taken for lost."""
        while True:
            await asyncio.sleep(5)
            for name in tuple(self.joined):
                with suppress(NotFound):
                    await self._heartbeat(name)
                    await self.hosts.beat(name)

    async def _join(self, name: str, provider_id: str) -> None:
        self.joined[name] = True, _now(self.kube)
        with suppress(AlreadyExists):
            await self.hosts.node(name, provider_id=provider_id)
        await self.hosts.beat(name)
        await self._heartbeat(name)

    async def _heartbeat(self, name: str) -> None:
        ready, since = self.joined[name]
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "reason": "Test",
            "lastHeartbeatTime": _now(self.kube),
            "lastTransitionTime": since,
        }
        body = {"status": {"conditions": [condition]}}
        await self.kube.patch(paths.node(name, "status"), body, STRATEGIC_PATCH)

    async def clean(self) -> None:
        """Sets first, or they would make more."""
        for path in reversed(self.objects):
            with suppress(NotFound):
                await self.kube.delete(path)
        await self.hosts.clean()
        for item in (await self.kube.get(MACHINES))["items"]:
            path = paths.custom("machines", item["metadata"]["name"])
            with suppress(NotFound):
                await self.kube.delete(path)
                await self.kube.patch(path, {"metadata": {"finalizers": None}})


def _now(kube: Kube) -> str:
    return kube.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


@asynccontextmanager
async def site(
    cp: ControlPlane,
    folder: Path,
    settings: MachineSettings | None = None,
    kind: type[Kube] = Kube,
    defender: Permits | None = None,
) -> AsyncIterator[Site]:
    """The operator with a cloud and a Kube Defender that grants, or this one, and one class."""
    cloud, permits = Cloud(), YesPermits()
    made = Provisioning(InstanceProviders([cloud]), "test", cp.server, cp.ca_file.read_text())
    async with machine_world(
        cp, folder, settings, kind=kind, permits=defender or permits, provisioning=made
    ) as world:
        here = Site(world, cloud, permits, Hosts(world))
        try:
            await here.make(a_class())
            async with asyncio.TaskGroup() as tasks:
                lives = [tasks.create_task(here.live()), tasks.create_task(here.beat())]
                yield here
                for life in lives:
                    life.cancel()
        finally:
            await here.clean()
