"""The output of the running demo: a live view on a terminal, else a line every few seconds."""

import sys
from collections import Counter, deque
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.live import Live

from kubenode.runtime.clock import Clock
from simulation.demo.controllers import Controllers
from simulation.demo.insight import NO_INSIGHT, DemoInsight
from simulation.demo.scenarios import Scenario
from simulation.demo.summary import describe_slowness, is_too_slow
from simulation.demo.view import Screen, render
from simulation.demo.world import DemoWorld

REFRESH = 0.5
LINE_EVERY = 5.0


class Shown(Protocol):
    @property
    def scenario(self) -> Scenario: ...
    @property
    def nodes(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def speed(self) -> float: ...
    @property
    def json(self) -> bool: ...


class Terminal:
    """A Part. Lines go to standard error; only the summary is on standard output."""

    name = "terminal"

    def __init__(
        self, options: Shown, url: str, world: DemoWorld, news: deque[str], clock: Clock
    ) -> None:
        self._options = options
        self._url = url
        self._world = world
        self._news = news
        self._clock = clock
        self._live = sys.stdout.isatty() and not options.json
        self._footer = ""
        self._controllers: Controllers | None = None

    def begins(self) -> None:
        o = self._options
        self._say(f"API server {self._url}; making {o.nodes} nodes (seed {o.seed})")
        self._say(f"scenario {o.scenario.name}: {o.scenario.about}")
        self._say(
            f"speed {o.speed:g}: every duration of the rules and of the default policy is divided"
            f" by {o.speed:g}"
        )

    def made(self, grace: float | None) -> None:
        """Say when faults begin. None: the scenario has none."""
        if grace is None:
            return
        self._say(
            f"the first fault comes in {grace:.0f} s: rules leave new nodes alone for so long"
        )

    def ready(self, kubeconfig: Path, controllers: Controllers) -> None:
        self._controllers = controllers
        self._footer = f"kubectl --kubeconfig {kubeconfig} get nodes,noderemediers,knj -w"
        self._say(f"look beside it: {self._footer}")

    async def run(self) -> None:
        began = self._clock.monotonic()
        await self._show_dashboard()
        if self._live:
            await self._draw(began)
        while True:
            await self._clock.sleep(LINE_EVERY)
            self._say(self._line(self._clock.monotonic() - began))

    async def _show_dashboard(self) -> None:
        if self._controllers is not None:
            dashboard = self._controllers.dashboard
            await dashboard.server.listening.wait()
            self._say(f"dashboard: {dashboard.url}")
            self._show_insight(self._controllers.insight, dashboard.url)

    def _show_insight(self, insight: DemoInsight | None, dashboard_url: str) -> None:
        if insight is None:
            self._say(NO_INSIGHT)
            self._footer = f"{dashboard_url}  {self._footer}"
            return
        self._say(f"history: {insight.url}")
        self._footer = f"{dashboard_url}\nhistory: {insight.url}  {self._footer}"

    def _queue(self) -> list[str]:
        if self._controllers is None:
            return []
        return [place.node for place in self._controllers.defender.control.queue.waiting()]

    async def _draw(self, began: float) -> None:
        console = Console()
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(render(self._screen(self._clock.monotonic() - began)), refresh=True)
                await self._clock.sleep(REFRESH)

    def _screen(self, seconds: float) -> Screen:
        o, world = self._options, self._world
        return Screen(
            title=f"KubeNode demo, {o.scenario.name}: {o.nodes} nodes, seed {o.seed};"
            f" every duration of rules and policy is divided by {o.speed:g}",
            zones={place.name: place.zone for place in world.places},
            observer=world.observer,
            ledger=world.ledger,
            jobs=world.watching.jobs,
            policy=world.watching.policy_status,
            queue=self._queue(),
            news=list(self._news)[-4:],
            footer=f"Ctrl-C ends.  {self._footer}",
            seconds=seconds,
            speed=o.speed,
            behind=world.behind,
            progress=world.rollout.last_message if world.rollout is not None else "",
            has_faults=o.scenario.has_faults,
        )

    def _line(self, seconds: float) -> str:
        world = self._world
        faults = sum(f.kind.real for f in world.ledger.faults)
        phases = Counter(world.watching.phases)
        jobs = ", ".join(f"{phase} {count}" for phase, count in sorted(phases.items()))
        breakers = ", ".join(
            f"{scope.rpartition('=')[2]} {state}" for scope, state in world.watching.breakers
        )
        counts = [f"{faults} faults, {len(world.ledger.healed)} healed"]
        counts += [f"jobs: {jobs or 'none'}"]
        if world.rollout is not None:
            counts = [world.rollout.last_message or "the first versions are installed"]
        return "; ".join(
            [f"{seconds:.0f} s: {counts[0]}", *counts[1:], self._judgement()]
            + ([f"breakers: {breakers}"] if breakers else [])
        )

    def _judgement(self) -> str:
        world, observer = self._world, self._world.observer
        if is_too_slow(world.behind, self._options.speed):
            return describe_slowness(world.behind)
        if self._options.scenario.quiet:
            return "nothing fails by itself"
        return (
            f"false actions {len(observer.false_actions)},"
            f" limit violations {len(observer.limit_violations)}"
        )

    def _say(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")
