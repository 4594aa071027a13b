"""Collections begin when the caches are full, and no later than a bound."""

import asyncio
import gc
from collections.abc import Iterator
from datetime import timedelta

import pytest
from support.clock import FakeClock, settle
from support.running import running

from kubenode.runtime.garbage import LONGEST, Filling


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.enable()
    gc.unfreeze()


async def test_nothing_is_collected_until_the_caches_are_full() -> None:
    clock, full = FakeClock(), asyncio.Event()
    async with running(Filling(full.is_set, clock).run()):
        await settle()
        assert not gc.isenabled()
        full.set()
        await clock.advance(timedelta(seconds=1))
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0


async def test_caches_that_do_not_fill_are_not_waited_for_long() -> None:
    clock = FakeClock()
    async with running(Filling(lambda: False, clock).run()):
        await settle()
        await clock.advance(timedelta(seconds=LONGEST + 1))
        assert gc.isenabled()


async def test_a_process_that_ends_before_collects_again() -> None:
    async with running(Filling(lambda: False, FakeClock()).run()):
        await settle()
    assert gc.isenabled()
