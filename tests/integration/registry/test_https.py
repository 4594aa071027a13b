"""The webhook over a real TLS socket: bodies that are none, and certificates that change."""

import asyncio
import io
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import aiohttp
import pytest
from support.running import running, until
from support.webhook_world import Admission, a_review, a_spec, an_object

from kubenode.runtime.admission.app import LONGEST_REVIEW, app
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.process import CannotStart, causes
from kubenode.runtime.tls.certificates import Pair, new_authority, new_serving
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.server import HttpsServer
from remedy.webhook.validator import PATH

pytestmark = pytest.mark.integration

HOUR = timedelta(hours=1)


class World:
    """A server that listens, and callers that trust its authority."""

    def __init__(self, admission: Admission) -> None:
        self.authority = new_authority(HOUR, SystemClock().now())
        self.context = LiveContext()
        self.renew()
        self.server = HttpsServer(
            app({PATH: admission.validator.answer}),
            self.context,
            address="127.0.0.1",
            port=0,
            flag="--webhook-port",
        )

    def renew(self) -> Pair:
        pair = new_serving(self.authority, ("127.0.0.1",), HOUR, SystemClock().now())
        self.context.load(pair)
        return pair

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.port}"

    def caller(self) -> aiohttp.ClientSession:
        trust = ssl.create_default_context(cadata=self.authority.certificate.decode())
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    with Admission() as admission:
        found = World(admission)
        async with running(found.server.run()):
            await until(found.server.listening.is_set)
            yield found


@asynccontextmanager
async def posted(world: World, body: bytes, path: str = PATH) -> AsyncIterator[tuple[int, str]]:
    async with (
        world.caller() as session,
        session.post(world.url + path, data=io.BytesIO(body)) as reply,
    ):
        yield reply.status, await reply.text()


async def test_a_review_is_answered(world: World) -> None:
    review = a_review(an_object("new", a_spec()))
    async with posted(world, review, f"{PATH}?timeout=5s") as (status, text):
        assert status == 200 and '"allowed":true' in text


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "AdmissionReview"),
        (b'{"kind":', 400, "AdmissionReview"),
        (b"\xff\xfe\x00", 400, "AdmissionReview"),
        (b"[" * 200_000, 400, "body"),
        (b'"' + b"x" * LONGEST_REVIEW, 413, "longer than"),
    ],
    ids=["empty", "cut", "no text", "deep", "long"],
)
async def test_a_body_that_is_no_review_is_answered_clearly(
    world: World, body: bytes, status: int, says: str
) -> None:
    async with posted(world, body) as (got, text):
        assert got == status and says in text
    async with posted(world, a_review(an_object("new", a_spec()))) as (got, text):
        assert got == 200, "and the next one is served"


async def test_a_large_rule_is_examined(world: World) -> None:
    """1 MiB of annotations: as large as an API server stores."""
    rule = an_object("new", a_spec())
    rule["metadata"]["annotations"] = {"note": "x" * 2**20}
    async with posted(world, a_review(rule, an_object("new", a_spec(priority=1)))) as (got, text):
        assert got == 200 and '"allowed":true' in text


async def test_a_new_certificate_is_served_and_no_connection_is_dropped(world: World) -> None:
    async with connection(world) as (reader, writer):
        before = await ask(reader, writer)
        world.renew()
        assert await ask(reader, writer) == before, "the connection stands"
    async with connection(world) as (reader, writer):
        assert await ask(reader, writer) != before


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connection(world: World) -> AsyncIterator[Streams]:
    trust = ssl.create_default_context(cadata=world.authority.certificate.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port, ssl=trust)
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """One question on the connection; the certificate that it was made under."""
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: hook\r\n\r\n")
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    assert head.startswith(b"HTTP/1.1 200") and await reader.readexactly(3) == b"ok\n"
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return found


async def test_a_taken_port_is_told_with_the_flag(world: World) -> None:
    with Admission() as admission:
        other = World(admission)
        other.server.port = world.server.port
        with pytest.raises((CannotStart, ExceptionGroup)) as raised:
            await other.server.run()
    [error] = causes(raised.value)
    assert "is taken" in str(error) and "--webhook-port" in str(error)
