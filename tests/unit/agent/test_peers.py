"""A peer's eyes: what counts as reached, what as silent, and what it may look at at all."""

import asyncio
import errno
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from agent.probes import CannotAnswer
from agent.probes import peers as probe
from agent.probes.peers import answers, peers

HERE = "127.0.0.1"


@asynccontextmanager
async def a_listener(speaks: bool) -> AsyncIterator[int]:
    """A port that completes handshakes, as a kernel does for a process that hangs."""

    served: list[asyncio.StreamWriter] = []

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(writer)
        if speaks:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    server = await asyncio.start_server(serve, HERE, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        for writer in served:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()


async def test_who_speaks_is_reached_and_who_only_listens_is_silent() -> None:
    async with a_listener(speaks=True) as port:
        assert await answers(HERE, port) is True
    async with a_listener(speaks=False) as port:
        assert await answers(HERE, port, 0.05) is False


async def test_a_refusal_is_an_answer() -> None:
    async with a_listener(speaks=True) as port:
        pass
    assert await answers(HERE, port) is True


@pytest.mark.parametrize(
    ("number", "reached"),
    [
        (errno.EHOSTUNREACH, False),
        (errno.ETIMEDOUT, False),
        (errno.ENETUNREACH, None),
        (errno.EACCES, None),
        (errno.EMFILE, None),
    ],
)
async def test_f05_our_own_trouble_says_nothing_of_the_other_host(
    monkeypatch: pytest.MonkeyPatch, number: int, reached: bool | None
) -> None:
    async def fail(*args: Any, **options: Any) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(asyncio, "open_connection", fail)
    if reached is None:
        with pytest.raises(CannotAnswer):
            await answers("10.0.0.9", 10250)
    else:
        assert await answers("10.0.0.9", 10250) is reached


ARGS = {"address": "10.0.0.2", "port": "10250", "controlAddress": "10.0.0.3", "controlPort": "1"}


async def test_both_are_looked_at_and_both_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def seen(host: str, port: int) -> bool:
        return (host, port) == ("10.0.0.3", 1)

    monkeypatch.setattr(probe, "answers", seen)
    assert await peers(ARGS) == {"reached": False, "control": True}


@pytest.mark.parametrize(
    "wrong",
    [
        {"address": "localhost"},
        {"address": "127.0.0.1"},
        {"address": "0.0.0.0"},
        {"controlAddress": "::1"},
        {"controlAddress": ""},
        {"port": "0"},
        {"port": "99999"},
        {"controlPort": "-1"},
    ],
)
async def test_only_addresses_of_other_hosts_are_looked_at(wrong: Mapping[str, str]) -> None:
    with pytest.raises(CannotAnswer):
        await peers({**ARGS, **wrong})
