"""Agents of many machines in one place: they only write what agents write, Leases and status.

One informer serves all of them. A change takes `delay` seconds; what goes wrong is set by name.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kubenode.api.v1alpha1 import Machine, MachineComponent
from kubenode.api.v1alpha1.machinestatus import ComponentState, ComponentStatus
from kubenode.api.v1alpha1.machinework import AssignedComponent, ChangeClass, DesiredState
from kubenode.runtime.clock import Clock, SystemClock
from kubenode.runtime.controller.controller import Controller
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.paths import custom, lease, leases
from machine.machine.success import applied
from machine.names import LEASES

S = ComponentState
HOST = {"bootID": "boot-1", "os": "debian-12", "kernel": "6.1.0", "arch": "amd64", "agent": "0.3"}


@dataclass
class ComponentAgents:
    """needs   how much each change of a component disturbs, by MachineComponent
    bad     MachineComponents that fail, everywhere or on some machines: (component, machine)
    silent  machines whose agents are dead
    writes  of status, by machine
    acted   (machine, component, at) of every change of what is in force
    beating  how many renew their Leases side by side
    """

    kube: Kube
    delay: float = 0.0
    beat: float = 1.0
    clock: Clock = field(default_factory=SystemClock)
    needs: Callable[[str], ChangeClass | None] = lambda component: ChangeClass.DRAIN
    bad: set[str | tuple[str, str]] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    writes: dict[str, int] = field(default_factory=dict)
    acted: list[tuple[str, str, datetime]] = field(default_factory=list)
    workers: int = 16
    beating: int = 16
    resync: float = 450.0

    def __post_init__(self) -> None:
        self.machines: Informer[Machine] = Informer(
            self.kube, custom("machines"), Machine.from_server, resync=self.resync
        )
        self.components: Informer[MachineComponent] = Informer(
            self.kube, custom("machinecomponents"), MachineComponent.from_server
        )
        self.controller = Controller("agents", self._live, workers=self.workers)
        self.controller.watch(self.machines)
        self.controller.watch(self.components, lambda key, old, new: ())
        self._beating: set[str] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for part in (self.machines, self.components, self.controller):
                tasks.create_task(part.run())
            for share in range(self.beating):
                tasks.create_task(self._beat(share))

    def wake(self, machine: str) -> None:
        self.silent.discard(machine)
        self.controller.queue.add(machine)

    # -- Leases -------------------------------------------------------------------------------

    async def _beat(self, share: int) -> None:
        await self.machines.synced.wait()
        while True:
            began = self.clock.monotonic()
            for name in list(self.machines.cache):
                if name not in self.silent and hash(name) % self.beating == share:
                    await self._renew(name)
            await self.clock.sleep(max(0.05, self.beat - (self.clock.monotonic() - began)))

    async def _renew(self, name: str) -> None:
        now = self.clock.now().astimezone(UTC).isoformat().replace("+00:00", "Z")
        spec = {"holderIdentity": name, "leaseDurationSeconds": 120, "renewTime": now}
        if name not in self._beating:
            self._beating.add(name)
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": LEASES},
                "spec": spec,
            }
            try:
                await self.kube.create(leases(LEASES), body)
                return
            except AlreadyExists:
                pass
        await self.kube.patch(lease(LEASES, name), {"spec": spec})

    # -- components ---------------------------------------------------------------------------

    async def _live(self, name: str) -> Result:
        machine = self.machines.get(name)
        if machine is None or name in self.silent:
            return DONE
        known = {status.name: status for status in machine.status.components}
        assigned, after = machine.spec.components, dict(known)
        done = {entry.name for entry in assigned if applied(entry, known.get(entry.name))}
        acting = {name for name, status in known.items() if status.state is S.APPLYING}
        under = {need for e in assigned if e.name in acting for need in self._needed(e)}
        for entry in assigned:
            ready = entry.name not in under and done.issuperset(self._needed(entry))
            if ready or entry.name in acting:
                after[entry.name] = self._next(machine, entry, known.get(entry.name))
        for gone in known.keys() - {entry.name for entry in machine.spec.components}:
            del after[gone]
        acts = any(status.state is S.APPLYING for status in after.values())
        if after != known or machine.status.host is None:
            await self._write(machine, after)
        return Result(_seconds(self.delay)) if acts else DONE

    async def _write(self, machine: Machine, after: dict[str, ComponentStatus]) -> None:
        name = machine.metadata.name
        if self.delay and any(s.state is S.APPLYING for s in machine.status.components):
            await self.clock.sleep(self.delay)
        body: dict[str, Any] = {"components": [s.to_dict() for s in after.values()], "host": HOST}
        version = machine.metadata.resource_version
        written = await self.kube.patch(
            custom("machines", name, "status"),
            {"metadata": {"resourceVersion": version}, "status": body},
            decode=Machine.from_server,
        )
        self.writes[name] = self.writes.get(name, 0) + 1
        before = {s.name for s in machine.status.components if s.state is S.APPLYING}
        for entry in machine.spec.components:
            if entry.name in before and after[entry.name].state is not S.APPLYING:
                self.acted.append((name, entry.component, self.clock.now()))
        await self.machines.wait_for(name, written.metadata.resource_version)

    def _needed(self, entry: AssignedComponent) -> list[str]:
        """Families that it stands on: they come first."""
        component = self.components.get(entry.component)
        return [need.component for need in component.spec.depends_on] if component else []

    def _next(
        self, machine: Machine, entry: AssignedComponent, status: ComponentStatus | None
    ) -> ComponentStatus:
        """One step of the agent with one component."""
        now = status or ComponentStatus(name=entry.name)
        told = (now.revision, now.attempt) == (entry.revision, entry.attempt)
        echo = {"revision": entry.revision, "attempt": entry.attempt, "needs": None}
        if entry.desired_state is DesiredState.STAGED:
            return now.model_copy(update={**echo, "state": S.STAGED})
        if not told or now.state in (S.STAGED, S.PENDING):
            return self._begin(machine, entry, now, echo)
        if now.state is S.APPLYING:
            return self._end(machine, entry, now, echo)
        return now

    def _begin(
        self,
        machine: Machine,
        entry: AssignedComponent,
        now: ComponentStatus,
        echo: dict[str, Any],
    ) -> ComponentStatus:
        component, gone = (
            self.components.get(entry.component),
            entry.desired_state.value == "Absent",
        )
        version = component.spec.version if component is not None else ""
        same = now.version == version and now.config_hash == entry.config_hash
        if same and not gone and not self._bad(machine, entry):
            return now.model_copy(update={**echo, "state": S.HEALTHY})
        needs, permit = self.needs(entry.component), machine.spec.permit
        if needs is not None and not (
            permit is not None
            and entry.name in permit.components
            and permit.max_disruption.weight >= needs.weight
            and self.clock.now() < permit.start_before
        ):
            return now.model_copy(update={**echo, "state": S.STAGED, "needs": needs})
        return now.model_copy(update={**echo, "state": S.APPLYING})

    def _end(
        self,
        machine: Machine,
        entry: AssignedComponent,
        now: ComponentStatus,
        echo: dict[str, Any],
    ) -> ComponentStatus:
        if self._bad(machine, entry):
            why = {"reason": "HealthFailed", "message": "its service does not start"}
            return now.model_copy(update={**echo, **why, "state": S.ROLLED_BACK})
        if entry.desired_state is DesiredState.ABSENT:
            return now.model_copy(update={**echo, "state": S.ABSENT, "version": ""})
        component = self.components.get(entry.component)
        version = component.spec.version if component is not None else ""
        update = {**echo, "state": S.HEALTHY, "version": version, "reason": "", "message": ""}
        return now.model_copy(update={**update, "config_hash": entry.config_hash})

    def _bad(self, machine: Machine, entry: AssignedComponent) -> bool:
        both = (entry.component, machine.metadata.name)
        return entry.component in self.bad or both in self.bad


def _seconds(seconds: float) -> timedelta:
    return timedelta(seconds=max(seconds, 0.02))


@asynccontextmanager
async def agents_of(kube: Kube, **rest: Any) -> AsyncIterator[ComponentAgents]:
    agents = ComponentAgents(kube, **rest)
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(agents.run())
        yield agents
        work.cancel()
