"""`kubenode watch`: the status of the fleet on the whole screen, read again until interrupted.

Without a terminal it prints the status once and then a line for each change of a node.
"""

import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from kubenode.api.meta import format_time
from kubenode.cli.cluster import connected
from kubenode.cli.fleet_state import read_state
from kubenode.cli.status import FleetStatus, activity_of, fleet_status, lines
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.errors import KubeError

REST_RATIO = 20
"""Pause after a read, as a multiple of its duration: a large cluster is read for at most a
twentieth of the time.
"""
MOST_CHANGES = 8
NodeStates = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WatchFrame:
    """What is shown at one time.

    changes: the latest changes of nodes, the newest first.
    fresh: those of them that the last read showed, the oldest first.
    problem: why the last read failed; "" if it did not.
    """

    status: FleetStatus
    changes: tuple[str, ...]
    fresh: tuple[str, ...] = ()
    problem: str = ""

    def lines(self) -> list[str]:
        """Return the text of the screen."""
        read_at = f"read at {format_time(self.status.now)}; Ctrl-C ends"
        head = [read_at if not self.problem else f"NOT CURRENT, {read_at}: {self.problem}", ""]
        changes = ["", "LATEST CHANGES", *self.changes] if self.changes else []
        return [*head, *lines(self.status, wide=False), *changes]


class WatchScreen(Protocol):
    def show(self, frame: WatchFrame) -> None: ...


def states_of(status: FleetStatus) -> NodeStates:
    """Return faults and activity of each node with a fault, in words."""
    return {
        node.name: f"{', '.join(fault.name for fault in node.faults)}: {activity_of(node)}"
        for node in status.nodes
    }


def list_changes(before: NodeStates, after: NodeStates, at: str) -> Iterator[str]:
    """Yield a line for each node whose faults or activity changed, by name."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{at}  {name}  {after.get(name, 'has no fault any more')}"


async def watch(
    read: Callable[[], Awaitable[FleetStatus]], screen: WatchScreen, clock: Clock, every: float
) -> None:
    """Show the status without an end. Raises KubeError if the first read fails.

    every: seconds between two reads at least.
    """
    changes = deque[str](maxlen=MOST_CHANGES)
    frame: WatchFrame | None = None
    while True:
        began = clock.monotonic()
        try:
            frame = _next_frame(frame, await read(), changes)
        except KubeError as error:
            if frame is None:
                raise
            frame = WatchFrame(frame.status, tuple(changes), problem=str(error))
        screen.show(frame)
        await clock.sleep(max(every, REST_RATIO * (clock.monotonic() - began)))


def _next_frame(before: WatchFrame | None, status: FleetStatus, changes: deque[str]) -> WatchFrame:
    if before is None:
        return WatchFrame(status, ())
    at = format_time(status.now)
    fresh = tuple(list_changes(states_of(before.status), states_of(status), at))
    changes.extendleft(fresh)
    return WatchFrame(status, tuple(changes), fresh)


class LineScreen:
    """Prints the first status, then a line for each change and for each failure to read."""

    def __init__(self, echo: Callable[[str], None] = typer.echo) -> None:
        self._echo = echo
        self._begun = False
        self._problem = ""

    def show(self, frame: WatchFrame) -> None:
        for line in self._new_lines(frame):
            self._echo(line)
        self._begun, self._problem = True, frame.problem

    def _new_lines(self, frame: WatchFrame) -> Iterable[str]:
        if not self._begun:
            return lines(frame.status, wide=False)
        if frame.problem and frame.problem != self._problem:
            return [f"cannot read the cluster: {frame.problem}"]
        return frame.fresh


class FullScreen:
    """Draws each frame on the whole terminal. What does not fit is cut at its end."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, frame: WatchFrame) -> None:
        text = Text("\n".join(frame.lines()), no_wrap=True, overflow="ellipsis")
        self._live.update(text, refresh=True)


async def watch_command(
    kubeconfig: str | None, context: str | None, namespace: str, every: float
) -> None:
    async with connected(kubeconfig, context) as kube:

        async def read() -> FleetStatus:
            return fleet_status(await read_state(kube, namespace))

        if not sys.stdout.isatty():
            await watch(read, LineScreen(), kube.clock, every)
        with Live(console=Console(), screen=True, auto_refresh=False) as live:
            await watch(read, FullScreen(live), kube.clock, every)
