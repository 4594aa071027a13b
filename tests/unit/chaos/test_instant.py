"""The loop of a day of chaos: only waiting takes time, and each run is as the one before."""

import asyncio
import time
import uuid

import pytest
from chaos.instant import InstantLoop, by_chance_of

from simulation.apiserver import objects


def _runner() -> asyncio.Runner:
    return asyncio.Runner(loop_factory=InstantLoop)


def test_a_day_of_waiting_passes_at_once() -> None:
    began = time.monotonic()
    with _runner() as runner:
        loop = runner.get_loop()
        runner.run(asyncio.sleep(86_400))
        assert loop.time() == pytest.approx(86_400, abs=1)
    assert time.monotonic() - began < 5


def test_work_takes_no_time() -> None:
    async def work() -> float:
        before = asyncio.get_running_loop().time()
        sum(range(300_000))
        await asyncio.sleep(0)
        return asyncio.get_running_loop().time() - before

    with _runner() as runner:
        assert runner.run(work()) == 0.0


def test_who_waits_for_what_floats_round_away_gets_on() -> None:
    async def late() -> float:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(1e5)
        until = loop.time() + 1e-11
        for _ in range(10):
            await asyncio.sleep(until - loop.time())
            if loop.time() >= until:
                break
        return until - loop.time()

    with _runner() as runner:
        assert runner.run(late()) <= 0


def test_tasks_that_all_wait_for_each_other_are_an_error() -> None:
    with _runner() as runner, pytest.raises(RuntimeError, match="nothing will ever happen"):
        runner.run(asyncio.Event().wait())


def test_sets_of_tasks_are_in_the_order_in_which_they_began() -> None:
    async def named() -> list[str]:
        tasks = [asyncio.ensure_future(asyncio.sleep(0)) for _ in range(5)]
        for number, task in enumerate(tasks):
            task.set_name(f"task-{number}")
        done, _ = await asyncio.wait(set(tasks))
        order = [task.get_name() for task in done]
        assert order == sorted(order, key=lambda name: int(name.partition("-")[2]))
        return order

    with _runner() as runner:
        assert len(runner.run(named())) == 5


def test_uids_are_those_of_the_seed() -> None:
    def made(seed: int) -> list[str]:
        with by_chance_of(seed):
            return [objects.new_uid() for _ in range(2)] + [str(uuid.uuid4())]

    assert made(7) == made(7)
    assert made(7) != made(8)
    assert len(set(made(7))) == 3
