"""An ASGI application on a listening socket, as a part of a program."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator

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
) -> None:
    """Until cancelled; answers under way are finished first.

    tls      gives the context to serve with
    leaving  called when it is told to stop, to end answers that would not end by themselves

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
