"""Accepts connections for a server, with limits in total, per address and in time.

A connection counts from its acceptance, before its TLS handshake. If all places are taken, an idle
connection is closed for the new one, so that a client which opens connections and sends nothing
keeps nobody out.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from asyncio import sslproto
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from kubenode.runtime.serverlimits import HttpLimits

log = logging.getLogger(__name__)

TLS_BUFFER = 2**16
"""Bytes of the read buffer of a TLS connection, allocated before its handshake.

asyncio's default is four times as much, which is 30 MiB for 120 silent clients. A TLS record has at
most a quarter of this.
"""
sslproto.SSLProtocol.max_size = TLS_BUFFER
SHUTDOWN_SECONDS = 2.0
"""Time for the client's half of the TLS shutdown."""
PAUSE_SECONDS = 0.5
"""Pause after the system refused to accept, such as for lack of file descriptors."""
LINE_SECONDS = 10.0
"""Interval in which at most one line is logged."""


class ServedConnection(Protocol):
    """The protocol of a connection."""

    @property
    def busy(self) -> bool:
        """Return whether a complete request is being answered."""

    def abort(self) -> None: ...


class Guest:
    """One accepted connection.

    since: time of its acceptance, later of its last complete request, by the event loop's clock
    """

    def __init__(self, door: "Door", address: str, since: float) -> None:
        self._door = door
        self.address, self.since = address, since
        self.entering: asyncio.Task[None] | None = None
        self.served: ServedConnection | None = None

    @property
    def busy(self) -> bool:
        return self.served is not None and self.served.busy

    def leave(self) -> None:
        self._door.remove_guest(self)

    def abort(self) -> None:
        self.leave()
        if self.served is not None:
            self.served.abort()
        elif self.entering is not None:
            self.entering.cancel()


MakeProtocol = Callable[[Guest], asyncio.Protocol]


class Door:
    """Accepts until `close`, as asyncio's Server does. The creator of the listener closes it."""

    def __init__(
        self,
        listener: socket.socket,
        make: MakeProtocol,
        tls: ssl.SSLContext | None,
        limits: HttpLimits,
    ) -> None:
        self._listener, self._make, self._tls, self._limits = listener, make, tls, limits
        self._guests: dict[Guest, None] = {}
        self._by_address: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._line_at = 0.0
        listener.setblocking(False)
        self._accepting = self._start(self._accept())

    def close(self) -> None:
        self._accepting.cancel()

    async def wait_closed(self) -> None:
        """End handshakes in progress, and return when nothing is accepted any more."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def remove_guest(self, guest: Guest) -> None:
        """Free the place of a connection. Idempotent."""
        if guest in self._guests:
            del self._guests[guest]
            self._by_address[guest.address] -= 1
            if not self._by_address[guest.address]:
                del self._by_address[guest.address]

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self) -> None:
        while True:
            try:
                connection, name = await self._loop.sock_accept(self._listener)
            except OSError as error:
                self._log(f"could not be accepted: {error}")
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            address = str(name[0]) if name else ""
            if not self._has_place(address):
                self._log("refused: all are in use", address)
                connection.close()
                continue
            guest = Guest(self, address, self._loop.time())
            self._guests[guest] = None
            self._by_address[address] += 1
            guest.entering = self._start(self._enter(guest, connection))

    def _has_place(self, address: str) -> bool:
        if self._by_address[address] >= self._limits.per_address:
            return self._displace(address)
        if len(self._guests) >= self._limits.connections:
            return self._displace(None)
        return True

    def _displace(self, address: str | None) -> bool:
        """Close the longest idle connection of `address`; return whether there was one.

        With `address` None, choose from the address that has most idle connections.
        """
        idle = [g for g in self._guests if not g.busy and address in (None, g.address)]
        if not idle:
            return False
        [(most, _)] = Counter(guest.address for guest in idle).most_common(1)
        victim = min((g for g in idle if g.address == most), key=lambda guest: guest.since)
        self._log("ended while it waited, for a new one", victim.address)
        victim.abort()
        return True

    async def _enter(self, guest: Guest, connection: socket.socket) -> None:
        """Lead a connection through the handshake to its protocol."""
        tls = self._tls is not None
        try:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                lambda: self._make(guest),
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=self._limits.read_seconds if tls else None,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS if tls else None,
            )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            log.debug("no connection", extra={"address": guest.address, "why": str(error)})
            guest.leave()
        except BaseException:  # a cancellation too: the place is free again
            guest.leave()
            raise

    def _log(self, why: str, address: str = "") -> None:
        if self._loop.time() >= self._line_at:
            self._line_at = self._loop.time() + LINE_SECONDS
            log.warning("connection is not served", extra={"address": address, "why": why})
