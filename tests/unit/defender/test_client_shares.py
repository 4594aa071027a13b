"""One client of Kube Defender leaves room for others: in the queue and in streams (finding 2)."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sse_starlette import ServerSentEvent
from support.defender_core import an_ask
from support.defender_queue import WaitingRoom, cluster

from defender.decision.queue import line
from defender.server.http.failures import HttpRefusal
from defender.server.http.streams import Streams
from kubenode.api.v1alpha1 import Ask

ONE, OTHER = "system:serviceaccount:tools:one", "system:serviceaccount:tools:other"


def asked_by(user: str | None, node: str) -> Ask:
    ask = an_ask(node)
    return ask.model_copy(update={"holder": ask.holder.model_copy(update={"user": user})})


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> WaitingRoom:
    """Five nodes and one slot, which is held; six places in the queue, three for one client."""
    monkeypatch.setattr(line, "MOST_WAITING", 6)
    monkeypatch.setattr(line, "MOST_PER_CLIENT", 3)
    room = WaitingRoom(cluster(1))
    room.zone("a", 8)
    room.hold("a0")
    return room


def wait(room: WaitingRoom, user: str | None, *nodes: str) -> int:
    """How many wait after these asks."""
    for node in nodes:
        assert not room.ask(asked_by(user, node)).allowed
    return len(room.queue.line)


def test_one_client_takes_no_more_than_its_share_of_the_queue(room: WaitingRoom) -> None:
    assert wait(room, ONE, "a1", "a2", "a3", "a4") == 3
    assert wait(room, OTHER, "a5", "a6") == 5


def test_who_waits_already_keeps_its_place_and_a_place_that_is_left_is_free(
    room: WaitingRoom,
) -> None:
    wait(room, ONE, "a1", "a2", "a3")
    assert wait(room, ONE, "a1", "a2", "a3") == 3
    place = room.queue.waiting()[0]
    room.queue.forget(next(e.key for e in room.queue.line if e.ask.node == place.node))
    assert wait(room, ONE, "a4", "a5") == 3


def test_the_process_itself_has_no_share(room: WaitingRoom) -> None:
    assert wait(room, None, "a1", "a2", "a3", "a4") == 4


async def endless() -> AsyncIterator[ServerSentEvent]:
    while True:
        yield ServerSentEvent(data="x")
        await asyncio.sleep(0)


async def test_one_client_opens_no_more_than_its_share_of_streams() -> None:
    streams = Streams(most=4, share=2)
    opened = [streams.serve(endless(), ONE).body_iterator for _ in range(2)]
    for stream in opened:
        await anext(aiter(stream))
    with pytest.raises(HttpRefusal, match=f"2 streams of {ONE}"):
        streams.serve(endless(), ONE)
    other = streams.serve(endless(), OTHER).body_iterator
    await anext(aiter(other))
    assert len(streams) == 3
    await opened[0].aclose()  # type: ignore[attr-defined]
    assert len(streams) == 2
    streams.serve(endless(), ONE)
