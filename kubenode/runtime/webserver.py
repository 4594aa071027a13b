"""An ASGI application on a listening socket, as a part of a program.

Every port of our programs is served here, under the limits of `kubenode.runtime.httplimits`: an
unauthenticated client can use only few resources, and not for long.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from kubenode.runtime.door import Door, Guest
from kubenode.runtime.httplimits import SLOWEST, BodyLimit
from kubenode.runtime.listener import listen
from kubenode.runtime.serverlimits import DEFAULT, HttpLimits
from kubenode.runtime.tls.certificates import UnreadablePem
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.peer import SCOPE_KEY, Peer, peer_of

log = logging.getLogger(__name__)

LEAVE_SECONDS = 5
"""Time for answers in progress at shutdown."""
IDLE_SECONDS = 75
"""Time for which a connection may be idle, longer than API servers pause between two requests.

A server that closes first may close while a request is on its way.
"""
LINGER_SECONDS = 2.0
"""Time for a client to read an answer that was sent before its body ended, and for an application
to answer that a body is late, before the connection is cut.
"""
MOST_UNREAD = 2**18
"""Bytes of a body that are read and dropped after the answer, so that the connection can serve the
next request. Further bytes are not read.
"""
SEND_SECONDS = 30.0
"""Time after which a client that reads nothing of an answer is disconnected."""


class WebServer:
    """A Part: an application on a port. `port` 0 takes a free one, which `port` then returns.

    flag: names the port in errors
    context: None for plain HTTP
    leaving: called at shutdown, to end answers that would not end by themselves
    """

    name = "web server"

    def __init__(
        self,
        app: ASGIApp,
        *,
        address: str,
        port: int,
        flag: str,
        context: LiveContext | None = None,
        limits: HttpLimits = DEFAULT,
        leaving: Callable[[], None] = lambda: None,
    ) -> None:
        self.address, self.port = address, port
        self.listening = asyncio.Event()
        self._app, self._flag, self._context = app, flag, context
        self._limits, self._leaving = limits, leaving

    async def run(self) -> None:
        """Serve until cancelled, as soon as there is a certificate. Raises CannotStart."""
        context = self._context
        with listen(self.address, self.port, self._flag) as listener:
            self.port = listener.getsockname()[1]
            if context is not None:
                await context.loaded.wait()
            self.listening.set()
            self.announce()
            tls = None if context is None else lambda: context.context
            await serve(self._app, listener, tls=tls, limits=self._limits, leaving=self._leaving)

    def announce(self) -> None:
        """Log the address."""
        where = {"address": self.address, "port": self.port, "tls": self._context is not None}
        log.info("server listens", extra=where)


class _Server(uvicorn.Server):
    """A uvicorn server with Doors, and without signal handlers (see kubenode.runtime.process)."""

    def __init__(self, config: uvicorn.Config, limits: HttpLimits) -> None:
        super().__init__(config)
        self._limits = limits

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()

        def make(guest: Guest) -> asyncio.Protocol:
            return _Protocol(
                guest,
                self._limits,
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )

        tls = self.config.ssl
        doors: list[Any] = [Door(each, make, tls, self._limits) for each in sockets or ()]
        self.servers = doors
        self.started = True


class _WithPeer:
    """The application, with the client's Peer in its scope."""

    def __init__(self, app: ASGIApp, peer: Peer) -> None:
        self._app, self._peer = app, peer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[SCOPE_KEY] = self._peer
        await self._app(scope, receive, send)


class _Protocol(H11Protocol):
    """uvicorn's protocol, with the client's certificate in the scope, and with time limits.

    A request must be complete `read_seconds` after its first byte, the first request after the
    acceptance of its connection; a body that arrives fast has longer. Other bytes extend nothing.
    """

    def __init__(self, guest: Guest, limits: HttpLimits, **given: Any) -> None:
        super().__init__(**given)
        self._guest, self._seconds = guest, limits.read_seconds
        self._due: float | None = None
        self._unread = 0
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Return whether a complete request is being answered."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return answering and not self._incomplete

    @property
    def _incomplete(self) -> bool:
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def abort(self) -> None:
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._guest.served = self
        if (peer := _peer(transport)) is not None:
            self.app = _WithPeer(self.app, peer)
        self._watch(self._guest.since)  # a silent connection is as slow

    def data_received(self, data: bytes) -> None:
        body = self.conn.their_state is h11.SEND_BODY
        super().data_received(data)
        if not self._incomplete:
            self._guest.since = self.loop.time()
            self._unwatch()
        elif self._due is None:
            self._watch(self.loop.time())
        elif body and not self._answered:
            self._due += len(data) / SLOWEST
        elif body and (unread := self._unread + len(data)) > MOST_UNREAD:
            self.flow.pause_reading()
        elif body:
            self._unread = unread

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:  # the application ignores the rest
            self._due, self._unread = self.loop.time() + LINGER_SECONDS, 0
            self._arm()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._sending is None:
            self._sending = self.loop.call_later(SEND_SECONDS, self.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unwatch()
        self._guest.leave()
        if self._sending is not None:
            self._sending.cancel()

    @property
    def _answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete

    def _watch(self, began: float) -> None:
        self._due = began + self._seconds + LINGER_SECONDS
        self._arm()

    def _unwatch(self) -> None:
        self._due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        assert self._due is not None
        self._timer = self.loop.call_at(self._due, self._late)

    def _late(self) -> None:
        now = self.loop.time()
        if self._due is not None and self._due > now:
            self._arm()
        elif self.flow.read_paused and not self._answered:  # the application has not read it yet
            self._due = now + LINGER_SECONDS
            self._arm()
        else:
            self.abort()


def _peer(transport: asyncio.Transport) -> Peer | None:
    """Return the client whose certificate the handshake verified, None without a valid name."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    shown = tls.getpeercert(binary_form=True) if tls is not None else None
    if tls is None or shown is None or tls.context.verify_mode is ssl.CERT_NONE:
        return None
    try:
        return peer_of(shown)
    except UnreadablePem:
        return None


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    *,
    tls: Callable[[], ssl.SSLContext] | None = None,
    leaving: Callable[[], None] = lambda: None,
    limits: HttpLimits = DEFAULT,
) -> None:
    """Serve until cancelled; answers in progress are finished first.

    tls: returns the context to serve with
    leaving: called at shutdown, to end answers that would not end by themselves

    The caller has bound the socket, so clients may connect before this runs.
    """
    server = _Server(
        uvicorn.Config(
            BodyLimit(app, limits),
            log_config=None,
            proxy_headers=False,  # the client is the peer of the connection
            access_log=False,
            lifespan="off",
            http=_Protocol,
            ws="none",
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=LEAVE_SECONDS,
            ssl_context_factory=(lambda config, default: tls()) if tls is not None else None,
        ),
        limits,
    )
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(server.serve(sockets=[listener]), name="uvicorn")
        try:
            await asyncio.wait({work})
        finally:
            leaving()
            server.should_exit = True
            await asyncio.wait({work}, timeout=LEAVE_SECONDS + 1)
