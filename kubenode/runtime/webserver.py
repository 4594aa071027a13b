"""An ASGI application on a listening socket, as a part of a program."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from kubenode.runtime.tls.certificates import Unreadable
from kubenode.runtime.tls.peer import SCOPE_KEY, Peer, peer_of

LEAVE_SECONDS = 5
"""For answers under way when we are told to stop."""
IDLE_SECONDS = 75
"""How long a caller's connection may rest. Longer than API servers pause between two questions:
a server that closes first may close on a question that is on its way."""
HEAD_SECONDS = 15
"""From the first byte of a request until its head is whole: who sends slower holds a connection
and nothing else, so it is closed."""


class _Server(uvicorn.Server):
    """Signals are the program's (kubenode.runtime.process), not one part's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _WithPeer:
    """The application, told whose certificate the connection showed."""

    def __init__(self, app: ASGIApp, peer: Peer) -> None:
        self._app, self._peer = app, peer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[SCOPE_KEY] = self._peer
        await self._app(scope, receive, send)


class _Protocol(H11Protocol):
    """uvicorn keeps a client's certificate to itself; ours tells the application."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if (peer := _peer(transport)) is not None:
            self.app = _WithPeer(self.app, peer)
        self._head_timer: asyncio.TimerHandle | None = None
        self._watch_head(begun=True)  # a connection that says nothing is as slow

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head(begun=True)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._watch_head(begun=False)

    def _watch_head(self, *, begun: bool) -> None:
        """`begun` and not whole: the time runs, and no further byte winds it up again."""
        if begun and self.conn.their_state is h11.IDLE:
            if self._head_timer is None:
                late = self.transport.close
                self._head_timer = self.loop.call_later(HEAD_SECONDS, late)
        elif self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _peer(transport: asyncio.Transport) -> Peer | None:
    """Only what the handshake has verified is given; a subject without a name is nobody."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    shown = tls.getpeercert(binary_form=True) if tls is not None else None
    if tls is None or shown is None or tls.context.verify_mode is ssl.CERT_NONE:
        return None
    try:
        return peer_of(shown)
    except Unreadable:
        return None


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    *,
    tls: Callable[[], ssl.SSLContext] | None = None,
    leaving: Callable[[], None] = lambda: None,
    connections: int | None = None,
) -> None:
    """Until cancelled; answers under way are finished first.

    tls      gives the context to serve with
    leaving  called when it is told to stop, to end answers that would not end by themselves
    connections  so many at a time are served; further ones are answered 503

    Whoever calls has bound the socket, so callers may connect before this runs.
    """
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            proxy_headers=False,  # who calls is who is connected to us
            access_log=False,
            lifespan="off",
            http=_Protocol,
            ws="none",
            limit_concurrency=connections,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=LEAVE_SECONDS,
            ssl_context_factory=(lambda config, default: tls()) if tls is not None else None,
        )
    )
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(server.serve(sockets=[listener]), name="uvicorn")
        try:
            await asyncio.wait({work})
        finally:
            leaving()
            server.should_exit = True
            await asyncio.wait({work}, timeout=LEAVE_SECONDS + 1)
