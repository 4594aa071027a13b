"""A day of chaos within minutes: the whole product on the embedded API server, in simulated time.

    make chaos-day ARGS="--for 24h --faults 10100 --seed 7"

Nothing but waiting takes time here (`chaos.instant`), and the fleet lives `--speed` times faster
than a real one, as in `kubenode demo`. Each program of the product dies at random, in the middle
of whatever it does, and lives again; the API server goes away and comes back. The judgement is
that of the run on a real control plane.
"""

import argparse
import asyncio
import gc
import json
import random
import secrets
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from chaos.blows import Blow, Sort, Target, blows
from chaos.disturbances import (
    Disturbance,
    Disturber,
    PlannedDisturbance,
    SteppedClock,
    plan_disturbances,
)
from chaos.fleet import Fleet, policy, rules, scenario
from chaos.instant import InstantLoop, by_chance_of, one_heap
from chaos.judgement import judged, left
from chaos.lives import DEFENDER, MACHINE, PROGRAMS, REMEDY, Line, Lives, Programs, Way
from chaos.restore import EtcdBackups
from support.memory import resident
from support.simulated_time import Books, LoopClock

from kubenode.api.duration import parse_duration
from kubenode.api.v1alpha1 import GROUP, KINDS
from kubenode.cli.cluster import crds
from kubenode.providers.registry import Providers
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.process import serve
from simulation.apiserver.server import EmbeddedApiServer
from simulation.demo.agents import Agents
from simulation.demo.controllers import defender_settings
from simulation.demo.server import hook, signing

API_SERVER = "kube-apiserver"
CALM_SECONDS = 900.0
AFTER_SECONDS = 5.0
LOOK_SECONDS = 1.0
LEAST_REPORT_SECONDS = 15.0
"""Each report collects garbage of the whole fleet first, some 0.1 s of processor time."""


@dataclass(frozen=True, slots=True)
class Day:
    """lasts  seconds of a real fleet in which faults and blows come; all others are those of the
    run, of which each stands for `speed` of a real fleet
    """

    lasts: float
    faults: int
    seed: int
    nodes: int
    speed: float
    every: float
    disturbances: tuple[Disturbance, ...] = tuple(Disturbance)

    @property
    def seconds(self) -> float:
        return self.lasts / self.speed


class Simulation:
    def __init__(self, day: Day, books: Books, tasks: asyncio.TaskGroup) -> None:
        self.day, self._books, self._tasks = day, books, tasks
        self.clock, self.way = LoopClock.running(), Way()
        hooks = {f"{kind.resource.plural}.{GROUP}": hook(kind) for kind in KINDS}
        self._server = EmbeddedApiServer(
            crds=crds(), admission=hooks, mutators=signing(self.clock), now=self.clock.now
        )
        self._policy = policy(day.speed, day.nodes)
        plan = scenario(day.nodes, day.speed, day.seconds / day.faults, day.seconds, storms=False)
        self._kube = self._client()
        self.fleet = Fleet(
            self._kube,
            self._client(Way()),
            scenario=plan,
            nodes=day.nodes,
            seed=day.seed,
            speed=day.speed,
            policy=self._policy,
            clock=self.clock,
            news=lambda text: None,
            pace=day.speed,
        )
        self.backups = EtcdBackups(
            self._server.store,
            self._client(),
            self.clock,
            self.fleet.watching,
            self.way.close,
            self.way.reopen,
        )
        self.fleet.host_acted_too = self.backups.host_acted
        self._clocks = {name: SteppedClock(self.clock) for name in PROGRAMS}
        programs = Programs(
            self._line,
            self._clocks,
            defender_settings(day.speed),
            Providers([self.fleet.machines]),
        )
        self.lives = {
            name: Lives(name, make)
            for name, make in (
                (DEFENDER, programs.defender),
                (REMEDY, programs.remedy),
                (MACHINE, programs.machine),
            )
        }

    def _line(self) -> Line:
        return self._line_by(self.way)

    def _line_by(self, way: Way) -> Line:
        line = Line(self._server, self._books, self._tasks)
        line.way = way
        return line

    def _client(self, way: Way | None = None) -> Kube:
        line = self._line_by(way or self.way)
        return Kube(line, clock=self.clock, rate=1e6, burst=1e6)

    async def run(self) -> dict[str, Any]:
        day, fleet = self.day, self.fleet
        installed = rules(day.speed)
        self._rules = {rule.metadata.name: rule.to_dict() for rule in installed}
        await self._kube.create(paths.custom("defenderpolicies"), self._policy.to_dict())
        for rule in installed:
            await self._kube.create(paths.custom("noderemediers"), rule.to_dict())
        await fleet.create()
        agents = Agents(
            self._client(),
            fleet.hosts.values(),
            {},
            self.clock,
            day.speed,
            random.Random(f"agents {day.seed}"),
        )
        async with asyncio.TaskGroup() as tasks:
            world = tasks.create_task(
                serve([agents, self.backups], [*fleet.ground(), *fleet.sight()])
            )
            product = [tasks.create_task(lives.run()) for lives in self.lives.values()]
            grace = max(rule.spec.startup_grace for rule in installed).total_seconds()
            await self.clock.sleep(grace)
            await fleet.seen()
            gc.collect()
            gc.freeze()  # the fleet stays
            found = await self._struck()
            for task in (world, *product):
                task.cancel()
        return found

    async def _struck(self) -> dict[str, Any]:
        day, fleet, began = self.day, self.fleet, self.clock.monotonic()
        fleet.trouble.starts_at = began
        targets = {name: Target(1.0, {Sort.KILL: 20.0}) for name in self.lives}
        targets[API_SERVER] = Target(0.5, {Sort.KILL: 20.0})
        plan = list(blows(day.seed, day.seconds, targets, day.every))
        disturbances = plan_disturbances(day.seed, day.seconds, day.every, day.disturbances)
        disturber = self._disturber()
        async with asyncio.TaskGroup() as tasks:
            told = tasks.create_task(self._tell(began))
            tasks.create_task(self._strike(plan, began))
            disturbing = tasks.create_task(self._disturb(disturber, disturbances, began))
            await fleet.trouble.run()
            await disturbing
            last = self.clock.monotonic()
            while not left(fleet).nothing and self.clock.monotonic() < last + CALM_SECONDS:
                await self.clock.sleep(LOOK_SECONDS)
            calm = self.clock.monotonic()
            await self.clock.sleep(AFTER_SECONDS)
            told.cancel()
        remains = left(fleet)
        fleet.watching.apply(self.clock.monotonic())
        return {
            "seed": day.seed,
            "nodes": day.nodes,
            "speed": day.speed,
            "hours": round((last - began) * day.speed / 3600, 2),
            "calmAfter": round(calm - last, 1),
            "disturbances": {kind.value: count for kind, count in disturber.done.items()},
            **judged(fleet, remains, plan, self.backups),
        }

    def _disturber(self) -> Disturber:
        return Disturber(
            self._client(),
            self.fleet,
            self._clocks,
            self.clock,
            self.day.speed,
            self.way.close_resource,
            self.way.open_resource,
            self.backups,
            self._rules,
        )

    async def _disturb(
        self, disturber: Disturber, plan: Iterable[PlannedDisturbance], began: float
    ) -> None:
        async with asyncio.TaskGroup() as tasks:
            for planned in plan:
                await self.clock.sleep(began + planned.at - self.clock.monotonic())
                tasks.create_task(disturber.disturb(planned))

    async def _strike(self, plan: Iterable[Blow], began: float) -> None:
        async with asyncio.TaskGroup() as tasks:
            for blow in plan:
                await self.clock.sleep(began + blow.at - self.clock.monotonic())
                tasks.create_task(self._blow(blow))

    async def _blow(self, blow: Blow) -> None:
        if blow.victim == API_SERVER:
            self.way.close()
            await self.clock.sleep(blow.lasts)
            self.way.reopen()
            return
        struck = list(self.lives.values()) if blow.sort is Sort.CUT else [self.lives[blow.victim]]
        for lives in struck:
            lives.end()
        await self.clock.sleep(blow.lasts)
        for lives in struck:
            lives.may_start.set()

    async def _tell(self, began: float) -> None:
        while True:
            await self.clock.sleep(max(self.day.seconds / 48, LEAST_REPORT_SECONDS))
            gc.collect()  # programs that died; by itself Python looks at all of it far too rarely
            fleet, remains = self.fleet, left(self.fleet)
            sys.stderr.write(
                f"{(self.clock.monotonic() - began) * self.day.speed / 3600:.1f} h of the fleet,"
                f" {time.process_time():.0f} s and {resident() >> 20} MiB of ours:"
                f" {len(fleet.ledger.faults)} faults, {len(remains.faults)} open"
                f" {remains.faults[:3]},"
                f" {len(remains.jobs)} jobs open,"
                f" {len(fleet.observer.false_actions)} false acts"
                f" {[(round(f.at), f.node, f.what) for f in fleet.observer.false_actions[-3:]]},"
                f" {[f.what for f in fleet.observer.limit_violations][-3:]} limits,"
                f" breakers {fleet.watching.breakers}, oldest jobs {remains.jobs[:5]}\n"
            )
            sys.stderr.flush()


class Over(Exception):
    """It has run: what follows watches may end."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.found = found


async def _simulated(day: Day, books: Books) -> None:
    async with asyncio.TaskGroup() as tasks:
        raise Over(await Simulation(day, books, tasks).run())


def run(day: Day) -> dict[str, Any]:
    loop = InstantLoop()
    found: dict[str, Any] = {}
    try:
        with by_chance_of(day.seed), one_heap():
            loop.run_until_complete(_simulated(day, loop.books))
    except* Over as over:
        for each in over.exceptions:
            assert isinstance(each, Over)
            found = each.found
    finally:
        loop.close()
    return found


def chosen() -> Day:
    parser = argparse.ArgumentParser(
        prog="make chaos-day", description=str(__doc__).splitlines()[0]
    )
    parser.add_argument("--for", dest="lasts", default="1h", help="of a real fleet's time")
    parser.add_argument("--faults", type=int, default=400, help="that come in that time")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10_000))
    parser.add_argument("--nodes", type=int, default=800)
    parser.add_argument("--speed", type=float, default=20.0, help="of the fleet")
    parser.add_argument("--every", default="15s", help="of the run: mean time between blows")
    parser.add_argument(
        "--disturbance",
        action="append",
        choices=[kind.value for kind in Disturbance],
        help="only of this kind; may be repeated",
    )
    o = parser.parse_args()
    lasts, every = (parse_duration(text).total_seconds() for text in (o.lasts, o.every))
    kinds = tuple(map(Disturbance, o.disturbance)) if o.disturbance else tuple(Disturbance)
    return Day(lasts, o.faults, o.seed, o.nodes, o.speed, every, kinds)


if __name__ == "__main__":
    told = run(chosen())
    sys.stdout.write(json.dumps(told) + "\n")
    sys.exit(not told["holds"])
