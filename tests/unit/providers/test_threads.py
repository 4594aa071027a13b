"""SDKs that block, made into providers that never hold up the loop."""

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry
from support.clock import T0, FakeClock

from kubenode.providers.errors import (
    Busy,
    Denied,
    NoSuchMachine,
    ProviderError,
    Refused,
    Throttled,
    Unreachable,
    Unsupported,
)
from kubenode.providers.port import Can, Power, PowerState, ProviderMachine
from kubenode.providers.request_metrics import OPERATIONS, RESULTS, Metered, ProviderMetrics
from kubenode.providers.threads import MAX_IN_FLIGHT, Once, Threaded, still_wanted

MACHINE = ProviderMachine("x://1", "n1")


class Sdk:
    """A blocking provider that does `work` at every call."""

    name = "sdk"
    can = Can(off=True)

    def __init__(self, work: Callable[[], None] = lambda: None) -> None:
        self.work = work
        self.closed = False

    def owns(self, machine: ProviderMachine) -> bool:
        return True

    def power(self, machine: ProviderMachine) -> Power:
        self.work()
        return Power(PowerState.ON, "running", T0)

    def off(self, machine: ProviderMachine, request: str) -> None:
        self.work()

    on = reset = replace = off

    def approve(self, machine: ProviderMachine, event: str) -> None:
        self.work()

    def explain(self, error: Exception) -> ProviderError | None:
        return Busy("sdk", "later") if isinstance(error, KeyError) else None

    def close(self) -> None:
        self.closed = True


def raising(error: Exception) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


async def test_errors_of_the_sdk_are_told_as_ours_and_keep_their_cause() -> None:
    provider = Threaded(Sdk(raising(KeyError("x"))), FakeClock())
    with pytest.raises(Busy) as told:
        await provider.off(MACHINE, "r")
    assert isinstance(told.value.__cause__, KeyError)
    await provider.close()


async def test_an_error_that_nobody_knows_leaves_open_what_happened(
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = Threaded(Sdk(raising(ZeroDivisionError("secret"))), FakeClock())
    with caplog.at_level(logging.ERROR), pytest.raises(Unreachable) as told:
        await provider.off(MACHINE, "r")
    assert str(told.value) == "sdk: ZeroDivisionError"
    assert [record.message for record in caplog.records] == ["unknown error of a provider's SDK"]
    await provider.close()


async def test_an_act_that_did_not_begin_in_time_never_begins() -> None:
    free, begun = threading.Event(), threading.Event()
    acts: list[str] = []

    class Slow(Sdk):
        def power(self, machine: ProviderMachine) -> Power:
            begun.set()
            free.wait(30)
            return super().power(machine)

        def reset(self, machine: ProviderMachine, request: str) -> None:
            acts.append(request)

    slow = Threaded(Slow(), FakeClock(), within=timedelta(milliseconds=50), threads=1)
    async with asyncio.TaskGroup() as tasks:
        stuck = tasks.create_task(unreachable(slow))
        await asyncio.to_thread(begun.wait, 30)
        with pytest.raises(Unreachable, match="no answer within"):
            await slow.reset(MACHINE, "r1")
        await stuck
    free.set()
    await slow.close()
    assert acts == []


async def test_an_act_that_nobody_waits_for_any_more_is_not_done() -> None:
    looked = threading.Event()
    acts: list[str] = []

    class Late(Sdk):
        def reset(self, machine: ProviderMachine, request: str) -> None:
            looked.wait(30)
            still_wanted(self.name)
            acts.append(request)

    late = Threaded(Late(), FakeClock(), within=timedelta(milliseconds=50), threads=1)
    with pytest.raises(Unreachable, match="no answer within"):
        await late.reset(MACHINE, "r1")
    looked.set()
    await late.close()
    assert acts == []


async def unreachable(provider: Threaded) -> None:
    with pytest.raises(Unreachable):
        await provider.power(MACHINE)


@pytest.mark.exhaustive
async def test_no_more_than_a_bounded_number_waits() -> None:
    free = threading.Event()
    provider = Threaded(Sdk(lambda: check(free.wait(30))), FakeClock(), threads=1)
    waiting = [asyncio.ensure_future(provider.off(MACHINE, str(n))) for n in range(MAX_IN_FLIGHT)]
    await asyncio.sleep(0)
    with pytest.raises(Throttled) as told:
        await provider.off(MACHINE, "one more")
    assert told.value.after is not None
    free.set()
    await asyncio.gather(*waiting)
    await provider.off(MACHINE, "there is room again")
    await provider.close()


def check(done: bool) -> None:
    assert done


async def test_a_closed_provider_has_no_threads_and_says_so() -> None:
    sdk = Sdk()
    provider = Threaded(sdk, FakeClock())
    await provider.power(MACHINE)
    await provider.close()
    assert sdk.closed
    assert not [t for t in threading.enumerate() if t.name.startswith("sdk_")]
    with pytest.raises(Unreachable, match="ending"):
        await provider.power(MACHINE)


async def test_a_machine_that_is_missed_twice_is_gone() -> None:
    sdk, clock = Sdk(), FakeClock()
    provider = Threaded(sdk, clock)
    assert (await provider.power(MACHINE)).state is PowerState.ON
    sdk.work = raising(NoSuchMachine("sdk", "no x://1"))
    with pytest.raises(NoSuchMachine):
        await provider.power(MACHINE)
    clock.step(timedelta(seconds=31))
    gone = await provider.power(MACHINE)
    assert (gone.state, gone.raw, gone.at) == (PowerState.GONE, "no x://1", clock.now())
    await provider.close()


def test_what_failed_to_be_made_is_made_anew() -> None:
    key: list[str] = []

    def make() -> str:
        if not key:
            raise Denied("sdk", "no key")
        return key.pop()

    once = Once(make)
    with pytest.raises(Denied):
        once.get()
    nothing = once.made
    key.append("client")
    assert (nothing, once.get(), once.get(), once.made) == (None, "client", "client", "client")


ERRORS: dict[str, Exception] = {
    "busy": Busy("sdk", "x"),
    "denied": Denied("sdk", "x"),
    "no_such_machine": NoSuchMachine("sdk", "x"),
    "refused": Refused("sdk", "x"),
    "throttled": Throttled("sdk", "x"),
    "unreachable": Unreachable("sdk", "x"),
    "unsupported": Unsupported("sdk", "x"),
}


async def test_every_request_is_counted_by_how_it_ended_from_zero() -> None:
    registry, clock = CollectorRegistry(), FakeClock()
    sdk = Sdk()
    provider = Metered(Threaded(sdk, clock), ProviderMetrics(registry), clock)
    assert set(RESULTS.values()) == set(ERRORS)

    def count(operation: str, result: str) -> float | None:
        labels = {"provider": "sdk", "operation": operation, "result": result}
        return registry.get_sample_value("kubenode_provider_requests_total", labels)

    assert all(count(o, r) == 0 for o in OPERATIONS for r in ("ok", "error", *ERRORS))
    await provider.power(MACHINE)
    for ask in (provider.off, provider.on, provider.reset, provider.replace, provider.approve):
        await ask(MACHINE, "r")
    assert all(count(operation, "ok") == 1 for operation in OPERATIONS)
    for result, error in ERRORS.items():
        sdk.work = raising(error)
        with pytest.raises(type(error)):
            await provider.off(MACHINE, "r")
        assert count("off", result) == 1
    labels = {"provider": "sdk", "operation": "off"}
    assert registry.get_sample_value("kubenode_provider_request_seconds_count", labels) == 8
    assert (provider.name, provider.can, provider.owns(MACHINE)) == ("sdk", sdk.can, True)
    await provider.close()
    assert sdk.closed
