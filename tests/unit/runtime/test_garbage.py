"""Collections begin when the caches are full, and no later than a bound."""

import asyncio
import gc
from collections.abc import Iterator
from datetime import timedelta

import pytest
from support.clock import FakeClock, settle
from support.running import running

from kubenode.runtime import garbage
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


async def test_what_filling_took_is_given_back_once_the_caches_are_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given, clock, full = list[bool](), FakeClock(), asyncio.Event()
    monkeypatch.setattr(garbage, "give_back", lambda: given.append(gc.isenabled()))
    async with running(Filling(full.is_set, clock).run()):
        await settle()
        assert not given
        full.set()
        await clock.advance(timedelta(seconds=1))
        assert given == [True]


def test_another_c_library_than_glibc_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    garbage.keep_apart()
    garbage.give_back()
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    garbage.keep_apart()
    garbage.give_back()
