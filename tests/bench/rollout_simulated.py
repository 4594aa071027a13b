"""A rollout over 10,000 Machines by simulated time: what the product does and that limits hold.

Method. The Machine operator and Kube Defender as they are, the embedded API server without a
network, and simulated agents, all on one loop whose clock is the processor time of its thread and
jumps where all wait (support.simulated_time). So the figures do not depend on what else the machine
does, and the seconds are those of one core that does everything. Work is booked by who did it.
The fleet has all components in their first version from the beginning, as an operator that starts
finds it; components stand on one another, three deep. Then `--sets` of the sets go to their second
version as in bench.rollout. A watch of its own looks at every change of a Machine: how many are out
of service at once, and whether a component changes while one that it stands on is not done.
"""

import argparse
import asyncio
import resource
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from bench.first_heal import node_list, say, wide_limits
from bench.rollout import GROWING, component, component_set, machine
from prometheus_client import CollectorRegistry
from support.component_agents import HOST, ComponentAgents
from support.direct_server import SERVER, DirectTransport
from support.simulated_time import OWNER, Books, LoopClock, SimulatedLoop

from defender.service import Defender
from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinestatus import ComponentState
from kubenode.api.v1alpha1.machinework import ChangeClass, DesiredState
from kubenode.apiserver import EmbeddedApiServer
from kubenode.cli.cluster import crds
from kubenode.runtime.components import wire
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.paths import custom
from kubenode.runtime.process import serve
from machine.componentset.revisions import Made, named
from machine.machine.success import applied, status_of
from machine.names import LEASES
from machine.operator import MachineOperator

AGENT_SECONDS = 0.2
BEAT = 50.0
"""Seconds between renewals of a Lease: an agent is silent after 120."""
LOOK = 2.0
PRODUCT, AGENTS = "product", "agents"


def options(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_argument_group("rollout_simulated")
    flags.add_argument("--simulated", type=int, default=300, metavar="N", help="machines")


def figures(chosen: argparse.Namespace) -> dict[str, Any]:
    books = Books()
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(books)) as runner:
        return runner.run(_figures(books, chosen.simulated, chosen.components, chosen.sets))


class Eyes:
    """most        machines at once that have a permit and not yet all that it is for
    disordered  changes of a component while one that it stands on was not done
    """

    def __init__(self, agents: ComponentAgents, needs: dict[str, str]) -> None:
        self.most, self.disordered, self._needs = 0, 0, needs
        self._down: set[str] = set()
        agents.machines.add_handler(self._changed)

    def _changed(self, name: str, old: Machine | None, new: Machine | None) -> None:
        if new is None:
            return
        entries = {entry.name: entry for entry in new.spec.components}
        done = {n for n, entry in entries.items() if applied(entry, status_of(new, n))}
        allowed = new.spec.permit.components if new.spec.permit is not None else ()
        (self._down.discard if done.issuperset(allowed) else self._down.add)(name)
        self.most = max(self.most, len(self._down))
        for status in new.status.components:
            if status.state is ComponentState.APPLYING and status.name in self._needs:
                self.disordered += self._needs[status.name] not in done


class Fleet:
    """What is there at first: Machines with all components in their first version, by sets."""

    def __init__(self, machines: int, components: int) -> None:
        self.families = [f"c{number:02d}" for number in range(components)]
        self.needs = {f: self.families[n // 4] for n, f in enumerate(self.families[1:])}
        self._machines = machines

    def objects(self) -> list[dict[str, Any]]:
        versions = [self._component(f, v) for f in self.families for v in (1, 2)]
        made = [_made(body) for body in versions[::2]]
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASES}}
        found = [space, wide_limits(), *versions, *map(component_set, self.families)]
        for number, body in enumerate(node_list(self._machines)["items"]):
            name = body["metadata"]["name"]
            body["metadata"].pop("annotations")
            ready = {"type": "Ready", "status": "True", "reason": "Bench"}
            found.append({**body, "status": {"conditions": [ready]}})
            found.append(_installed(machine(name, number), made))
        return found

    def _component(self, family: str, version: int) -> dict[str, Any]:
        body = component(family, version)
        if family in self.needs:
            body["spec"]["dependsOn"] = [{"component": self.needs[family]}]
        return body


def _made(body: dict[str, Any]) -> Made:
    spec, running = wire.spec_of(body["spec"]), DesiredState.RUNNING
    return Made(named(spec, {}, running, {}), body["metadata"]["name"], spec, {}, running, {})


def _installed(body: dict[str, Any], made: Sequence[Made]) -> dict[str, Any]:
    """The Machine with these components, as sets assigned them and its agent tells."""
    body["status"] = {"host": HOST, "bootstrap": {"certificateExpiresAt": "2099-01-01T00:00:00Z"}}
    read = Machine.from_user(body)
    assigned, told = [], []
    for one in made:
        family = one.spec.component
        both = {"name": family, "revision": one.name, "configHash": one.hash_on(read)}
        assigned.append({**both, "component": one.component, "set": family})
        told.append({**both, "state": "Healthy", "version": one.spec.version, "attempt": 1})
    body["spec"]["components"], body["status"]["components"] = assigned, told
    return body


class Site:
    """The server and who uses it; each under its own name in the books."""

    def __init__(self, server: EmbeddedApiServer, books: Books, tasks: asyncio.TaskGroup) -> None:
        self.books, self.clock = books, LoopClock.running()
        self.asked = {who: DirectTransport(server, books, tasks) for who in (PRODUCT, AGENTS)}

    def kube(self, who: str, **rest: Any) -> Kube:
        return Kube(self.asked[who], clock=self.clock, **rest)


async def _as(owner: str, work: Coroutine[Any, Any, None]) -> None:
    OWNER.set(owner)
    await work


async def _figures(books: Books, machines: int, components: int, sets: int) -> dict[str, Any]:
    fleet, clock = Fleet(machines, components), LoopClock.running()
    server = EmbeddedApiServer(crds=crds(), now=clock.now)
    say(f"making {machines} machines")
    server.load(fleet.objects())
    async with asyncio.TaskGroup() as tasks:
        site = Site(server, books, tasks)
        agents = ComponentAgents(
            site.kube(AGENTS, rate=1e6, burst=1e6),
            delay=AGENT_SECONDS,
            beat=BEAT,
            clock=clock,
            needs=lambda name: ChangeClass.RESTART if name.endswith("-2") else None,
            workers=64,
        )
        eyes = Eyes(agents, fleet.needs)
        others = tasks.create_task(_as(AGENTS, agents.run()))
        await agents.machines.synced.wait()
        phases = Phases(site, machines)
        product = tasks.create_task(_as(PRODUCT, _product(site)))
        begun = await phases.until(lambda: _running(server) and _at(server, 1, components))
        for family in fleet.families[:sets]:
            spec = {"component": f"{family}-2", "updateStrategy": GROWING}
            await site.kube(AGENTS).patch(custom("machinecomponentsets", family), {"spec": spec})
        rolled = await phases.until(lambda: _at(server, 2, sets))
        product.cancel()
        others.cancel()
    return {
        "machines": machines,
        "components": components,
        "sets": sets,
        "start": begun,
        "rollout": rolled,
        "most_unavailable": eyes.most,
        "allowed_unavailable": max(1, machines // 10) * sets,
        "out_of_order": eyes.disordered,
    }


async def _product(site: Site) -> None:
    fence, registry, kube = AlwaysLeader(), CollectorRegistry(), site.kube(PRODUCT)
    defender = Defender(kube, fence, site.clock, registry)
    operator = MachineOperator(kube, fence, site.clock, registry, permits=defender)
    parts, ground = [*defender.parts, *operator.parts], [*defender.ground, *operator.ground]
    await serve(parts, ground)


class Phases:
    """What it takes until something holds, in all and by machine."""

    def __init__(self, site: Site, machines: int) -> None:
        self._site, self._machines, self._memory = site, machines, _resident()

    async def until(self, holds: Callable[[], bool]) -> dict[str, Any]:
        site, machines, told = self._site, self._machines, time.monotonic()
        books, began = site.books, site.clock.monotonic()
        books.longest.clear()
        seconds = books.seconds.copy()
        asked = {who: transport.asked.copy() for who, transport in site.asked.items()}
        while not holds():
            await asyncio.sleep(LOOK)
            if time.monotonic() > told + 30:
                told = time.monotonic()
                say(f"{site.clock.monotonic() - began:.0f} s, {_resident() >> 20} MiB")
        took = books.seconds - seconds
        made = {who: transport.asked - asked[who] for who, transport in site.asked.items()}
        return {
            "seconds": round(site.clock.monotonic() - began, 1),
            "processor_ms_per_machine": {
                who: round(took[who] * 1000 / machines, 1) for who in (PRODUCT, AGENTS, SERVER)
            },
            "longest_turn_ms": round(books.longest.get(PRODUCT, 0.0) * 1000, 1),
            "requests_per_machine": {
                who: round(count.total() / machines, 1) for who, count in made.items()
            },
            "requests": dict(made[PRODUCT].most_common(12)),
            "memory_of_product_mib": (_resident() - self._memory) >> 20,
        }


def _running(server: EmbeddedApiServer) -> bool:
    """Whether the operator has taken every machine over."""
    machines = server.store.collection("machines.kubenode.io").records()
    return all(one.obj["status"].get("phase") == "Running" for one in machines)


def _at(server: EmbeddedApiServer, version: int, sets: int) -> bool:
    """Whether so many sets have completed this version."""
    done = 0
    for record in server.store.collection("machinecomponentsets.kubenode.io").records():
        meta, status = record.obj["metadata"], record.obj.get("status", {})
        wanted = record.obj["spec"]["component"] == f"{meta['name']}-{version}"
        seen = status.get("observedGeneration") == meta["generation"]
        if status.get("phase") == "Paused":
            raise SystemExit(f"{meta['name']} stopped: {status['conditions']}")
        complete = status.get("currentRevision") == status.get("updateRevision")
        done += wanted and seen and complete and status.get("phase") == "Completed"
    return done >= sets


def _resident() -> int:
    """Bytes that this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
