"""A rollout over 10,000 Machines by simulated time: what the product does and that limits hold.

Method. The Machine operator and Kube Defender as they are, the embedded API server without a
network, and simulated agents, all on one loop whose clock is the processor time of the product and
jumps where all wait (support.simulated_time): server and agents have machines of their own in
reality. So the figures do not depend on what else the machine does, and the seconds are those of
one core that the product has for itself. Work is booked by who did it. Full garbage collections
walk the objects of server and agents as well, which the product does not have in its memory: they
take no time of the clock and are booked on the collector, and what is there when a phase begins is
left out of them (as kubenode.runtime.garbage does it). So the product's figures lack its own full
collections, of which the collector's are an upper bound. Memory is that of all in one process.
The fleet has all components in their first version from the beginning, and Machines and sets are
as the operator has left them where it had one machine: it starts anew and finds them so.
Components stand on one another, three deep. Then `--sets` of the sets go to their second version as
in bench.rollout. A watch of its own looks at every change of a Machine: how many are out of service
at once, and whether a component changes while one that it stands on is not done.
"""

import argparse
import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

from bench.first_heal import say
from bench.installed_fleet import NODES, Example, Fleet, object_of
from bench.rollout import GROWING
from prometheus_client import CollectorRegistry
from support.component_agents import ComponentAgents
from support.direct_server import SERVER, DirectTransport
from support.memory import resident
from support.simulated_time import COLLECTOR, OWNER, Books, LoopClock, SimulatedLoop

from defender.service import Defender
from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinestatus import ComponentState
from kubenode.api.v1alpha1.machinework import ChangeClass
from kubenode.cli.cluster import crds
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.paths import custom
from kubenode.runtime.process import serve
from machine.machine.success import applied, status_of
from machine.operator import MachineOperator
from simulation.apiserver import EmbeddedApiServer
from simulation.apiserver.store import Record

AGENT_SECONDS = 0.2
BEAT = 50.0
"""Seconds between renewals of a Lease: an agent is silent after 120."""
LOOK = 2.0
MACHINES, SETS = "machines.kubenode.io", "machinecomponentsets.kubenode.io"
PRODUCT, AGENTS = "product", "agents"
OWNERS = (PRODUCT, AGENTS, SERVER, COLLECTOR)


def options(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_argument_group("rollout_simulated")
    flags.add_argument("--simulated", type=int, default=300, metavar="N", help="machines")


def figures(chosen: argparse.Namespace) -> dict[str, Any]:
    books = Books(elsewhere=(AGENTS, SERVER))
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(books)) as runner:
        example = runner.run(_example(books, chosen.components))
        fleet = Fleet(chosen.simulated, chosen.components)
        return runner.run(_figures(books, fleet, example, chosen.sets))


class Eyes:
    """most        machines at once that have a permit and not yet all that it is for
    disordered  changes begun before what they stand on was done, or under what was changing
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
        before = _applying(old) if old is not None else set()
        for begun in _applying(new) - before:
            need = self._needs.get(begun)
            self.disordered += need is not None and need not in done
            self.disordered += any(self._needs.get(other) == begun for other in before)


def _all(server: EmbeddedApiServer, resource_: str) -> Iterator[Record]:
    return server.store.collection(resource_).records()


def _applying(machine: Machine) -> set[str]:
    return {s.name for s in machine.status.components if s.state is ComponentState.APPLYING}


class Site:
    """The server and who uses it; each under its own name in the books."""

    def __init__(self, server: EmbeddedApiServer, books: Books, tasks: asyncio.TaskGroup) -> None:
        self.server, self.books, self.clock = server, books, LoopClock.running()
        self.asked = {who: DirectTransport(server, books, tasks) for who in (PRODUCT, AGENTS)}

    def kube(self, who: str, **rest: Any) -> Kube:
        return Kube(self.asked[who], clock=self.clock, **rest)


async def _as(owner: str, work: Coroutine[Any, Any, None]) -> None:
    OWNER.set(owner)
    await work


async def _example(books: Books, components: int) -> Example:
    fleet = Fleet(1, components)
    async with _site(books, fleet, Example()) as (site, _):
        server = site.server
        await Phases(site, 1).until(lambda: _running(server) and _at(server, 1, components))
        (name,) = (r.obj["metadata"]["name"] for r in _all(server, MACHINES))
        sets = {f: object_of(server, SETS, f) for f in fleet.families}
        return Example(object_of(server, MACHINES, name), object_of(server, NODES, name), sets)


async def _figures(books: Books, fleet: Fleet, example: Example, sets: int) -> dict[str, Any]:
    say(f"making {fleet.machines} machines")
    async with _site(books, fleet, example) as (site, eyes):
        phases, server, all_ = Phases(site, fleet.machines), site.server, len(fleet.families)
        begun = await phases.until(lambda: _running(server) and _taken_over(server, fleet.machines))
        say(f"rolling out {sets} sets")
        for family in fleet.families[:sets]:
            spec = {"component": f"{family}-2", "updateStrategy": GROWING}
            await site.kube(AGENTS).patch(custom("machinecomponentsets", family), {"spec": spec})
        rolled = await phases.until(lambda: _at(server, 2, sets))
    return {
        "machines": fleet.machines,
        "components": all_,
        "sets": sets,
        "start": begun,
        "rollout": rolled,
        "most_unavailable": eyes.most,
        "allowed_unavailable": max(1, fleet.machines // 10) * sets,
        "out_of_order": eyes.disordered,
    }


@asynccontextmanager
async def _site(books: Books, fleet: Fleet, example: Example) -> AsyncIterator[tuple[Site, Eyes]]:
    """The fleet under the product, with its agents."""
    clock = LoopClock.running()
    server = EmbeddedApiServer(crds=crds(), now=clock.now)
    fleet.load(server, example)
    async with asyncio.TaskGroup() as tasks:
        site = Site(server, books, tasks)
        agents = ComponentAgents(
            site.kube(AGENTS, rate=1e6, burst=1e6),
            delay=AGENT_SECONDS,
            beat=BEAT,
            clock=clock,
            needs=lambda name: ChangeClass.RESTART if name.endswith("-2") else None,
            workers=64,
            beating=1000,
        )
        eyes = Eyes(agents, fleet.needs)
        others = tasks.create_task(_as(AGENTS, agents.run()))
        await agents.machines.synced.wait()
        product = tasks.create_task(_as(PRODUCT, _product(site)))
        yield site, eyes
        product.cancel()
        others.cancel()


async def _product(site: Site) -> None:
    fence, registry, kube = AlwaysLeader(), CollectorRegistry(), site.kube(PRODUCT)
    defender = Defender(kube, fence, site.clock, registry)
    operator = MachineOperator(kube, fence, site.clock, registry, permits=defender)
    parts, ground = [*defender.parts, *operator.parts], [*defender.ground, *operator.ground]
    await serve(parts, ground)


class Phases:
    """What it takes until something holds, in all and by machine."""

    def __init__(self, site: Site, machines: int) -> None:
        self._site, self._machines, self._memory = site, machines, resident()

    async def until(self, holds: Callable[[], bool]) -> dict[str, Any]:
        site, machines, told = self._site, self._machines, time.monotonic()
        books, began = site.books, site.clock.monotonic()
        books.longest.clear()
        gc.freeze()
        seconds = dict(books.seconds)
        asked = {who: transport.asked.copy() for who, transport in site.asked.items()}
        while not holds():
            await asyncio.sleep(LOOK)
            if time.monotonic() > told + 30:
                told = time.monotonic()
                far = f"{_updated(site.server)} changes"
                say(f"{site.clock.monotonic() - began:.0f} s, {resident() >> 20} MiB, {far}")
        took = {who: books.seconds[who] - seconds.get(who, 0.0) for who in OWNERS}
        made = {who: transport.asked - asked[who] for who, transport in site.asked.items()}
        found = {
            "seconds": round(site.clock.monotonic() - began, 1),
            "processor_ms_per_machine": {
                who: round(took[who] * 1000 / machines, 1) for who in OWNERS
            },
            "longest_turn_ms": round(books.longest.get(PRODUCT, 0.0) * 1000, 1),
            "requests_per_machine": {
                who: round(count.total() / machines, 1) for who, count in made.items()
            },
            "requests": dict(made[PRODUCT].most_common(12)),
            "memory_mib": resident() >> 20,
            "memory_grown_mib": (resident() - self._memory) >> 20,
        }
        say(json.dumps(found))
        return found


def _running(server: EmbeddedApiServer) -> bool:
    """Whether the operator has taken every machine over."""
    return all(r.obj["status"].get("phase") == "Running" for r in _all(server, MACHINES))


def _taken_over(server: EmbeddedApiServer, machines: int) -> bool:
    """Whether each set has counted them all."""
    return all(r.obj["status"]["counts"]["healthy"] == machines for r in _all(server, SETS))


def _updated(server: EmbeddedApiServer) -> int:
    """Machines that have the wanted revision, of all sets that are not done."""
    told = [record.obj.get("status", {}) for record in _all(server, SETS)]
    going = [status for status in told if status.get("phase") != "Completed"]
    return sum(status.get("counts", {}).get("updated", 0) for status in going)


def _at(server: EmbeddedApiServer, version: int, sets: int) -> bool:
    """Whether so many sets have completed this version."""
    done = 0
    for record in _all(server, SETS):
        meta, status = record.obj["metadata"], record.obj.get("status", {})
        wanted = record.obj["spec"]["component"] == f"{meta['name']}-{version}"
        seen = status.get("observedGeneration") == meta["generation"]
        if (why := _stopped(status)) is not None:
            raise SystemExit(f"{meta['name']} stopped: {why}")
        complete = status.get("currentRevision") == status.get("updateRevision")
        done += wanted and seen and complete and status.get("phase") == "Completed"
    return done >= sets


def _stopped(status: dict[str, Any]) -> dict[str, Any] | None:
    """Why a rollout will not go on; what thaws by itself is only waited for."""
    told = (c for c in status.get("conditions", ()) if c["type"] == "Paused")
    return next((c for c in told if c["status"] == "True" and c["reason"] != "Meltdown"), None)
