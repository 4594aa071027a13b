"""`kubenode demo`: everything in one process, for a minute or for an afternoon.

It runs the embedded API server, the simulated fleet, and the real KubeNode: remedy operator, Kube
Defender and an agent for each host. Rules and the default policy are those that ship, with every
duration divided by `--speed`. SIGINT and SIGTERM end it within LEAVE_SECONDS with the summary and
exit code 0, since stopping a demo is no failure. Before the fleet exists they end it with 130.
"""

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

from kubenode.api.scale import scaled
from kubenode.api.v1alpha1 import default_policy
from kubenode.cli.cluster import require_engine
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.library import library
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.process import Part, serve
from kubenode.runtime.telemetry import logging as logs
from remedy.job.steps.table import unable
from simulation.apiserver.server import EmbeddedApiServer
from simulation.demo.controllers import controllers
from simulation.demo.history import past_events
from simulation.demo.insight import NO_INSIGHT, DemoInsight, has_insight
from simulation.demo.run_length import read_seconds
from simulation.demo.scenarios import RELEASE, SCENARIOS, Scenario
from simulation.demo.server import api_server, client
from simulation.demo.signals import INTERRUPTED, leave_in_time, run_until_stopped
from simulation.demo.summary import Run, describe, summary
from simulation.demo.terminal import Terminal
from simulation.demo.world import DemoWorld

NEWS = 50
MOST_DAYS = 400


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run.

    lasts: seconds; None to run until it is stopped.
    port: 0 for a free port.
    past: length of the simulated past.
    """

    scenario: Scenario
    nodes: int
    lasts: float | None
    seed: int
    speed: float
    json: bool
    port: int
    past: timedelta = timedelta(0)

    @classmethod
    def of(
        cls,
        *,
        scenario: str,
        nodes: int | None,
        lasts: str | None,
        seed: int | None,
        speed: float | None,
        json: bool,
        port: int,
        seed_history: str | None = None,
    ) -> Self:
        """Parse the command line. Number of nodes and speed default to those of the scenario.

        Raises Refusal.
        """
        if scenario not in SCENARIOS:
            known = ", ".join((*SCENARIOS, RELEASE))
            raise Refusal(f"--scenario {scenario}: no such scenario; choose {known}", Exit.USAGE)
        seconds = read_seconds(lasts)
        chosen = seed if seed is not None else secrets.randbelow(10_000)
        plan = SCENARIOS[scenario]
        nodes, speed = nodes or plan.nodes, speed or plan.speed
        past = read_past(seed_history)
        return cls(plan, nodes, seconds, chosen, speed, json, port, past)


def read_past(text: str | None) -> timedelta:
    """Return the length of the simulated past. Raises Refusal."""
    if text is None:
        return timedelta(0)
    if not has_insight():
        raise Refusal(f"--seed-history {text}: {NO_INSIGHT}", Exit.USAGE)
    days = text.removesuffix("d")
    if not (text.endswith("d") and days.isdecimal() and 1 <= int(days) <= MOST_DAYS):
        raise Refusal(
            f"--seed-history {text}: write a number of days from 1d to {MOST_DAYS}d, such as 90d",
            Exit.USAGE,
        )
    return timedelta(days=int(days))


def demo(options: Options) -> None:
    """Run until stopped, and print the summary: sentences, or one line of JSON with `json`.

    Raises SystemExit(130) if it is stopped before the fleet exists.
    """
    require_engine()
    logs.setup("warning" if options.json or not sys.stdout.isatty() else "error")
    running = Demo(options)
    asyncio.run(running.run())
    if running.result is None:
        raise SystemExit(INTERRUPTED)
    print_summary(running.result, as_json=options.json)


def print_summary(result: dict[str, Any], *, as_json: bool) -> None:
    text = json.dumps(result) if as_json else "\n".join(describe(result))
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Demo:
    """One run of the demo.

    result: the summary; None before the end. It is taken before any part stops, so that stopping
        cannot change it.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.clock = SystemClock()
        self.news: deque[str] = deque(maxlen=NEWS)
        self.policy = scaled(default_policy(), options.speed)
        # The registry would reject the others, with one log line for each.
        ours = (rule for rule in library() if not unable(rule.spec))
        self.rules = [scaled(rule, options.speed) for rule in ours]
        self.result: dict[str, Any] | None = None
        self._folder: Path | None = None
        self._world: DemoWorld | None = None
        self._began = 0.0

    async def run(self) -> None:
        """Run until a signal or the end of the time. Raises the error of a part that fails."""
        await run_until_stopped(self._work(), self._end)

    def _end(self) -> None:
        """Take the summary, and ensure that the process ends even if a part does not."""
        if self._world is None or self.result is not None:
            return
        o, world = self.options, self._world
        now = self.clock.monotonic()
        world.watching.apply(now)
        run = Run(o.scenario.name, o.nodes, o.seed, o.speed, now - self._began, world.behind)
        watching = world.watching
        self.result = summary(
            run, world.ledger, world.observer, watching.phases, watching.relists, now
        )
        if world.rollout is not None:
            self.result["rollout"] = world.rollout.summary()
        leave_in_time(self._leave)

    def _leave(self) -> None:
        """End the process, since some part did not end in time.

        The engine's child process ends with it.
        """
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self.result is not None:
            print_summary(self.result, as_json=self.options.json)
        os._exit(0)

    async def _work(self) -> None:
        async with (
            api_server(self.options.port) as server,
            self._clients(server.url) as clients,
        ):
            await self._run(server, clients)

    @contextlib.asynccontextmanager
    async def _clients(self, url: str) -> AsyncIterator["Clients"]:
        clients = Clients(*(client(url, self.clock) for _ in range(4)))
        try:
            yield clients
        finally:
            for kube in (clients.fleet, clients.eyes, clients.central, clients.agents):
                await kube.close()

    async def _run(self, server: EmbeddedApiServer, clients: "Clients") -> None:
        o = self.options
        world = DemoWorld(
            clients.fleet,
            clients.eyes,
            scenario=o.scenario,
            nodes=o.nodes,
            seed=o.seed,
            speed=o.speed,
            policy=self.policy,
            clock=self.clock,
            news=self.news.append,
        )
        terminal = Terminal(o, server.url, world, self.news, self.clock)
        terminal.begins()
        await self._install(clients.fleet)
        await world.create()
        grace = max(rule.spec.startup_grace for rule in self.rules).total_seconds()
        world.trouble.starts_at = self.clock.monotonic() + grace
        terminal.made(grace if o.scenario.has_faults else None)
        with (
            tempfile.TemporaryDirectory(prefix="kubenode-demo-") as folder,
            controllers(
                clients.central,
                clients.agents,
                world.hosts,
                world.machines,
                world.software,
                self.clock,
                o.speed,
                o.seed,
                self._insight(Path(folder), world),
            ) as ours,
        ):
            self._folder = Path(folder)
            kubeconfig = self._folder / "kubeconfig"
            await server.write_kubeconfig(kubeconfig)
            terminal.ready(kubeconfig, ours)
            self._world, self._began = world, self.clock.monotonic()
            parts = [*ours.parts, *world.stories, terminal]
            await self._serve(parts, [*ours.ground, *world.ground()])

    def _insight(self, folder: Path, world: DemoWorld) -> DemoInsight | None:
        """Return Insight with its past, None without its packages."""
        if not has_insight():
            return None
        o, now = self.options, self.clock.now()
        past = partial(past_events, world.places, o.seed, now, o.past)
        return DemoInsight(folder, self.clock, past)

    async def _install(self, kube: Kube) -> None:
        await kube.create(paths.custom("defenderpolicies"), self.policy.to_dict())
        for rule in self.rules:
            await kube.create(paths.custom("noderemediers"), rule.to_dict())

    async def _serve(self, parts: list[Part], ground: list[Part]) -> None:
        """Run the parts until the time is over. Raises the error of a part that fails."""
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(serve(parts, ground))
            await asyncio.wait({work}, timeout=self.options.lasts)
            if not work.done():
                self._end()
                work.cancel()


@dataclass(frozen=True, slots=True)
class Clients:
    """API clients: one for each group that would be separate processes or machines."""

    fleet: Kube
    eyes: Kube
    central: Kube
    agents: Kube
