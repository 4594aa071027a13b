import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import FakeClock, settle

from kubenode.runtime.controller.queue import HURRIED, MOST_OUTDATED, WorkQueue


def seconds(n: float) -> timedelta:
    return timedelta(seconds=n)


def a_queue(clock: FakeClock, **options: float) -> WorkQueue[str]:
    return WorkQueue(clock, spread=lambda: 0.5, **options)


@asynccontextmanager
async def keeping_time(queue: WorkQueue[str]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        timer = tasks.create_task(queue.run())
        await settle()
        yield
        timer.cancel()


async def test_a_key_added_while_busy_is_handed_out_once_more_and_never_twice_at_once() -> None:
    q = a_queue(FakeClock())
    q.add("n1")
    key = await q.get()
    for _ in range(50):
        q.add("n1")
    q.add("n2")
    assert await q.get() == "n2"
    assert len(q) == 0
    q.done(key)
    assert await q.get() == "n1"
    q.done("n1")
    assert len(q) == 0


async def test_a_key_is_queued_once_however_often_it_is_added() -> None:
    q = a_queue(FakeClock())
    for _ in range(5):
        q.add("n1")
    assert len(q) == 1


async def test_what_has_news_comes_before_what_is_only_looked_at_again() -> None:
    q = a_queue(FakeClock())
    for key in ("n1", "n2", "n3"):
        q.add_idle(key)
    q.add("n2")
    q.add("n4")
    assert (len(q), q.news) == (4, 2)
    assert [await q.get() for _ in range(4)] == ["n2", "n4", "n1", "n3"]


async def test_news_without_end_hold_up_nobody_for_ever() -> None:
    q = a_queue(FakeClock())
    q.add_idle("quiet")
    got = []
    for _ in range(100):
        q.add("loud")
        q.add("louder")
        got.append(key := await q.get())
        q.done(key)
    assert "quiet" in got


async def test_what_is_looked_at_again_while_at_work_is_handed_out_once_more() -> None:
    q = a_queue(FakeClock())
    q.add("n1")
    key = await q.get()
    q.add_idle("n1")
    assert len(q) == 0
    q.done(key)
    assert await q.get() == "n1"


async def test_a_key_for_later_comes_at_its_time_and_the_earliest_wins() -> None:
    clock = FakeClock()
    q = a_queue(clock)
    async with keeping_time(q):
        q.add_after("n1", 60)
        q.add_after("n1", 10)
        q.add_after("n1", 30)
        await clock.advance(seconds(9.9))
        assert len(q) == 0
        await clock.advance(seconds(0.2))
        assert await q.get() == "n1"
        q.done("n1")
        await clock.advance(seconds(100))
        assert (len(q), q.later) == (0, 0), "what was asked for later is dropped"


async def test_a_change_before_its_time_replaces_the_wait() -> None:
    clock = FakeClock()
    q = a_queue(clock)
    async with keeping_time(q):
        q.add_after("n1", 10)
        q.add("n1")
        q.add_after("n1", 5)
        assert await q.get() == "n1"
        q.done("n1")
        await clock.advance(seconds(60))
        assert len(q) == 0


async def test_a_wait_asked_for_while_busy_is_kept() -> None:
    clock = FakeClock()
    q = a_queue(clock)
    async with keeping_time(q):
        q.add("n1")
        key = await q.get()
        q.add_after(key, 10)
        q.done(key)
        await clock.advance(seconds(10))
        assert await q.get() == "n1"


async def test_waits_that_are_outdated_do_not_pile_up() -> None:
    clock = FakeClock()
    q = a_queue(clock)
    for n in range(5 * MOST_OUTDATED):
        q.add_after("n1", 3600 - n / 10)
    q.add_after("n2", 1800)
    assert len(q._heap) <= MOST_OUTDATED + 10
    await clock.advance(seconds(1800))
    q.promote()
    assert await q.get() == "n2"
    assert q.later == 1


def test_the_backoff_of_a_key_doubles_up_to_its_bound_and_forget_resets_it() -> None:
    q = a_queue(FakeClock(), low=0.5, high=300.0)
    assert [q.retry("n1") for _ in range(4)] == [0.5, 1.0, 2.0, 4.0]
    for _ in range(20):
        q.retry("n1")
    assert q.retry("n1") == 300.0
    assert q.retry("n2") == 0.5, "keys do not share their backoff"
    q.forget("n1")
    assert q.retry("n1") == 0.5
    assert q.retry("n1", at_least=77) == 77
    assert q.retries == 28


async def run_and_fail(q: WorkQueue[str], key: str) -> None:
    """As a worker whose run writes the object, so that a change arrives, and then fails."""
    assert await q.get() == key
    q.add(key)
    q.retry(key)
    q.done(key)


async def test_a_change_hurries_a_key_that_failed_once() -> None:
    q = a_queue(FakeClock())
    q.add("n1")
    await run_and_fail(q, "n1")
    assert len(q) == 1


async def test_a_key_is_backed_off_when_its_own_change_arrives_while_it_fails_again() -> None:
    clock = FakeClock()
    q = a_queue(clock)
    q.add("n1")
    await run_and_fail(q, "n1")
    await run_and_fail(q, "n1")
    assert len(q) == 0
    clock.step(seconds(0.9))
    q.promote()
    assert len(q) == 0
    clock.step(seconds(0.2))
    q.promote()
    assert len(q) == 1


async def test_a_key_is_backed_off_when_its_own_change_arrives_after_it_failed_again() -> None:
    clock = FakeClock()
    q = a_queue(clock)
    q.add("n1")
    await run_and_fail(q, "n1")
    assert await q.get() == "n1"
    q.retry("n1")
    q.done("n1")
    q.add("n1")
    q.add_idle("n1")
    assert len(q) == 0
    clock.step(seconds(1.1))
    q.promote()
    assert len(q) == 1


async def test_a_change_is_not_lost_when_the_backoff_of_its_key_is_long() -> None:
    """What another has changed may be the cure: it waits for seconds, not for minutes."""
    clock = FakeClock()
    q = a_queue(clock)
    for _ in range(10):
        q.retry("n1")
    q.add("n1")
    clock.step(seconds(HURRIED - 0.1))
    q.promote()
    assert len(q) == 0
    clock.step(seconds(0.2))
    q.promote()
    assert len(q) == 1


async def test_a_change_waits_for_the_time_that_the_server_asked_for() -> None:
    clock = FakeClock()
    q = a_queue(clock)
    q.retry("n1", at_least=20)
    q.add("n1")
    clock.step(seconds(19))
    q.promote()
    assert len(q) == 0
    clock.step(seconds(2))
    q.promote()
    assert len(q) == 1


async def test_a_key_that_went_well_is_handed_out_at_once_again() -> None:
    q = a_queue(FakeClock())
    for _ in range(5):
        q.retry("n1")
    q.forget("n1")
    q.add("n1")
    assert len(q) == 1


async def test_the_rate_of_keys_handed_out_is_bounded() -> None:
    clock = FakeClock()
    q = a_queue(clock, rate=10, burst=3)
    for i in range(10):
        q.add(f"n{i}")
    taken: list[str] = []

    async def take() -> None:
        while True:
            taken.append(await q.get())

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(take())
        await settle()
        assert len(taken) == 3
        await clock.advance(seconds(0.2))
        assert len(taken) in (4, 5)
        for _ in range(10):
            await clock.advance(seconds(0.1))
        assert len(taken) == 10
        task.cancel()


async def test_the_age_of_the_oldest_key_is_known() -> None:
    clock = FakeClock()
    q = a_queue(clock)
    assert q.oldest() == 0
    q.add("n1")
    clock.step(seconds(5))
    q.add("n2")
    q.add("n1")
    assert q.oldest() == 5
    await q.get()
    assert q.oldest() == 0


async def test_a_cancelled_wait_loses_no_key() -> None:
    q = a_queue(FakeClock())
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(q.get())
        await settle()
        waiting.cancel()
    q.add("n1")
    assert await q.get() == "n1"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abc")),
        st.tuples(st.just("later"), st.sampled_from("abc")),
        st.tuples(st.just("get"), st.just("")),
        st.tuples(st.just("done"), st.sampled_from("abc")),
        st.tuples(st.just("fail"), st.sampled_from("abc")),
        st.tuples(st.just("step"), st.just("")),
    ),
    max_size=40,
)


@given(STEPS)
def test_no_change_is_ever_lost_and_no_key_is_at_two_workers(steps: list[tuple[str, str]]) -> None:
    async def play() -> None:
        clock = FakeClock()
        q = a_queue(clock)
        busy: set[str] = set()
        owed: set[str] = set()  # changed since last handed out
        for what, key in steps:
            if what == "add":
                q.add(key)
                owed.add(key)
            elif what == "later":
                q.add_after(key, 5)
                owed.add(key)
            elif what == "get" and len(q):
                got = await q.get()
                assert got not in busy
                busy.add(got)
                owed.discard(got)
            elif what == "done" and key in busy:
                busy.discard(key)
                q.done(key)
            elif what == "fail" and key in busy:
                busy.discard(key)
                q.retry(key)
                q.done(key)
                owed.add(key)
            elif what == "step":
                clock.step(seconds(3))
                q.promote()
        for key in list(busy):
            q.done(key)
        clock.step(seconds(400))
        q.promote()
        rest = {await q.get() for _ in range(len(q))}
        assert owed <= rest

    asyncio.run(play())


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (1, 0), (-1, 5)])
def test_a_senseless_bound_is_refused(rate: float, burst: float) -> None:
    with pytest.raises(ValueError, match="need rate > 0"):
        a_queue(FakeClock(), rate=rate, burst=burst)
