"""Nodes that flap for a week under every rule of the library in DryRun: what stays of it.

The Remedy operator and Kube Defender as they are, on the embedded API server without a network, on
a loop on which waiting takes no time (chaos.instant). A detector of each node turns some conditions
that the library's rules read to True and back, one turn a minute with the default period. After
each simulated day the objects of every kind in the store are counted, with their bytes as JSON, and
the resident memory of the process, which holds operator, API server and the latter's history of
watches. Events of more than an hour are removed, as a kube-apiserver does.
"""

import argparse
import asyncio
import gc
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

from chaos.instant import InstantLoop, by_chance_of, one_heap
from chaos.lives import DEFENDER, REMEDY, Line, Lives, Programs, Way
from support.memory import resident
from support.simulated_time import BEGAN, LoopClock

from defender.service import DefenderSettings
from kubenode.api.v1alpha1 import GROUP, KINDS, Expression
from kubenode.cli.cluster import crds
from kubenode.cli.library import library
from kubenode.providers.registry import Providers
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube
from simulation.apiserver import EmbeddedApiServer

DAY = 86_400.0
EVENTS_LAST = timedelta(hours=1)
HOUR = 3600.0
STORED = (
    *(f"{kind.resource.plural}.{GROUP}" for kind in KINDS),
    *("nodes", "events", "leases.coordination.k8s.io", "configmaps"),
)
HISTORY = 512
"""Changes of each resource that the API server keeps in memory, so that they are soon as many as
they will be.
"""
TOGETHER = 3
"""Conditions of one node that flap in the same period."""
INFO = {
    **{key: "x" for key in ("architecture", "containerRuntimeVersion", "kernelVersion")},
    **{key: "x" for key in ("kubeProxyVersion", "kubeletVersion", "machineID")},
    **{key: "x" for key in ("operatingSystem", "osImage", "systemUUID")},
}


@dataclass(frozen=True, slots=True)
class Week:
    """period  seconds from one fault of a condition to the next
    tell    is called with the figures of each simulated day, or of `every` seconds
    """

    nodes: int
    seconds: float
    period: float = 120.0
    every: float = DAY
    seed: int = 7
    tell: Callable[[dict[str, Any]], None] = lambda figures: None


def conditions_of_the_library() -> list[str]:
    """Types of conditions that rules of the library want to be True."""
    found = set[str]()
    for rule in library():
        if rule.spec.ladder:
            _collect(rule.spec.when, found)
    return sorted(found - {"Ready"})


def _collect(when: Expression | None, found: set[str]) -> None:
    """From the JSON: an expression is in another in many ways."""
    if when is None:
        return
    waiting: list[Any] = [when.model_dump(by_alias=True, mode="json", exclude_none=True)]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            condition = here.get("condition")
            if isinstance(condition, dict) and condition.get("status", "True") == "True":
                found.add(condition["type"])
            waiting += here.values()
        elif isinstance(here, list):
            waiting += here


class Flapping:
    def __init__(self, week: Week, loop: InstantLoop, tasks: asyncio.TaskGroup) -> None:
        self._week, self._loop, self._tasks = week, loop, tasks
        self._clock, self._way = LoopClock.running(), Way()
        self.server = EmbeddedApiServer(crds=crds(), now=self._clock.now, history=HISTORY)
        self._kube = Kube(self._line(), clock=self._clock, rate=1e6, burst=1e6)
        self._names = [f"n{number:03}" for number in range(week.nodes)]
        self._conditions = conditions_of_the_library()
        self.turns = 0

    def _line(self) -> Line:
        line = Line(self.server, self._loop.books, self._tasks)
        line.way = self._way
        return line

    async def run(self) -> dict[str, Any]:
        await self._prepare()
        clocks = {REMEDY: self._clock, DEFENDER: self._clock}
        programs = Programs(self._line, clocks, DefenderSettings(), Providers([]))
        lives = [Lives(DEFENDER, programs.defender), Lives(REMEDY, programs.remedy)]
        found: list[dict[str, Any]] = []
        async with asyncio.TaskGroup() as tasks:
            endless = [tasks.create_task(each.run()) for each in lives]
            endless += [tasks.create_task(self._flap(number)) for number in range(len(self._names))]
            endless.append(tasks.create_task(self._expire_events()))
            began = time.monotonic()
            for number in count(1):
                await self._clock.sleep(min(self._week.every, self._week.seconds))
                found.append({**self._figures(), "seconds": round(time.monotonic() - began)})
                self._week.tell(found[-1])
                if number * self._week.every >= self._week.seconds:
                    break
            for task in endless:
                task.cancel()
        return {
            "nodes": self._week.nodes,
            "periodSeconds": self._week.period,
            "rules": len(library()),
            "conditions": len(self._conditions),
            "days": found,
        }

    async def _prepare(self) -> None:
        for rule in library():
            made = rule.to_dict()
            if rule.spec.ladder:
                made["spec"]["mode"] = "DryRun"
            await self._kube.create(paths.custom("noderemediers"), made)
        long_ago = (BEGAN - timedelta(days=30)).isoformat()
        for number, name in enumerate(self._names):
            labels = {"topology.kubernetes.io/zone": f"z{number % 3}", "kubernetes.io/os": "linux"}
            await self._kube.create(paths.nodes(), {"metadata": {"name": name, "labels": labels}})
            ready = self._condition("Ready", "True", long_ago)
            status = {"conditions": [ready], "nodeInfo": {**INFO, "bootID": f"boot-{name}"}}
            await self._write(name, status)

    def _condition(self, type_: str, status: str, since: str) -> dict[str, str]:
        return {
            "type": type_,
            "status": status,
            "reason": "Flapping",
            "message": f"{type_} is {status}",
            "lastHeartbeatTime": self._clock.now().isoformat(),
            "lastTransitionTime": since,
        }

    async def _write(self, name: str, status: dict[str, Any]) -> None:
        await self._kube.patch(paths.node(name, "status"), {"status": status}, STRATEGIC_PATCH)

    async def _flap(self, number: int) -> None:
        """Kubelet and detectors of one node; after each hour other conditions have their turn."""
        chance = random.Random(f"{self._week.seed} {number}")
        half, long_ago = self._week.period / 2, (BEGAN - timedelta(days=30)).isoformat()
        await self._clock.sleep(chance.uniform(0, half))
        while True:
            types = chance.sample(self._conditions, TOGETHER)
            for _ in range(round(HOUR / self._week.period)):
                for status in ("True", "False"):
                    now = self._clock.now().isoformat()
                    conditions = [self._condition(type_, status, now) for type_ in types]
                    conditions.append(self._condition("Ready", "True", long_ago))
                    await self._write(self._names[number], {"conditions": conditions})
                    self.turns += 1
                    await self._clock.sleep(half)

    async def _expire_events(self) -> None:
        while True:
            await self._clock.sleep(HOUR / 4)
            oldest = (self._clock.now() - EVENTS_LAST).isoformat()
            page = await self._kube.get("/api/v1/events")
            for event in page["items"]:
                if event["lastTimestamp"] < oldest:
                    path = paths.events(event["metadata"]["namespace"])
                    await self._kube.delete(f"{path}/{event['metadata']['name']}")

    def _figures(self) -> dict[str, Any]:
        gc.collect()
        objects, sizes = Counter[str](), Counter[str]()
        for plural in STORED:
            for record in self.server.store.collection(plural).records():
                objects[plural] += 1
                sizes[plural] += len(record.raw)
        return {
            "simulatedDays": round(self._clock.monotonic() / DAY, 2),
            "turns": self.turns,
            "objects": dict(objects),
            "kilobytes": {plural: round(size / 1000) for plural, size in sizes.items()},
            "rssMB": round(resident() / 1e6, 1),
        }


class Over(Exception):
    """It has run: what follows watches may end."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.found = found


def flapped(week: Week) -> dict[str, Any]:
    async def whole(loop: InstantLoop) -> None:
        async with asyncio.TaskGroup() as tasks:
            raise Over(await Flapping(week, loop, tasks).run())

    loop = InstantLoop()
    found: dict[str, Any] = {}
    try:
        with by_chance_of(week.seed), one_heap():
            loop.run_until_complete(whole(loop))
    except* Over as over:
        for each in over.exceptions:
            assert isinstance(each, Over)
            found = each.found
    finally:
        loop.close()
    return found


def options(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_argument_group("flapping")
    flags.add_argument("--flap-nodes", type=int, default=10)
    flags.add_argument("--flap-days", type=float, default=0.25, help="simulated; 7 is the long run")
    flags.add_argument("--flap-period", type=float, default=120.0, help="seconds of one flap")
    flags.add_argument("--flap-every", type=float, default=0.0, help="days between two counts")


def figures(chosen: argparse.Namespace) -> dict[str, Any]:
    """After each simulated day, or each third of less than three."""
    every = chosen.flap_every or min(1.0, chosen.flap_days / 3)
    return flapped(
        Week(
            chosen.flap_nodes,
            chosen.flap_days * DAY,
            chosen.flap_period,
            every * DAY,
            tell=_say,
        )
    )


def _say(found: dict[str, Any]) -> None:
    sys.stderr.write(f"flapping: {json.dumps(found)}\n")
    sys.stderr.flush()
