"""The loop of simulations: waiting takes no time, work does, and is booked on whose it is."""

import asyncio
import gc
import time

import pytest
from support.simulated_time import COLLECTOR, OWNER, Books, LoopClock, SimulatedLoop


async def _working(owner: str, seconds: float) -> None:
    OWNER.set(owner)
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def _spent(seconds: float) -> float:
    """After so much work of a thread."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return seconds


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


@pytest.mark.exhaustive
def test_work_of_owners_elsewhere_takes_no_time_of_the_loop() -> None:
    async def theirs() -> tuple[float, float]:
        clock = LoopClock.running()
        await asyncio.sleep(0)
        began = clock.monotonic()
        async with asyncio.TaskGroup() as tasks:
            OWNER.set("agents")
            tasks.create_task(_working("agents", 0.2))
            OWNER.set("ours")
        within = clock.monotonic() - began
        with books.lent("server"):
            await _working("server", 0.2)
        return within, clock.monotonic() - began

    books = Books(elsewhere=("agents", "server"))
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(books)) as runner:
        within, whole = runner.run(theirs())
    assert 0.0 <= within <= whole < 0.1
    assert books.seconds["agents"] >= 0.2
    assert books.seconds["server"] >= 0.2


@pytest.mark.exhaustive
def test_full_collections_are_nobodys_and_take_no_time_of_the_loop() -> None:
    """They walk the objects of all owners: those of a server are not the product's to walk."""
    books, others = Books(), [[number] for number in range(20_000)]

    async def collecting() -> float:
        OWNER.set("ours")
        began = LoopClock.running().monotonic()
        gc.collect()
        return LoopClock.running().monotonic() - began

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(books)) as runner:
        within = runner.run(collecting())
    assert len(others) == 20_000
    assert within < books.seconds[COLLECTOR]
    assert books.seconds["ours"] < books.seconds[COLLECTOR]
    assert books.collected not in gc.callbacks, "a loop that is closed books nothing any more"


def test_what_threads_would_do_is_done_before_the_clock_runs_on() -> None:
    async def asked() -> float:
        clock = LoopClock.running()
        began = clock.monotonic()
        async with asyncio.timeout(1.0):
            assert await asyncio.to_thread(_spent, 0.05) == 0.05
        with pytest.raises(ValueError, match="seven"):
            await asyncio.to_thread(int, "seven")
        return clock.monotonic() - began

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(Books())) as runner:
        assert runner.run(asked()) < 1.0


def test_tasks_that_wait_for_one_another_are_an_error_not_a_hang() -> None:
    with (
        asyncio.Runner(loop_factory=lambda: SimulatedLoop(Books())) as runner,
        pytest.raises(RuntimeError, match="nothing will ever happen"),
    ):
        runner.run(asyncio.Event().wait())
