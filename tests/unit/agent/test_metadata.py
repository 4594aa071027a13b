"""What the metadata service says of this machine is told when it changes, and until it is heard."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from support.clock import FakeClock, settle

from agent.detectors.metadata.delivery import HostDoctor, NotTaken
from agent.detectors.metadata.service import Unreadable
from agent.detectors.metadata.settings import Metadata
from agent.detectors.metadata.watcher import REMIND, MetadataWatcher

SECOND = timedelta(seconds=1)
EVENTS = {"DocumentIncarnation": 2, "Events": [{"EventId": "A"}]}
NONE: dict[str, Any] = {"DocumentIncarnation": 3, "Events": []}


class Doctor(HostDoctor):
    """Host Doctor; `broken` is raised instead of hearing."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.broken: NotTaken | None = None

    async def tell(self, transport: str, payload: Any) -> None:
        if self.broken is not None:
            raise self.broken
        self.heard.append((transport, payload))


class Source:
    transport, every = "azure_imds", 5.0

    def __init__(self) -> None:
        self.document: Any = NONE
        self.broken = False
        self.looks = 0

    async def read(self) -> Any:
        self.looks += 1
        if self.broken:
            raise Unreadable("no answer")
        return self.document


class World:
    def __init__(self) -> None:
        self.clock, self.doctor, self.source = FakeClock(), Doctor(), Source()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        watcher = MetadataWatcher(Metadata(cloud="azure"), self.doctor, self.clock)
        watcher._sources = [self.source]
        task = asyncio.ensure_future(watcher.run(Sink()))
        await settle()
        try:
            yield
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    async def pass_(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            await self.clock.advance(SECOND)


class Sink:
    def report(self, report: object) -> None:
        raise AssertionError("it owns no condition")


async def test_what_it_finds_first_is_told_even_if_it_is_nothing() -> None:
    world = World()
    async with world.watching():
        assert world.doctor.heard == [("azure_imds", NONE)]


async def test_a_change_is_told_once_and_its_end_too() -> None:
    world = World()
    async with world.watching():
        world.source.document = EVENTS
        await world.pass_(20)
        world.source.document = NONE
        await world.pass_(20)
    assert [payload for _, payload in world.doctor.heard] == [NONE, EVENTS, NONE]


async def test_what_stands_is_told_again_and_that_nothing_does_is_not() -> None:
    world = World()
    async with world.watching():
        await world.pass_(REMIND + 10)
        assert world.doctor.heard == [("azure_imds", NONE)]
        world.source.document = EVENTS
        await world.pass_(REMIND + 20)
    assert [payload for _, payload in world.doctor.heard] == [NONE, EVENTS, EVENTS]


async def test_a_service_that_does_not_answer_says_nothing_of_events() -> None:
    world = World()
    async with world.watching():
        world.source.document = EVENTS
        await world.pass_(6)
        world.source.broken = True
        await world.pass_(100)
        looks = world.source.looks
        world.source.broken = False
        await world.pass_(61)
    assert [payload for _, payload in world.doctor.heard] == [NONE, EVENTS]
    assert looks < 15, "it is asked less and less often"


async def test_the_newest_document_alone_waits_for_an_operator_that_is_away() -> None:
    world = World()
    world.doctor.broken = NotTaken("503")
    async with world.watching():
        world.source.document = EVENTS
        await world.pass_(90)
        assert world.doctor.heard == []
        world.doctor.broken = None
        await world.pass_(61)
    assert world.doctor.heard == [("azure_imds", EVENTS)]


async def test_what_is_refused_for_good_is_not_told_again_and_hides_no_other() -> None:
    world = World()
    world.doctor.broken = NotTaken("400 malformed", final=True)
    async with world.watching():
        world.doctor.broken = None
        await world.pass_(61)
        assert world.doctor.heard == []
        world.source.document = EVENTS
        await world.pass_(6)
    assert world.doctor.heard == [("azure_imds", EVENTS)]


class Answer:
    def __init__(self, status: int) -> None:
        self.status = status

    async def text(self) -> str:
        return "said so"

    async def __aenter__(self) -> "Answer":
        return self

    async def __aexit__(self, *error: object) -> None:
        pass


class Operator:
    """A Transport that answers `status`."""

    generation = 1

    def __init__(self, status: int) -> None:
        self.status = status
        self.sent: list[tuple[str, str, Any]] = []
        self.reloads = 0

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: Any,  # noqa: ASYNC109
    ) -> Any:
        if self.status == 0:
            raise ConnectionRefusedError("nobody listens")
        self.sent.append((method, path, json.loads(body or b"null")))
        return Answer(self.status)

    async def reload(self, generation: int) -> None:
        self.reloads += 1

    async def close(self) -> None:
        pass


async def test_a_document_goes_to_its_agents_own_place() -> None:
    operator = Operator(200)
    await HostDoctor(operator, "n1").tell("gcp_maintenance_event", "NONE")
    assert operator.sent == [
        ("POST", "/v1/hosts/n1/events", {"transport": "gcp_maintenance_event", "payload": "NONE"})
    ]


@pytest.mark.parametrize(
    ("status", "final", "reloads"),
    [
        (0, False, 1),
        (400, True, 0),
        (401, False, 1),
        (413, True, 0),
        (429, False, 0),
        (503, False, 0),
    ],
)
async def test_only_what_would_be_refused_again_is_given_up(
    status: int, final: bool, reloads: int
) -> None:
    operator = Operator(status)
    with pytest.raises(NotTaken) as caught:
        await HostDoctor(operator, "n1").tell("azure_imds", EVENTS)
    assert (caught.value.final, operator.reloads) == (final, reloads)
