"""What is told of components, and what the network answers to checks."""

import asyncio
from typing import Any

import msgspec
import pytest
from support.clock import FakeClock

from agent.components.publisher import StatusPublisher, decode_machine
from agent.components.reachability import RealReach
from kubenode.runtime.components.wire import (
    WireComponentStatus,
    WireMachine,
    WireMachineMetadata,
    machine_of,
)
from kubenode.runtime.kube.errors import Conflict, NotFound, ServerUnreachable


class FakeMachines:
    """Stands for Kube: patches of one Machine's status."""

    def __init__(self) -> None:
        self.patches: list[Any] = []
        self.errors: list[Exception] = []
        self.version = 10

    async def patch(self, path: str, body: Any, decode: Any = None) -> WireMachine:
        if self.errors:
            raise self.errors.pop(0)
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise Conflict(409)
        self.patches.append(body["status"])
        self.version += 1
        metadata = {"name": "m1", "uid": "u", "resourceVersion": str(self.version)}
        whole = {"metadata": metadata, "spec": {}, "status": body["status"]}
        machine: WireMachine = decode_machine(msgspec.json.encode(whole))
        return machine


HEALTHY = [WireComponentStatus("runc", state="Healthy", revision="1-0123456789", attempt=1)]
STAGED = [WireComponentStatus("runc", state="Staged", needs="Drain")]


def seen(version: int = 10) -> WireMachine:
    return machine_of(
        {"metadata": {"name": "m1", "uid": "u", "resourceVersion": str(version)}, "spec": {}}
    )


def a_teller(server: FakeMachines, machine: WireMachine | None) -> StatusPublisher:
    return StatusPublisher(server, "m1", lambda: machine, FakeClock(), spread=lambda: 0.5)  # type: ignore[arg-type]


async def test_only_a_change_is_written() -> None:
    server = FakeMachines()
    teller = a_teller(server, seen())
    for told in (HEALTHY, HEALTHY, STAGED, STAGED, HEALTHY):
        teller.tell(told)
        assert await teller.write()
    states = [patch["components"][0]["state"] for patch in server.patches]
    assert states == ["Healthy", "Staged", "Healthy"]
    assert await a_teller(
        server, msgspec.structs.replace(seen(), metadata=WireMachineMetadata())
    ).write()


async def test_who_wrote_meanwhile_is_not_overwritten() -> None:
    server = FakeMachines()
    server.version = 11
    teller = a_teller(server, seen(10))
    teller.tell(HEALTHY)
    assert not await teller.write()
    assert server.patches == []


@pytest.mark.parametrize("error", [ServerUnreachable("away"), Conflict(409)])
async def test_it_is_told_later_when_it_cannot_be_now(error: Exception) -> None:
    server = FakeMachines()
    server.errors = [error]
    teller = a_teller(server, seen())
    teller.tell(HEALTHY)
    assert not await teller.write()
    assert await teller.write() and len(server.patches) == 1


async def test_without_a_machine_nothing_is_written() -> None:
    server = FakeMachines()
    teller = a_teller(server, None)
    teller.tell(HEALTHY)
    assert await teller.write() and server.patches == []
    server.errors = [NotFound(404)]
    teller = a_teller(server, seen())
    teller.tell(HEALTHY)
    assert await teller.write() and server.patches == []


async def test_what_answers_is_well() -> None:
    status = 200

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reach, url = RealReach(), f"http://127.0.0.1:{port}/healthz"
    try:
        assert await reach.http(url, 20) == ""
        assert await reach.tcp(f"127.0.0.1:{port}", 20) == ""
        for status in (302, 500):
            assert str(status) in await reach.http(url, 20)
    finally:
        server.close()
        await server.wait_closed()
    assert await reach.http(url, 20) != "" and await reach.tcp(f"127.0.0.1:{port}", 20) != ""
    assert await reach.tcp("127.0.0.1:none", 20) != ""
