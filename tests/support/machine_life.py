"""Nodes, agents' Leases and component reports, as hosts of Machines would have them."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from support.machine_world import MACHINES, MachineWorld, a_machine, until

from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.errors import Conflict, NotFound
from machine.names import LEASES


def a_node(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}


class Hosts:
    """What a world's hosts do; whatever they made is taken away by `clean`."""

    def __init__(self, world: MachineWorld) -> None:
        self.world, self.kube = world, world.kube
        self._nodes: dict[str, bool] = {}
        self._machines: list[str] = []
        self._leases: list[str] = []

    async def make(self, name: str, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        body = a_machine(name, **{"minReady": "1s", **spec})
        body["metadata"]["annotations"] = annotations or {}
        body["metadata"]["labels"] = {"pool": name}
        if spec.get("origin") == "Provision":
            body["spec"].pop("addresses")
        self._machines.append(name)
        await self.kube.create(MACHINES, body)

    async def node(self, name: str, *, ready: bool = True, **metadata: Any) -> None:
        self._nodes[name] = ready
        spec = {"taints": metadata.pop("taints", [])}
        if provider_id := metadata.pop("provider_id", ""):
            spec["providerID"] = provider_id
        await self.kube.create(paths.nodes(), {**a_node(name, **metadata), "spec": spec})
        await self.ready(name, ready=ready)

    async def ready(self, name: str, *, ready: bool = True) -> None:
        self._nodes[name] = ready
        await self._heartbeat(name)

    async def live(self) -> None:
        """Kubelets and agents go on, until cancelled: a node that is silent for 40 s is taken for
        lost, and one sign of an agent says nothing to who began to look after it.
        """
        while True:
            await asyncio.sleep(5)
            for name in tuple(self._nodes):
                with suppress(NotFound):
                    await self._heartbeat(name)
            for name in tuple(self._leases):
                with suppress(NotFound):
                    await self.beat(name)

    async def _heartbeat(self, name: str) -> None:
        status = "True" if self._nodes[name] else "False"
        now = self.kube.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "Ready", "status": status, "reason": "Test", "lastHeartbeatTime": now}
        path = paths.node(name, "status")
        await self.kube.patch(path, {"status": {"conditions": [condition]}})

    async def beat(self, name: str) -> None:
        """The agent lives: its Lease is made, or renewed."""
        now = self.kube.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": 120, "renewTime": now}
        if name in self._leases:
            await self.kube.patch(paths.lease(LEASES, name), {"spec": spec})
            return
        meta = {"name": name, "namespace": LEASES}
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        await self.kube.create(paths.leases(LEASES), {**kind, "metadata": meta, "spec": spec})
        self._leases.append(name)

    async def report(self, name: str, **components: dict[str, Any]) -> None:
        """The agent says of its components."""
        body = {"components": [{"name": key, **said} for key, said in components.items()]}
        await self.kube.patch(paths.custom("machines", name, "status"), {"status": body})

    async def assign(self, name: str, *components: dict[str, Any]) -> None:
        spec = {"components": list(components)}
        await self.kube.patch(paths.custom("machines", name), {"spec": spec})

    async def change(self, name: str, spec: dict[str, Any]) -> None:
        await self.kube.patch(paths.custom("machines", name), {"spec": spec})

    async def seen(self, name: str, look: Callable[[Machine], bool], what: str) -> Machine:
        """The Machine once it is so."""
        last: list[Machine] = []

        async def found() -> Machine | None:
            machine = await self.world.machine(name)
            last[:] = [machine]
            return machine if look(machine) else None

        try:
            return await until(found, what)
        except TimeoutError:
            raise AssertionError(f"{name}: not {what}: {last[0].status.to_dict()}") from None

    async def phase(self, name: str, phase: str) -> Machine:
        return await self.seen(name, lambda m: m.status.phase == phase, f"in phase {phase}")

    async def condition(self, name: str, type_: str, reason: str) -> str:
        def so(machine: Machine) -> bool:
            found = machine.status.condition(type_)
            return found is not None and found.reason == reason

        machine = await self.seen(name, so, f"{type_} {reason}")
        condition = machine.status.condition(type_)
        assert condition is not None
        return condition.message

    async def live_node(self, name: str) -> dict[str, Any]:
        return await self.kube.get(paths.node(name))

    async def gone(self, path: str) -> None:
        async def is_gone() -> bool:
            try:
                await self.kube.get(path)
            except NotFound:
                return True
            return False

        await until(is_gone, f"{path} is still there")

    async def clean(self) -> None:
        """Nothing is left for the next test's operator to look after."""
        for name in self._machines:
            await self._drop(paths.custom("machines", name))
        for name in self._nodes:
            await self._drop(paths.node(name))
        for name in self._leases:
            await self._drop(paths.lease(LEASES, name))

    async def _drop(self, path: str) -> None:
        try:
            await self.kube.delete(path)
            while True:
                await self.kube.patch(path, {"metadata": {"finalizers": None}})
                await asyncio.sleep(0.02)
        except (NotFound, Conflict):
            return


def healthy(revision: str, attempt: int = 1, config: str = "1-00000000cc") -> dict[str, Any]:
    """What an agent says of a component that is well."""
    return {"revision": revision, "attempt": attempt, "configHash": config, "state": "Healthy"}


def assigned(name: str, revision: str, config: str = "1-00000000cc") -> dict[str, Any]:
    return {
        "name": name,
        "component": f"{name}-1",
        "set": "",
        "revision": revision,
        "configHash": config,
    }
