"""One receiver: order, tries, rate and summary."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from support.clock import FakeClock, settle
from support.notify_world import FakeSender, a_notice
from support.running import running

from kubenode.runtime.fence import LeaseLost, under
from remedy.notify.channel import MOST_WAITING, Channel
from remedy.notify.direct import DirectNotifier
from remedy.notify.limit import NotificationLimit
from remedy.notify.message import NotDelivered
from remedy.notify.metrics import NotificationMetrics
from remedy.notify.notice import JobNotice
from remedy.notify.settings import Receiver
from remedy.notify.texts import texts

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


@dataclass
class World:
    sender: FakeSender = field(default_factory=FakeSender)
    clock: FakeClock = field(default_factory=FakeClock)
    ends: list[tuple[str, str]] = field(default_factory=list)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    @asynccontextmanager
    async def channel(self, **settings: Any) -> AsyncIterator[Channel]:
        given = {"webhook": {"url": "http://127.0.0.1/"}, **settings}
        receiver = Receiver.model_validate(given)

        def ended(notice: JobNotice, name: str, why: str) -> None:
            self.ends.append((notice.id, why))

        metrics = NotificationMetrics(self.registry, ["oncall"])
        found = Channel(
            "oncall", receiver, texts(), self.sender, self.clock, metrics, ended, "prod"
        )
        async with running(found.run()):
            yield found

    def count(self, outcome: str) -> float:
        labels = {"receiver": "oncall", "outcome": outcome}
        return self.registry.get_sample_value("kubenode_notifications_total", labels) or 0.0


async def test_notices_are_told_in_their_order() -> None:
    world = World()
    async with world.channel() as channel:
        for number in range(3):
            channel.put(a_notice(number))
        await settle()
    assert [m.notice.node for m in world.sender.taken] == ["n0", "n1", "n2"]
    assert [why for _, why in world.ends] == ["", "", ""]
    assert world.count("sent") == 3


async def test_what_waits_already_is_not_told_twice() -> None:
    world = World()
    world.sender.no = [NotDelivered("it answered 503")]
    async with world.channel() as channel:
        channel.put(a_notice(1))
        await settle()
        channel.put(a_notice(1))
        await world.clock.advance(SECOND)
    assert len(world.sender.taken) == 1 and len(world.ends) == 1


async def test_a_failed_try_is_made_again_later_and_later_with_the_same_id() -> None:
    world = World()
    world.sender.no = [NotDelivered("no answer")] * 4
    async with world.channel() as channel:
        channel.put(a_notice(1))
        tries = []
        for _ in range(20):
            await settle()
            tries.append(len(world.sender.tries))
            world.clock.step(SECOND)
        await settle()
    assert [tries.index(n) for n in range(1, 6)] == [0, 1, 3, 7, 15]
    assert {m.notice.id for m in world.sender.tries} == {a_notice(1).id}
    assert world.count("sent") == 1 and world.count("failed") == 0


async def test_a_final_no_is_not_tried_again_and_the_next_notice_has_its_turn() -> None:
    world = World()
    world.sender.no = [NotDelivered("it answered 401", final=True)]
    async with world.channel() as channel:
        channel.put(a_notice(1))
        channel.put(a_notice(2))
        await settle()
    assert world.ends == [(a_notice(1).id, "it answered 401"), (a_notice(2).id, "")]
    assert world.count("failed") == 1


async def test_a_dead_receiver_is_given_up_in_time() -> None:
    world = World()
    world.sender.no = [NotDelivered("unreachable")] * 10_000
    async with world.channel(giveUpAfter="10m") as channel:
        channel.put(a_notice(1))
        for _ in range(11):
            await world.clock.advance(MINUTE)
    assert world.ends == [(a_notice(1).id, "unreachable")]


async def test_above_the_rate_the_rest_is_summed_up_once() -> None:
    world = World()
    async with world.channel(rate={"count": 3, "per": "5m"}) as channel:
        for number in range(15):
            channel.put(a_notice(number))
        await settle()
        assert len(world.sender.taken) == 3
        await world.clock.advance(4 * MINUTE)
        assert len(world.sender.taken) == 3
        await world.clock.advance(MINUTE)
    *_, summary = world.sender.taken
    assert len(world.sender.taken) == 4
    assert summary.notice.happened == "12 more in the last 5 min"
    assert summary.notice.counts == {"NeedsHuman": 12}
    assert "n3" in summary.body and "NeedsHuman: 12" in summary.body and "prod" in summary.title
    assert world.count("suppressed") == 12


async def test_more_than_can_wait_is_summed_up_too() -> None:
    world = World()
    world.sender.no = [NotDelivered("unreachable")] * 10_000
    async with world.channel(rate={"count": 10_000, "per": "1m"}) as channel:
        for number in range(MOST_WAITING + 50):
            channel.put(a_notice(number))
        await settle()
    assert world.count("suppressed") == 50
    assert len(world.ends) == 50


async def test_a_cancelled_channel_ends() -> None:
    world = World()
    world.sender.no = [NotDelivered("unreachable")] * 10
    async with world.channel() as channel:
        channel.put(a_notice(1))
        await settle()
    assert world.ends == []
    assert not [t for t in asyncio.all_tasks() if "oncall" in t.get_name()]


@given(
    gaps=st.lists(st.integers(0, 100), max_size=60),
    count=st.integers(1, 5),
    per=st.integers(1, 300),
)
def test_never_more_than_the_rate_and_nothing_is_forgotten(
    gaps: list[int], count: int, per: int
) -> None:
    limit, now, sent, held, summed = NotificationLimit(count, timedelta(seconds=per)), 0.0, [], 0, 0
    for gap in gaps:
        now += gap
        if (found := limit.summary(now)) is not None:
            sent.append(now)
            summed += found.kinds.total()
        if limit.allows(now):
            sent.append(now)
        else:
            limit.hold(a_notice(), now)
            held += 1
    at = limit.summary_at()
    if at is not None and (found := limit.summary(max(at, now))) is not None:
        sent.append(max(at, now))
        summed += found.kinds.total()
    assert summed == held
    for at in sent:
        assert len([t for t in sent if at - per < t <= at]) <= count


class Term:
    """A reign that a test ends."""

    over = False

    def check(self) -> int:
        if self.over:
            raise LeaseLost("taken by another")
        return 1

    def remaining_seconds(self) -> float:
        return 0.0 if self.over else 10.0


async def test_a_deposed_leader_tells_nothing_that_waits() -> None:
    """Neither a notice that waits for its turn, nor one that is tried again."""
    world, term = World(), Term()
    world.sender.no = [NotDelivered("it answered 503")]
    with pytest.raises(ExceptionGroup) as found, under(term):
        async with world.channel() as channel:
            channel.put(a_notice(1))
            channel.put(a_notice(2))
            await settle()
            assert len(world.sender.tries) == 1
            term.over = True
            await world.clock.advance(MINUTE)
    assert found.group_contains(LeaseLost)
    assert len(world.sender.tries) == 1 and world.sender.taken == [] and world.ends == []


async def test_a_deposed_leader_asks_no_receiver_directly() -> None:
    term = Term()
    direct = DirectNotifier(
        {"saver": Receiver.model_validate({"webhook": {"url": "http://127.0.0.1:9/"}})}
    )
    with under(term):
        with pytest.raises(NotDelivered):
            await direct.ask("saver", {}, "key")
        term.over = True
        with pytest.raises(LeaseLost):
            await direct.ask("saver", {}, "key")
    await direct.close()
