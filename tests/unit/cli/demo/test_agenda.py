"""What falls due in the simulated fleet: refused things come again, and rhythms stay rhythms."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from support.clock import FakeClock

from kubenode.runtime.kube.errors import KubeError, ServerUnreachable
from simulation.demo.agenda import Agenda

SECOND = timedelta(seconds=1)


class Server:
    """Is not heard while it is away, and now and then refuses."""

    def __init__(self) -> None:
        self.away, self.refuses, self.asked, self.taken = False, False, 0, 0

    async def take(self) -> None:
        self.asked += 1
        if self.away:
            raise ServerUnreachable("nobody listens")
        if self.refuses:
            raise KubeError(422, "Invalid", "never")
        self.taken += 1


@pytest.fixture
async def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def agenda(clock: FakeClock) -> AsyncIterator[Agenda]:
    agenda = Agenda("fleet", clock)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(agenda.run())
        yield agenda
        running.cancel()


async def _pass(clock: FakeClock, seconds: int) -> None:
    for _ in range(2 * seconds):
        await clock.advance(SECOND / 2)


async def test_what_was_refused_is_done_again(clock: FakeClock, agenda: Agenda) -> None:
    server = Server()
    server.away = True
    agenda.soon(1, server.take)
    await _pass(clock, 3)
    server.away = False
    await _pass(clock, 2)
    assert (server.taken, server.asked > 1) == (1, True)


async def test_who_is_away_for_long_is_told_once_it_is_back(
    clock: FakeClock, agenda: Agenda
) -> None:
    server = Server()
    server.away = True
    agenda.soon(1, server.take)
    await _pass(clock, 60)
    server.away = False
    await _pass(clock, 2)
    assert server.taken == 1


async def test_what_is_refused_for_good_is_given_up(clock: FakeClock, agenda: Agenda) -> None:
    server = Server()
    server.refuses = True
    agenda.soon(1, server.take)
    await _pass(clock, 60)
    server.refuses = False
    await _pass(clock, 5)
    assert (server.taken, server.asked) == (0, 20)


async def test_a_rhythm_goes_on_at_its_pace_after_a_server_was_away(
    clock: FakeClock, agenda: Agenda
) -> None:
    server = Server()
    agenda.every(10, server.take, first=1)
    await _pass(clock, 25)
    assert server.taken == 3
    server.away = True
    await _pass(clock, 40)
    server.away = False
    await _pass(clock, 10)
    server.taken = 0
    await _pass(clock, 100)
    assert server.taken == 10


async def test_a_rhythm_is_kept_by_what_is_refused_again_soon(
    clock: FakeClock, agenda: Agenda
) -> None:
    server = Server()
    server.away = True
    agenda.every(10, server.take, first=1)
    await _pass(clock, 3)
    server.away = False
    await _pass(clock, 1)
    assert server.taken == 1
