"""The loop of simulations: waiting takes no time, work does, and is booked on whose it is."""

import asyncio
import time

import pytest
from support.simulated_time import OWNER, Books, LoopClock, SimulatedLoop


async def _working(owner: str, seconds: float) -> None:
    OWNER.set(owner)
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_an_hour_of_waiting_takes_no_time_and_shows_on_the_clock() -> None:
    async def waiting() -> float:
        clock = LoopClock.running()
        began = clock.monotonic()
        await clock.sleep(3600.0)
        return clock.monotonic() - began

    before = time.monotonic()
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(Books())) as runner:
        assert runner.run(waiting()) >= 3600.0
    assert time.monotonic() - before < 600.0


def test_work_is_booked_on_whose_it_is() -> None:
    books = Books()

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_working("ours", 0.05))
            with books.lent("server"):
                await _working("server", 0.02)

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(books)) as runner:
        runner.run(both())
    assert books.seconds["ours"] >= 0.05
    assert books.longest["ours"] >= 0.05
    assert books.seconds["server"] >= 0.02
    assert books.longest.get("server", 0.0) < 0.02, "what was lent is not the borrower's"


def test_tasks_that_wait_for_one_another_are_an_error_not_a_hang() -> None:
    with (
        asyncio.Runner(loop_factory=lambda: SimulatedLoop(Books())) as runner,
        pytest.raises(RuntimeError, match="nothing will ever happen"),
    ):
        runner.run(asyncio.Event().wait())
