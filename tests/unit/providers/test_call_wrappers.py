"""The contract of the wrappers of provider calls: arguments, results and errors pass unchanged."""

import asyncio
import inspect
import threading
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram
from support.clock import FakeClock

from kubenode.providers.call_meter import CallMeter
from kubenode.providers.errors import Busy, ProviderError
from kubenode.providers.threads import ThreadedCalls


class MeteredWorld:
    """A meter of provider "p" with a clock that its calls move."""

    def __init__(self) -> None:
        self.clock, self.registry = FakeClock(), CollectorRegistry()
        requests = Counter("r", "r", ["provider", "operation", "result"], registry=self.registry)
        seconds = Histogram("s", "s", ["provider", "operation"], registry=self.registry)
        self.meter = CallMeter(
            "p", self.clock, requests, seconds, ok="ok", result_of=lambda e: type(e).__name__
        )

    def count(self, result: str, operation: str = "get") -> float | None:
        labels = {"provider": "p", "operation": operation, "result": result}
        return self.registry.get_sample_value("r_total", labels)

    def value(self, suffix: str, operation: str = "get") -> float | None:
        labels = {"provider": "p", "operation": operation}
        return self.registry.get_sample_value(f"s_{suffix}", labels)


async def test_metered_call_passes_arguments_and_result() -> None:
    world = MeteredWorld()

    async def call(first: int, *, second: str) -> str:
        world.clock.step(timedelta(seconds=3))
        return f"{first}{second}"

    assert await world.meter.wrap("get", call)(1, second="b") == "1b"
    assert world.count("ok") == 1
    assert (world.value("count"), world.value("sum")) == (1, 3)


async def test_metered_error_passes_and_is_counted_once_by_its_label() -> None:
    world = MeteredWorld()
    error = Busy("p", "x")

    async def call() -> None:
        world.clock.step(timedelta(seconds=2))
        raise error

    with pytest.raises(Busy) as raised:
        await world.meter.wrap("get", call)()
    assert raised.value is error
    assert (world.count("Busy"), world.count("ok")) == (1, None)
    assert (world.value("count"), world.value("sum")) == (1, 2)


async def test_cancelled_call_is_counted_and_stays_cancelled() -> None:
    world = MeteredWorld()

    async def call() -> None:
        await asyncio.Event().wait()

    task = asyncio.ensure_future(world.meter.wrap("get", call)())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.count("CancelledError") == 1


async def test_calls_of_different_operations_have_their_own_series() -> None:
    world = MeteredWorld()

    async def call() -> None:
        return None

    await world.meter.wrap("get", call)()
    await world.meter.wrap("list", call)()
    assert (world.count("ok", "get"), world.count("ok", "list")) == (1, 1)


def some_calls() -> ThreadedCalls:
    def explain(error: Exception) -> ProviderError | None:
        return Busy("p", "explained") if isinstance(error, KeyError) else None

    return ThreadedCalls("p", explain, timedelta(seconds=30), threads=1)


async def test_threaded_call_runs_in_another_thread_with_its_arguments() -> None:
    calls = some_calls()

    def call(first: int, *, second: str) -> tuple[str, bool]:
        return f"{first}{second}", threading.current_thread() is threading.main_thread()

    threaded = calls.wrap(call)
    assert inspect.iscoroutinefunction(threaded)
    assert await threaded(1, second="b") == ("1b", False)
    await calls.close()


async def test_threaded_error_of_the_sdk_is_explained() -> None:
    calls = some_calls()

    def call() -> None:
        raise KeyError("sdk")

    with pytest.raises(Busy, match="explained"):
        await calls.wrap(call)()
    await calls.close()
