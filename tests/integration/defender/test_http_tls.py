"""Kube Defender's API over TLS: who a certificate is, what is trusted, what is renewed."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.defender_api import NO, YES, Nothing, Recording, an_ask
from support.pki import Authority, Identity
from support.running import running, until

from defender.client import ClientTls, DefenderUnreachable, HttpPermits
from defender.server import connection
from defender.server.auth.gate import RequestAuthenticator, RequestAuthenticatorSettings
from defender.server.http.app import create_app
from defender.server.server import DefenderServer
from kubenode.api.v1alpha1 import Reason, Verdict
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.identity import AUTHENTICATED, Proof
from kubenode.runtime.kube.identity import Identity as Caller
from kubenode.runtime.process import CannotStart
from kubenode.runtime.tls.certificates import Pair
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.files import FileKeeper, PemFiles
from kubenode.runtime.tls.peer import Peer

pytestmark = pytest.mark.integration
CLOCK = SystemClock()


class Open(RequestAuthenticator):
    """Whoever has a certificate may do everything; who came is kept."""

    def __init__(self) -> None:
        super().__init__(None, CLOCK, RequestAuthenticatorSettings())
        self.came: list[Caller | None] = []

    async def identify(self, token: str, peer: Peer | None = None) -> Caller | None:
        self.came.append(await super().identify(token, peer))
        return self.came[-1]

    async def may(self, who: Caller, verb: str, resource: str, *_: Any, **__: Any) -> bool:
        return True


class World:
    """An authority for the server and one for clients, in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers, self.clients = self.authority("servers"), self.authority("clients")
        self.serving = self.servers.issue("serving", "defender", sans=["127.0.0.1", "localhost"])
        self.context = LiveContext()
        files = PemFiles(self.serving.cert_file, self.serving.key_file, self.clients.cert_file)
        self.keeper = FileKeeper(CLOCK, self.context, files)
        self.keeper.start("--tls-cert-file")
        self.gate, self.port = Open(), Recording()
        app = create_app(self.port, Nothing(), self.gate)
        self.server = DefenderServer(app, context=self.context)

    def authority(self, name: str) -> Authority:
        (self.folder / name).mkdir()
        return Authority(self.folder / name)

    def tls(self, who: Identity | None = None) -> ClientTls:
        shown = (who.cert_file, who.key_file) if who is not None else (None, None)
        return ClientTls(self.servers.cert_file, *shown)

    @asynccontextmanager
    async def client(
        self, who: Identity | None = None, host: str = "127.0.0.1"
    ) -> AsyncIterator[HttpPermits]:
        client = HttpPermits(f"https://{host}:{self.server.port}", tls=self.tls(who))
        try:
            yield client
        finally:
            await client.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    found = World(tmp_path)
    async with running(found.server.run()):
        await found.server.listening.wait()
        yield found


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_certificate_is_the_user_it_names(world: World, host: str) -> None:
    who = world.clients.issue("remedy", "remedy", ["kubenode:operators"])
    async with world.client(who, host) as client:
        assert await client.ask(an_ask()) == YES
        assert await client.check("n1-abc", 1) == YES
    groups = ("kubenode:operators", AUTHENTICATED)
    assert world.gate.came == [Caller("remedy", groups, Proof.CERTIFICATE)] * 2


async def test_without_a_certificate_one_is_nobody(world: World) -> None:
    async with world.client() as client:
        with pytest.raises(DefenderUnreachable, match="401"):
            await client.ask(an_ask())
    assert world.gate.came == [None] and world.port.heard == []


async def test_a_certificate_of_another_authority_is_not_let_in(world: World) -> None:
    stranger = world.authority("others").issue("remedy", "remedy")
    async with world.client(stranger) as client:
        with pytest.raises(DefenderUnreachable):
            await client.ask(an_ask())
    for who in (world.serving,):  # a server's certificate is no client's
        async with world.client(who) as client:
            with pytest.raises(DefenderUnreachable):
                await client.ask(an_ask())
    assert world.gate.came == []


async def test_a_server_of_another_authority_is_not_believed(world: World) -> None:
    client = HttpPermits(
        f"https://127.0.0.1:{world.server.port}", tls=ClientTls(world.clients.cert_file)
    )
    with pytest.raises(DefenderUnreachable, match=r"CERTIFICATE_VERIFY_FAILED|certificate"):
        await client.ask(an_ask())
    await client.close()


async def test_new_authorities_of_clients_hold_and_old_ones_do_not(world: World) -> None:
    old = world.clients.issue("old", "old")
    others = world.authority("renewed")
    new = others.issue("new", "new")
    world.clients.cert_file.write_bytes(others.cert_file.read_bytes())
    world.keeper.refresh()
    async with world.client(new) as client:
        assert (await client.ask(an_ask())).allowed
    async with world.client(old) as client:
        with pytest.raises(DefenderUnreachable):
            await client.ask(an_ask())


async def test_a_renewed_certificate_is_served_and_a_broken_one_is_not(world: World) -> None:
    before = world.context.pair
    world.serving.cert_file.write_bytes(b"no certificate")
    world.keeper.refresh()
    assert world.context.pair == before
    renewed = world.servers.issue("serving", "defender", sans=["127.0.0.1"])
    assert renewed.cert_file == world.serving.cert_file
    world.keeper.refresh()
    assert world.context.pair == Pair(renewed.cert_file.read_bytes(), renewed.key_file.read_bytes())
    async with world.client(world.clients.issue("c", "c")) as client:
        assert (await client.ask(an_ask())).allowed


def test_files_that_cannot_be_used_are_told_at_the_start(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    serving = authority.issue("serving", "x", sans=["127.0.0.1"])
    other = authority.issue("other", "x", sans=["127.0.0.1"])
    broken = [
        PemFiles(tmp_path / "none.crt", serving.key_file),
        PemFiles(serving.cert_file, other.key_file),
        PemFiles(serving.cert_file, serving.key_file, serving.key_file),
    ]
    for files in broken:
        with pytest.raises(CannotStart, match="--tls-cert-file"):
            FileKeeper(CLOCK, LiveContext(), files).start("--tls-cert-file")


async def test_a_client_whose_certificate_was_renewed_shows_the_new_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FILE_CHECK_SECONDS", 0.0)
    who = world.clients.issue("me", "first")
    async with world.client(who) as client:
        await client.ask(an_ask())
        world.clients.issue("me", "second")
        await client.ask(an_ask())
    assert [came.name for came in world.gate.came if came] == ["first", "second"]


# -- several replicas -----------------------------------------------------------------------------


@asynccontextmanager
async def replica(port: Recording) -> AsyncIterator[str]:
    gate = RequestAuthenticator(None, CLOCK, RequestAuthenticatorSettings(anyone=True))
    server = DefenderServer(create_app(port, Nothing(), gate))
    async with running(server.run()):
        await server.listening.wait()
        yield f"http://127.0.0.1:{server.port}"


def nobody() -> tuple[socket.socket, str]:
    """An address where nobody listens, as long as the socket is kept."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    return taken, f"http://127.0.0.1:{taken.getsockname()[1]}"


async def test_the_next_replica_is_asked_when_one_is_gone() -> None:
    taken, gone = nobody()
    port = Recording()
    async with replica(port) as url:
        client = HttpPermits([gone, url])
        assert await client.ask(an_ask()) == YES
        await client.release("n1-abc")
        await client.close()
    taken.close()
    assert len(port.heard) == 2


async def test_the_next_replica_is_asked_when_one_does_not_lead() -> None:
    follower = Recording(
        Verdict(allowed=False, reason=Reason.STORE_UNAVAILABLE, message="not the lease")
    )
    leader = Recording()
    async with replica(follower) as first, replica(leader) as second:
        client = HttpPermits([first, second])
        for _ in range(3):
            assert await client.ask(an_ask()) == YES
        leader.says = NO
        assert await client.ask(an_ask()) == NO, "a refusal is an answer"
        leader.says = follower.says
        assert (await client.ask(an_ask())).reason is Reason.STORE_UNAVAILABLE
        await client.close()
    assert len(follower.heard) == 2, "the one that answered is asked first from then on"


async def test_when_all_are_gone_each_is_named() -> None:
    (one, first), (two, second) = nobody(), nobody()
    client = HttpPermits([first, second], timeout=2)
    with pytest.raises(DefenderUnreachable) as caught:
        await client.ask(an_ask())
    assert first in str(caught.value) and second in str(caught.value)
    await client.close()
    one.close()
    two.close()


# -- waking ---------------------------------------------------------------------------------------


async def test_those_who_are_next_are_woken_and_a_lost_stream_is_opened_again() -> None:
    port = Recording()
    holder = an_ask().holder
    port.woken = [holder, holder]
    async with replica(port) as url:
        client = HttpPermits(url)
        wakes = client.wakes()
        assert [await anext(wakes), await anext(wakes)] == [holder, holder]
        await wakes.aclose()
        await client.close()
    port.woken = [holder]
    taken, gone = nobody()
    async with replica(port) as url:
        client = HttpPermits([gone, url])
        async with asyncio.timeout(20):
            assert await anext(client.wakes()) == holder
        await client.close()
    taken.close()


async def test_a_server_that_stops_does_not_wait_for_its_streams() -> None:
    port = Recording(woken=[an_ask().holder])
    client: HttpPermits | None = None
    began = asyncio.get_running_loop().time()
    async with replica(port) as url:
        client = HttpPermits(url)
        wakes = client.wakes()
        await anext(wakes)
        waiting = asyncio.ensure_future(anext(wakes))
        await asyncio.sleep(0)
    assert asyncio.get_running_loop().time() - began < 4
    waiting.cancel()
    await client.close()


async def test_only_so_many_may_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    port = Recording(woken=[an_ask().holder])
    gate = RequestAuthenticator(None, CLOCK, RequestAuthenticatorSettings(anyone=True))
    app = create_app(port, Nothing(), gate)
    app.streams._most = 2
    server = DefenderServer(app)
    async with running(server.run()):
        await server.listening.wait()
        client = HttpPermits(f"http://127.0.0.1:{server.port}")
        streams = [client.wakes() for _ in range(2)]
        for stream in streams:
            await anext(stream)
        assert len(app.streams) == 2
        async with connection_to(server.port) as status:
            assert status == 503
        for stream in streams:
            await stream.aclose()
        await client.close()
        await until(lambda: len(app.streams) == 0, 60, "the streams are over")


@asynccontextmanager
async def connection_to(port: int) -> AsyncIterator[int]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/v1/wakes") as answer,
    ):
        yield answer.status
