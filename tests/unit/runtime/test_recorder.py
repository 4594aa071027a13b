"""Events: one per content, counted, bounded, and never in the way of the work."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec
import pytest
from support.clock import FakeClock, settle
from support.running import running

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.recorder import PENDING, SAME_BURST, EventRecorder

NODE = {"kind": "Node", "api_version": "v1", "name": "n1", "uid": "u1"}


class Stored(Kube):
    """A Kube whose server is a dict of Events; `down` makes every request fail."""

    def __init__(self, clock: FakeClock) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.down = False
        super().__init__(Wire(self), clock=clock)


class Wire:
    generation = 0

    def __init__(self, stored: Stored) -> None:
        self.stored = stored

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  the Transport's
    ) -> Any:
        if self.stored.down:
            raise ConnectionRefusedError("down")
        events, sent = self.stored.events, msgspec.json.decode(body or b"{}")
        name = path.rsplit("/", 1)[1]
        match method:
            case "POST" if sent["metadata"]["name"] in events:
                return Answer(409, {"reason": "AlreadyExists"})
            case "POST":
                events[sent["metadata"]["name"]] = sent
                return Answer(201, sent)
            case _ if name not in events:
                return Answer(404, {"reason": "NotFound"})
            case "PATCH":
                events[name] |= sent
            case _:
                pass
        return Answer(200, events[name])

    async def reload(self, generation: int) -> None: ...

    async def close(self) -> None: ...


class Answer:
    headers: Mapping[str, str] = {}

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status, self.body = status, body

    async def __aenter__(self) -> "Answer":
        return self

    async def __aexit__(self, *error: object) -> None: ...

    async def read(self) -> bytes:
        return msgspec.json.encode(self.body)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def kube(clock: FakeClock) -> Stored:
    return Stored(clock)


async def test_the_same_event_is_one_object_with_a_count(kube: Stored, clock: FakeClock) -> None:
    recorder = EventRecorder(kube, "remedy", clock)
    async with running(recorder.run()):
        for _ in range(3):
            await recorder.emit(NODE, "Normal", "Cordoned", "cordoned for job j1")
        await recorder.emit(NODE, "Normal", "Uncordoned", "healthy again")
        await settle()
    counts = {e["reason"]: e["count"] for e in kube.events.values()}
    assert counts == {"Cordoned": 3, "Uncordoned": 1}
    event = next(iter(kube.events.values()))
    assert event["metadata"]["namespace"] == "default", "as for all cluster-scoped objects"
    assert event["involvedObject"]["uid"] == "u1"
    assert "namespace" not in event["involvedObject"]


async def test_a_restarted_process_counts_on(kube: Stored, clock: FakeClock) -> None:
    for _ in range(2):
        recorder = EventRecorder(kube, "remedy", clock)
        async with running(recorder.run()):
            await recorder.emit(NODE, "Normal", "Cordoned", "cordoned")
            await settle()
    assert [e["count"] for e in kube.events.values()] == [2]


async def test_an_event_the_server_forgot_is_written_anew(kube: Stored, clock: FakeClock) -> None:
    recorder = EventRecorder(kube, "remedy", clock)
    async with running(recorder.run()):
        await recorder.emit(NODE, "Normal", "Cordoned", "cordoned")
        await settle()
        kube.events.clear()
        await recorder.emit(NODE, "Normal", "Cordoned", "cordoned")
        await settle()
    assert [e["count"] for e in kube.events.values()] == [1]


async def test_what_is_above_the_bounds_is_dropped_and_counted(
    kube: Stored, clock: FakeClock
) -> None:
    recorder = EventRecorder(kube, "remedy", clock)
    for i in range(100):
        await recorder.emit(NODE, "Normal", "Again", f"{i}")
    assert recorder.dropped == 100 - SAME_BURST
    for i in range(PENDING + 50):
        await recorder.emit({**NODE, "uid": f"u{i}"}, "Normal", "Once", "")
    assert recorder.dropped >= 100 - SAME_BURST + 50
    clock.step(timedelta(minutes=1))


async def test_a_server_that_refuses_never_reaches_the_caller(
    kube: Stored, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = EventRecorder(kube, "remedy", clock)
    kube.down = True
    async with running(recorder.run()):
        for i in range(3):
            await recorder.emit(NODE, "Warning", "Failed", f"{i}")
        await settle()
        assert (recorder.written, recorder.dropped) == (0, 3)
    texts = {r.__dict__["why"] for r in caplog.records if r.name.endswith("recorder")}
    assert len(texts) == 1


async def test_the_last_words_are_written_at_shutdown(kube: Stored, clock: FakeClock) -> None:
    recorder = EventRecorder(kube, "remedy", clock)
    async with running(recorder.run()):
        await asyncio.sleep(0)
        await recorder.emit(NODE, "Normal", "Stopping", "")
    assert len(kube.events) == 1


async def test_names_are_valid_and_messages_are_cut(kube: Stored, clock: FakeClock) -> None:
    recorder = EventRecorder(kube, "remedy", clock)
    async with running(recorder.run()):
        await recorder.emit({**NODE, "name": "n" * 253}, "Normal", "Long", "é" * 2000)
        await settle()
    (name, event) = next(iter(kube.events.items()))
    assert len(name) <= 253
    assert len(event["message"].encode()) <= 1024
