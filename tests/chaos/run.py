"""Everything of the product is killed and stalled at random, on a real control plane, while nodes
fall ill: does it ever act wrongly, and does it come to its end?

    make chaos ARGS="--for 30m --seed 7"

etcd, kube-apiserver, Redis, two Remedy operators, three Kube Defenders and two Machine operators
are processes; kubelets, detectors, workloads and machines are those of the demo, and so are the
agents, whose code is the real one. Prints one line of JSON; exit code 1 if the run was not well.
The seed of a run makes its faults and blows anew, at the same times.
"""

import argparse
import asyncio
import json
import random
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.blows import Sort, Target, blows
from chaos.fleet import Fleet, Switched, policy, rules, scenario
from chaos.judgement import judged, left
from chaos.site import API_SERVER, REDIS, Site, site
from chaos.switchboard import switchboard
from chaos.victims import Striking
from support.running import running, until

from kubenode.api.duration import parse_duration
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect
from kubenode.runtime.process import serve
from simulation.demo.agents import Agents

UNHURRIED = 1e5
READY_SECONDS = 400.0
CALM_SECONDS = 420.0
"""In which all must be well after the last blow: a lease's time, and repairs in their turn."""
AFTER_SECONDS = 5.0
"""What is wrongly done at the very end shows by then."""
TARGETS = {
    API_SERVER: Target(0.7, {Sort.KILL: 15.0, Sort.FREEZE: 30.0}),
    REDIS: Target(0.7),
}


@dataclass(frozen=True, slots=True)
class Options:
    """lasts  seconds in which faults and blows come
    every   mean seconds between blows; `faults` those between faults
    """

    lasts: float
    seed: int
    nodes: int
    speed: float
    every: float
    faults: float
    storms: bool
    logs: Path | None = None


async def chaos(options: Options, found: Site, folder: Path) -> dict[str, Any]:
    clock = SystemClock()
    async with clients(found) as (kube, agents_kube, eyes):
        fleet = Switched(
            kube,
            eyes,
            scenario=scenario(
                options.nodes, options.speed, options.faults, options.lasts, options.storms
            ),
            nodes=options.nodes,
            seed=options.seed,
            speed=options.speed,
            policy=policy(options.speed, options.nodes),
            clock=clock,
            news=lambda text: None,
        )
        agents = Agents(
            agents_kube,
            fleet.hosts.values(),
            {},
            clock,
            options.speed,
            random.Random(f"agents {options.seed}"),
        )
        await _install(kube, options)
        await fleet.create()
        grace = max(rule.spec.startup_grace for rule in rules(options.speed)).total_seconds()
        async with (
            switchboard(fleet.machines, found.providers),
            running(serve([agents], fleet.ground())),
        ):
            for program in found.programs.values():
                program.start()
            await _ready(found)
            say(f"ready; faults come in {grace:.0f} s")
            await clock.sleep(grace)
            async with running(serve(fleet.sight())):
                await fleet.seen()
                return await _struck(options, fleet, Striking(found.victims))


async def _struck(options: Options, fleet: Fleet, striking: Striking) -> dict[str, Any]:
    began = time.monotonic()
    fleet.trouble.starts_at = began
    plan = list(
        blows(
            options.seed,
            options.lasts,
            {name: TARGETS.get(name, Target()) for name in striking.victims},
            options.every,
        )
    )
    async with running(_tell(fleet, began)), running(striking.keep()):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fleet.trouble.run())
            tasks.create_task(striking.run(plan, began))
        last = time.monotonic()
        say(f"the last blow fell after {last - began:.0f} s")
        with suppress(AssertionError):  # what is left then is told in the judgement
            await until(lambda: left(fleet).nothing, CALM_SECONDS)
    calm = time.monotonic()
    await asyncio.sleep(AFTER_SECONDS)
    remains = left(fleet)
    fleet.watching.apply(time.monotonic())
    return {
        "seed": options.seed,
        "nodes": options.nodes,
        "speed": options.speed,
        "seconds": round(last - began, 1),
        "calmAfter": round(calm - last, 1),
        **judged(fleet, remains, striking.struck),
        "endedByThemselves": dict(sorted(striking.ended.items())),
        "secondsBehind": round(fleet.behind, 1),
    }


async def _tell(fleet: Fleet, began: float) -> None:
    while True:
        await asyncio.sleep(30)
        remains = left(fleet)
        say(
            f"{time.monotonic() - began:.0f} s: {len(fleet.ledger.faults)} faults,"
            f" {len(remains.faults)} open, {len(remains.jobs)} jobs open,"
            f" {fleet.observer.acts} acts, {len(fleet.observer.false_actions)} false,"
            f" {[f.what for f in fleet.observer.limit_violations][-3:]} limits,"
            f" {fleet.watching.relists} gaps; {remains.faults[:3]} {remains.jobs[:5]}"
        )


async def _install(kube: Kube, options: Options) -> None:
    await kube.create(
        paths.custom("defenderpolicies"), policy(options.speed, options.nodes).to_dict()
    )
    for rule in rules(options.speed):
        await kube.create(paths.custom("noderemediers"), rule.to_dict())


async def _ready(found: Site) -> None:
    for name, program in found.programs.items():
        port = int(program.argv[program.argv.index("--health-port") + 1])
        await until(lambda port=port: listens(port), READY_SECONDS, f"{name} runs")  # type: ignore[misc]


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False


@asynccontextmanager
async def clients(found: Site) -> AsyncIterator[tuple[Kube, Kube, Kube]]:
    """Of the fleet, of its agents, and of the observer."""
    plain = str(found.plane.kubeconfig)
    made = [Kube(connect(at), rate=UNHURRIED, burst=UNHURRIED) for at in (plain, plain)]
    made.append(Kube(connect(str(found.eyes))))
    try:
        yield made[0], made[1], made[2]
    finally:
        for kube in made:
            await kube.close()


def run(options: Options) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="kubenode-chaos-") as folder, site(Path(folder)) as at:
        try:
            return asyncio.run(chaos(options, at, Path(folder)))
        finally:
            if options.logs is not None:
                shutil.copytree(folder, options.logs, dirs_exist_ok=True)


def chosen() -> Options:
    parser = argparse.ArgumentParser(prog="make chaos", description=str(__doc__).splitlines()[0])
    parser.add_argument("--for", dest="lasts", default="5m", help="faults and blows come so long")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10_000))
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--speed", type=float, default=4.0, help="how fast rules are")
    parser.add_argument("--every", default="10s", help="mean time between blows")
    parser.add_argument("--faults", default="10s", help="mean time between single faults")
    parser.add_argument("--storms", action="store_true", help="zones fail too")
    parser.add_argument("--logs", type=Path, help="folder for the logs of the processes")
    given = parser.parse_args()
    lasts, every, faults = (
        parse_duration(text).total_seconds() for text in (given.lasts, given.every, given.faults)
    )
    return Options(
        lasts, given.seed, given.nodes, given.speed, every, faults, given.storms, given.logs
    )


if __name__ == "__main__":
    options = chosen()
    say(f"seed {options.seed}")
    told = run(options)
    sys.stdout.write(json.dumps(told) + "\n")
    sys.exit(not told["holds"])
