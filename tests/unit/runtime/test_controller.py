"""Workers: one key at a time, errors reported once, a graceful end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from support.clock import FakeClock, settle
from support.running import running, until

from kubenode.runtime.controller.controller import GONE_REQUEUE_SECONDS, OUTCOMES, Controller
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.controller.result import DONE, Result, TerminalError
from kubenode.runtime.fence import LeaseLost
from kubenode.runtime.kube.errors import ServerUnreachable, error_for

Behaviour = Callable[[str], Awaitable[Result]]


class Meter:
    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def reconciled(self, outcome: str, seconds: float) -> None:
        assert outcome in OUTCOMES
        self.outcomes.append(outcome)


class World:
    """A controller whose reconcile does what the test says next."""

    def __init__(self, **options: object) -> None:
        self.clock = FakeClock()
        self.meter = Meter()
        self.runs: list[str] = []
        self.answer: Result | BaseException = DONE
        queue: WorkQueue[str] = WorkQueue(self.clock, spread=lambda: 0.5)
        self.controller = Controller(
            "test",
            self.reconcile,
            queue=queue,
            clock=self.clock,
            meter=self.meter,
            **options,  # type: ignore[arg-type]
        )

    async def reconcile(self, key: str) -> Result:
        self.runs.append(key)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    async def handle(self, key: str) -> None:
        self.controller.queue.add(key)
        await settle()

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(timedelta(seconds=seconds))


async def test_a_wait_asked_for_is_kept_to() -> None:
    world = World()
    async with running(world.controller.run()):
        world.answer = Result(timedelta(seconds=30))
        await world.handle("n1")
        world.answer = DONE
        await world.advance(29)
        assert world.runs == ["n1"]
        await world.advance(2)
        assert world.runs == ["n1", "n1"]
        assert world.meter.outcomes == ["later", "done"]


async def test_an_error_is_tried_again_and_told_once_per_change_of_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    async with running(world.controller.run()):
        world.answer = RuntimeError("broken")
        await world.handle("n1")
        for _ in range(6):
            await world.advance(60)
        assert len(world.runs) >= 6
        assert [r.getMessage() for r in caplog.records] == ["reconcile failed"]
        world.answer = RuntimeError("broken otherwise")
        await world.advance(300)
        assert len(caplog.records) == 2
        world.answer = DONE
        await world.advance(600)
        assert world.meter.outcomes[-1] == "done"
        world.answer = RuntimeError("broken otherwise")
        await world.handle("n1")
        assert len(caplog.records) == 3, "it had gone well in between"


@pytest.mark.parametrize(
    ("error", "where"),
    [
        (ServerUnreachable("refused", tried="GET /x"), False),
        (error_for(503, "ServiceUnavailable"), False),
        (error_for(422, "Invalid"), True),
        (RuntimeError("broken"), True),
    ],
)
async def test_the_place_in_our_code_is_told_of_our_mistakes_not_of_an_outage(
    caplog: pytest.LogCaptureFixture, error: Exception, where: bool
) -> None:
    """One outage fails every key once: thousands of traces that all say what the sentence says."""
    world = World()
    async with running(world.controller.run()):
        world.answer = error
        await world.handle("n1")
        (record,) = caplog.records
        assert record.__dict__["why"] == f"{type(error).__name__}: {error}"
        assert bool(record.exc_info) is where


async def test_a_conflict_is_retried_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    async with running(world.controller.run()):
        await settle()
        caplog.clear()
        world.answer = error_for(409, "Conflict")
        await world.handle("n1")
        await world.advance(0.6)
        assert world.runs == ["n1", "n1"]
        assert world.meter.outcomes == ["conflict", "conflict"]
        assert caplog.records == []


async def test_gone_is_done_but_looked_at_once_more(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    async with running(world.controller.run()):
        world.answer = error_for(404, "NotFound")
        await world.handle("n1")
        world.answer = DONE
        await world.advance(GONE_REQUEUE_SECONDS + 1)
        assert world.meter.outcomes == ["gone", "done"]
        assert caplog.records == []


async def test_throttled_waits_as_told() -> None:
    world = World()
    async with running(world.controller.run()):
        world.answer = error_for(429, retry_after=20.0)
        await world.handle("n1")
        world.answer = DONE
        await world.advance(19)
        assert len(world.runs) == 1
        await world.advance(2)
        assert len(world.runs) == 2


async def test_a_terminal_error_waits_for_a_change(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    async with running(world.controller.run()):
        world.answer = TerminalError("the spec makes no sense")
        await world.handle("n1")
        await world.advance(10_000)
        assert world.runs == ["n1"]
        assert len(caplog.records) == 1
        await world.handle("n1")
        assert world.runs == ["n1", "n1"]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("broken"),
        TerminalError("the spec makes no sense"),
        error_for(404, "NotFound"),
        error_for(409, "Conflict"),
        error_for(429, "TooManyRequests"),
    ],
)
async def test_a_reconcile_is_backed_off_when_it_causes_a_change_and_then_fails(
    error: Exception,
) -> None:
    world = World()

    async def write_and_fail(key: str) -> Result:
        world.runs.append(key)
        world.controller.queue.add(key)  # the watch brings its own write
        raise error

    world.controller._reconcile = write_and_fail
    async with running(world.controller.run()):
        await world.handle("n1")
        for _ in range(60):
            await world.advance(1)
        assert 5 <= len(world.runs) <= 20


async def test_a_reconcile_past_its_deadline_is_an_error() -> None:
    async def hang(key: str) -> Result:
        await asyncio.Event().wait()
        return DONE

    world = World(deadline=0.01)
    world.controller._reconcile = hang
    async with running(world.controller.run()):
        world.controller.queue.add("n1")
        await until(lambda: bool(world.meter.outcomes))
        assert world.meter.outcomes == ["timeout"]
        assert world.controller.queue.failures("n1") == 1


async def test_one_slow_key_does_not_hold_up_the_others() -> None:
    release = asyncio.Event()
    done: list[str] = []

    async def reconcile(key: str) -> Result:
        if key == "slow":
            await release.wait()
        done.append(key)
        return DONE

    world = World(workers=2)
    world.controller._reconcile = reconcile
    async with running(world.controller.run()):
        for key in ("slow", "a", "b"):
            world.controller.queue.add(key)
        await settle()
        assert done == ["a", "b"]
        release.set()
        await settle()
        assert done == ["a", "b", "slow"]


class Slow:
    """A reconcile that ends when told, and remembers how it ended."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.ended: list[str] = []

    async def reconcile(self, key: str) -> Result:
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.ended.append(f"{key} cancelled")
            raise
        self.ended.append(f"{key} finished")
        return DONE


async def test_at_shutdown_a_running_reconcile_may_finish_and_no_new_one_starts() -> None:
    slow = Slow()
    controller = Controller("test", slow.reconcile, workers=1)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(controller.run())
        controller.queue.add("n1")
        controller.queue.add("n2")
        await settle()
        task.cancel()
        await settle()
        assert slow.ended == []
        slow.go_on.set()
    assert slow.ended == ["n1 finished"]


async def test_at_shutdown_a_reconcile_that_takes_too_long_is_cancelled() -> None:
    slow = Slow()
    controller = Controller("test", slow.reconcile, drain=0.01)
    async with running(controller.run()):
        controller.queue.add("n1")
        await settle()
    assert slow.ended == ["n1 cancelled"]


async def test_without_the_lease_a_running_reconcile_gets_no_time_at_all() -> None:
    class Lost:
        def check(self) -> int:
            raise LeaseLost("gone")

    slow = Slow()
    controller = Controller("test", slow.reconcile, fence=Lost(), drain=60)
    async with running(controller.run()):
        controller.queue.add("n1")
        await settle()
    assert slow.ended == ["n1 cancelled"]


async def test_a_lost_lease_ends_the_controller() -> None:
    world = World()
    world.answer = LeaseLost("gone")
    world.controller.queue.add("n1")
    with pytest.raises(ExceptionGroup) as caught:
        await world.controller.run()
    assert caught.group_contains(LeaseLost)


async def test_the_queue_that_is_handed_in_is_the_one_that_is_worked_on() -> None:
    """An empty queue is false in a condition, and a queue with its bounds was thrown away."""

    async def reconcile(key: str) -> Result:
        return DONE

    queue: WorkQueue[str] = WorkQueue(FakeClock())
    assert Controller("test", reconcile, queue=queue).queue is queue
