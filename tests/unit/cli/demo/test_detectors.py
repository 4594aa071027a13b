"""The simulated detectors: what they report arrives in order, and nothing of it is lost."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from support.clock import FakeClock

from kubenode.runtime.kube.errors import KubeError
from simulation.demo.agenda import Agenda
from simulation.demo.detectors import CHECKS, DemoDetectors
from simulation.demo.fleet import places
from simulation.demo.hosts import CONTAINERD, DemoHost, Illness

RUNTIME = next(check for check in CHECKS if check.type == "ContainerRuntimeUnhealthy")


class Server:
    """What is said of a node, as patches arrive. `slow` holds back the next one until it is set."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.slow: asyncio.Event | None = None
        self.refuses = False

    async def patch(self, path: str, body: dict[str, Any], kind: str = "") -> None:
        if self.refuses:
            raise KubeError(503, "ServiceUnavailable", "come again")
        held, self.slow = self.slow, None
        if held is not None:
            await held.wait()
        for condition in body["status"]["conditions"]:
            if condition["type"] == RUNTIME.type:
                self.said.append(condition["status"])

    async def create(self, path: str, body: dict[str, Any]) -> None:
        pass


World = tuple[DemoDetectors, Server, DemoHost, list[str]]


@pytest.fixture
async def world() -> World:
    server, clock, told = Server(), FakeClock(), list[str]()

    def note(what: str) -> Callable[[str], None]:
        return lambda node: told.append(what)

    things, routine = Agenda("things", clock), Agenda("routine", clock)
    host = DemoHost(places(6)[4])
    detectors = DemoDetectors(
        server,  # type: ignore[arg-type]
        [host], things, routine, clock, 1.0, note("signalled"), note("withdrawn"), random.Random(7),
    )  # fmt: skip
    await detectors.start(host)
    server.said.clear()
    return detectors, server, host, told


async def test_an_older_report_never_overtakes_a_newer_one(world: World) -> None:
    detectors, server, host, _ = world
    host.break_unit(CONTAINERD, Illness(1.0))
    way = server.slow = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(detectors._check(host, RUNTIME))
        await asyncio.sleep(0)
        host.recover_unit(CONTAINERD)
        tasks.create_task(detectors._check(host, RUNTIME))
        await asyncio.sleep(0)
        way.set()
    assert server.said[-1] == "False", server.said


async def test_a_report_that_was_not_taken_is_sent_again(world: World) -> None:
    detectors, server, host, told = world
    host.break_unit(CONTAINERD, Illness(1.0))
    server.refuses = True
    with pytest.raises(KubeError):
        await detectors._check(host, RUNTIME)
    assert told == []
    server.refuses = False
    await detectors._check(host, RUNTIME)
    assert server.said == ["True"]
    assert told == ["signalled"]
