"""Our own event loop that is late: for how long nobody was heard, and when it has caught up."""

from datetime import timedelta

import pytest
from support.clock import FakeClock, settle
from support.running import running

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.loopdelay import LATE_SECONDS, NEVER, TICK_SECONDS, LoopDelay, Span, joined

TICK = timedelta(seconds=TICK_SECONDS)
STOPPED = timedelta(seconds=40)


async def in_time(clock: FakeClock, turns: int = 4) -> None:
    for _ in range(turns):
        await clock.advance(TICK)


async def test_a_loop_that_turns_in_time_is_never_late() -> None:
    clock = FakeClock()
    delay = LoopDelay(clock)
    assert delay.in_time_since() == NEVER and delay.late_since() is None
    async with running(delay.run()):
        await in_time(clock, 100)
        await clock.advance(TICK + timedelta(seconds=LATE_SECONDS))
        assert delay.in_time_since() == NEVER and delay.delays() == ()


async def test_a_stopped_process_is_late_when_it_goes_on_and_until_it_turns_in_time() -> None:
    clock = FakeClock()
    delay = LoopDelay(clock)
    async with running(delay.run()):
        await in_time(clock)
        began = clock.monotonic()
        await settle()
        clock.step(STOPPED)
        assert delay.late_since() == began, "before any task of ours has run"
        assert delay.in_time_since() is None
        await settle()
        assert delay.late_since() == began, "the turn that came late is no turn in time"
        await in_time(clock, 1)
        assert delay.late_since() is None
        assert delay.in_time_since() == clock.monotonic()
        assert delay.delays() == ((began, clock.monotonic()),)


async def test_a_starved_loop_is_late_until_two_turns_come_in_time() -> None:
    clock = FakeClock()
    delay = LoopDelay(clock)
    async with running(delay.run()):
        await in_time(clock)
        began = clock.monotonic()
        for _ in range(5):
            clock.step(timedelta(seconds=2 * LATE_SECONDS))
            await settle()
            assert delay.late_since() == began
            assert delay.delays() == ((began, clock.monotonic()),)
        await in_time(clock)
        assert delay.late_since() is None and len(delay.delays()) == 1


async def test_a_cache_is_not_current_and_hears_nobody_while_the_loop_is_late() -> None:
    """What changed waits in the sockets; once it was read the silence of others counts anew."""
    clock = FakeClock()
    kube = Kube(PlainTransport("http://nobody"), clock=clock)
    informer = Informer(kube, "/api/v1/nodes", structs(Node))
    informer.synced.set()
    async with running(kube.delay.run()):
        await in_time(clock)
        informer._event(bookmark(5))
        first, began = informer.hearing_since(), clock.monotonic()
        assert first is not None and informer.fresh() and informer.unheard() == ()
        clock.step(timedelta(seconds=10))
        assert not informer.fresh() and informer.hearing_since() is None
        informer._event(bookmark(6))
        assert not informer.fresh(), "others may wait to be read"
        await settle()
        await in_time(clock, 1)
        assert informer.fresh()
        assert informer.hearing_since() == clock.monotonic() > first
        assert informer.unheard() == ((began, clock.monotonic()),)


@pytest.mark.parametrize(
    ("spans", "found"),
    [
        ([], ()),
        ([(1, 2)], ((1, 2),)),
        ([(5, 6), (1, 2)], ((1, 2), (5, 6))),
        ([(1, 4), (2, 3), (4, 5)], ((1, 5),)),
    ],
)
def test_overlapping_spans_are_one(spans: list[Span], found: tuple[Span, ...]) -> None:
    assert joined(spans) == found


def bookmark(version: int) -> bytes:
    return (
        '{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":'
        f'{{"resourceVersion":"{version}"}}}}}}'
    ).encode()
