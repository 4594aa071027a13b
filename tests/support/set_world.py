"""Component sets on a real API server: components, machines without Nodes, and their agents."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.component_agents import ComponentAgents, agents_of
from support.control_plane import ControlPlane
from support.machine_world import MachineWorld, closing, machine_world, until

from defender.client import Permits
from kubenode.api.v1alpha1 import MachineComponent, MachineComponentSet
from kubenode.api.v1alpha1.machinework import DesiredState
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.official import connect
from kubenode.runtime.kube.paths import custom

QUICK = {"batches": [1, 2], "maxUnavailable": 2, "bakeTime": "0s"}


class SetWorld:
    """An administrator's hands. Names begin with `tag`, so that tests share one server."""

    def __init__(self, world: MachineWorld, agents: ComponentAgents, tag: str) -> None:
        self.world, self.agents, self.tag, self.kube = world, agents, tag, world.kube
        self._made: list[tuple[str, str]] = []
        self._machines: set[str] = set()

    async def machines(self, count: int, **spec: Any) -> list[str]:
        names = [f"{self.tag}-m{i}" for i in range(count)]
        for i, name in enumerate(names):
            usual = {"node": "None", "failureDomain": f"z{i % 3}"}
            await self.world.make(name, **{**usual, **spec})
            labels = {"metadata": {"labels": {"test": self.tag}}}
            await self.kube.patch(custom("machines", name), labels)
        self._machines.update(names)
        return names

    async def component(self, version: str, text: str = "x=${values.x}", **spec: Any) -> str:
        name = f"{self.tag}-{version}"
        file = {"path": f"/etc/{self.tag}.conf", "content": {"inline": text}}
        body = {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "MachineComponent",
            "metadata": {"name": name},
            "spec": {
                "component": self.tag,
                "version": version,
                "source": {"type": "apt", "apt": {"packages": [{"name": "p", "version": version}]}},
                "files": [file],
                **spec,
            },
        }
        self._made.append(("machinecomponents", name))
        await self.kube.create(custom("machinecomponents"), body)
        return name

    async def set(self, component: str, name: str = "", **spec: Any) -> str:
        name = name or self.tag
        body = {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "MachineComponentSet",
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"test": self.tag}},
                "component": component,
                "values": {"x": "1"},
                "updateStrategy": QUICK,
                **spec,
            },
        }
        self._made.insert(0, ("machinecomponentsets", name))
        await self.kube.create(custom("machinecomponentsets"), body)
        return name

    async def change(self, **spec: Any) -> None:
        await self.kube.patch(custom("machinecomponentsets", self.tag), {"spec": spec})

    async def now(self, name: str = "") -> MachineComponentSet:
        path = custom("machinecomponentsets", name or self.tag)
        return await self.kube.get(path, MachineComponentSet.from_server)

    async def when(
        self, holds: Callable[[MachineComponentSet], bool], what: str, name: str = ""
    ) -> MachineComponentSet:
        async def look() -> MachineComponentSet | None:
            found = await self.now(name)
            return found if holds(found) else None

        return await until(look, what)

    async def completed(self, component: str) -> MachineComponentSet:
        """The set once all machines of this world have this component, by its own word.

        It may be complete earlier: the operator sees the set before the last machine's label, and
        that machine is a newcomer then.
        """

        def holds(set_: MachineComponentSet) -> bool:
            status = set_.status
            current = next((r for r in status.revisions if r.name == status.current_revision), None)
            done = status.phase == "Completed" and status.observed_generation
            everywhere = status.counts.machines == status.counts.updated == len(self._machines)
            return bool(
                done == set_.metadata.generation
                and everywhere
                and current
                and current.component == component
            )

        return await self.when(holds, f"{self.tag} is not completed with {component}")

    def has(self, name: str) -> str:
        """The MachineComponent that a machine shall have in force, "" for none."""
        machine = self.agents.machines.get(name)
        entries = machine.spec.components if machine is not None else []
        in_force = [e for e in entries if e.desired_state is not DesiredState.STAGED]
        return next((e.component for e in in_force if e.name == self.tag), "")

    async def gone(self, plural: str, name: str) -> bool:
        try:
            await self.kube.get(custom(plural, name))
        except NotFound:
            return True
        return False

    async def clean(self) -> None:
        for plural, name in self._made:
            try:
                await self.kube.patch(custom(plural, name), {"metadata": {"finalizers": None}})
                await self.kube.delete(custom(plural, name))
            except NotFound:
                continue


@asynccontextmanager
async def set_world(
    cp: ControlPlane,
    folder: Path,
    tag: str,
    *,
    kind: type[Kube] = Kube,
    permits: Permits | None = None,
    **agents: Any,
) -> AsyncIterator[SetWorld]:
    async with machine_world(cp, folder, kind=kind, permits=permits) as world:
        async with (
            closing(Kube(connect(str(cp.kubeconfig)))) as kube,
            agents_of(kube, **agents) as double,
        ):
            found = SetWorld(world, double, tag)
            yield found
        await found.clean()


def condition(set_: MachineComponentSet, type_: str) -> tuple[str, str, str]:
    """Status, reason and message."""
    found = next((c for c in set_.status.conditions if c.type == type_), None)
    return (str(found.status), found.reason, found.message) if found is not None else ("", "", "")


__all__ = ["MachineComponent", "SetWorld", "condition", "set_world"]
