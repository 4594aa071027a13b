"""The only access to the network, so that a client does not depend on how it is authenticated.

Operators use `kubenode.runtime.kube.official` (kubeconfig, exec plugins, in-cluster), the agent
uses `kubenode.runtime.kube.plain`, which does not load the `kubernetes` package.
"""

import asyncio
import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol
from urllib.request import getproxies, proxy_bypass

import aiohttp
import yarl
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict

from kubenode.runtime.fence import write_seconds

READ_BUFFER = 2**21
"""Bytes that a connection buffers before it stops reading from its socket."""


class Transport(Protocol):
    @property
    def generation(self) -> int:
        """Number of reloads. Read it before `send`, to know which credentials a 401 is about."""
        ...

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  aiohttp's own
    ) -> aiohttp.ClientResponse:
        """Send one request, once, and return the open response whatever its status.

        `path` starts with a slash and carries the encoded query. Raises aiohttp.ClientError,
        TimeoutError, OSError or CredentialsError, and nothing else.
        """
        ...

    async def reload(self, generation: int) -> None:
        """Read the credentials again, unless that was done since generation `generation`.

        Of many requests that were refused at once, only one reloads. Raises CredentialsError.
        """
        ...

    async def close(self) -> None: ...


class CredentialsError(Exception):
    """Credentials cannot be read or created. Names the file or plugin and what to do."""


HeaderSource = Callable[[], Awaitable[Mapping[str, str]]]
Used = weakref.WeakSet[asyncio.BaseTransport]
_used: ContextVar[Used] = ContextVar("used")
"""Sockets of the connection pool; the request that is being sent adds its own."""


class Response(aiohttp.ClientResponse):
    """Records its socket before it waits for the answer, so that a cancellation does not lose it.

    aiohttp forgets a connection whose answer was not read to its end. The socket stays open until
    the server answers the TLS shutdown, for up to 30 s.
    """

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        if connection.transport is not None and (used := _used.get(None)) is not None:
            used.add(connection.transport)
        return await super().start(connection)


class _Leaving(aiohttp.BytesPayload):
    """A body whose writer checks the lease again (kubenode.runtime.fence).

    aiohttp writes the headers and the body one turn of the event loop after it got the request.
    """

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        write_seconds(None)
        await super().write_with_length(writer, content_length)


def proxy_of(server: str) -> dict[str, Any]:
    """Return the environment's proxy for `server`, as options of a request.

    A session with `trust_env` would read it for every request, and ~/.netrc too, each in a thread.
    """
    url = yarl.URL(server)
    proxy = getproxies().get(url.scheme)
    if not proxy or url.host is None or proxy_bypass(url.host):
        return {}
    return {"proxy": proxy}


class ApiConnection:
    """One set of credentials with its pool of connections.

    session: without `trust_env`, as the environment's proxy is read here, once; with `Response`
    headers: returns what authenticates a request, called for each one
    options: further arguments of `aiohttp.ClientSession.request` (proxy, server name)
    """

    def __init__(
        self,
        server: str,
        session: aiohttp.ClientSession,
        headers: HeaderSource,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.server = server.rstrip("/")
        self.session = session
        self._headers = headers
        self._options = {**proxy_of(self.server), **(options or {})}
        self._responses: weakref.WeakSet[aiohttp.ClientResponse] = weakref.WeakSet()
        self._used: Used = weakref.WeakSet()

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  aiohttp's own
    ) -> aiohttp.ClientResponse:
        # A header may occur more than once; those of the credentials override others.
        given: CIMultiDict[str] = CIMultiDict(headers)
        given.update(await self._headers())
        _used.set(self._used)
        # `encoded`: the path is percent-encoded already and must not be normalised.
        response = await self.session.request(
            method,
            yarl.URL(self.server + path, encoded=True),
            data=body if body is None else _Leaving(body),
            headers=given,
            timeout=timeout,
            allow_redirects=False,
            **self._options,
        )
        self._responses.add(response)
        return response

    async def websocket(self, path: str, protocol: str) -> aiohttp.ClientWebSocketResponse:
        """Open a websocket. Raises aiohttp.WSServerHandshakeError if the server refuses it."""
        url = yarl.URL(self.server + path, encoded=True)
        socket: aiohttp.ClientWebSocketResponse = await self.session.ws_connect(
            url, protocols=[protocol], headers=await self._headers(), **self._options
        )
        return socket

    async def bearer_token(self) -> str:
        """Return the bearer token of the credentials, "" if they have none."""
        authorization = CIMultiDict(await self._headers()).get("Authorization", "")
        scheme, _, token = authorization.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    @property
    def busy(self) -> bool:
        """Return whether a response is still being read, which needs its connection."""
        return any(response.connection is not None for response in self._responses)

    async def close(self) -> None:
        """End every connection at once, without waiting for the server's TLS shutdown."""
        await self.session.close()
        for transport in list(self._used):
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
        await asyncio.sleep(0)  # the loop closes the sockets in its next turn


class CredentialsTransport(ABC):
    """A Transport that can read its credentials again.

    After a reload new requests use a new ApiConnection. An open watch goes on over the old one,
    which is closed once nothing reads from it. Cutting it would make every informer reconnect at
    each rotation of a token.
    """

    def __init__(self) -> None:
        self._current: ApiConnection | None = None
        self._retired: list[ApiConnection] = []
        self._lock = asyncio.Lock()
        self._generation = 0
        self._closed = False

    @abstractmethod
    async def connect(self) -> ApiConnection:
        """Read the credentials now. Raises CredentialsError."""

    @property
    def generation(self) -> int:
        return self._generation

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  aiohttp's own
    ) -> aiohttp.ClientResponse:
        if self._retired:
            await self._sweep()
        current = self._current or await self._first()
        return await current.send(method, path, body, headers, timeout)

    async def websocket(self, path: str, protocol: str) -> aiohttp.ClientWebSocketResponse:
        """Open a websocket; if the credentials are refused, once more with fresh ones.

        Raises aiohttp.ClientError, OSError or CredentialsError.
        """
        generation, current = self._generation, self._current or await self._first()
        try:
            return await current.websocket(path, protocol)
        except aiohttp.WSServerHandshakeError as error:
            if error.status != 401:
                raise
        await self.reload(generation)
        return await (self._current or await self._first()).websocket(path, protocol)

    async def bearer_token(self, *, fresh: bool = False) -> str:
        """Return the bearer token of the credentials, "" if they have none.

        fresh: read the credentials again before. Raises CredentialsError.
        """
        if fresh:
            await self.reload(self._generation)
        return await (self._current or await self._first()).bearer_token()

    async def _first(self) -> ApiConnection:
        async with self._lock:
            if self._closed:
                raise ConnectionError("this transport was closed")
            if self._current is None:
                self._current = await self.connect()
            return self._current

    async def reload(self, generation: int) -> None:
        async with self._lock:
            if self._generation != generation or self._closed:
                return
            fresh = await self.connect()
            if self._current is not None:
                self._retired.append(self._current)
            self._current = fresh
            self._generation += 1

    async def _sweep(self) -> None:
        idle = [old for old in self._retired if not old.busy]
        self._retired = [old for old in self._retired if old.busy]
        for old in idle:
            await old.close()

    async def close(self) -> None:
        self._closed = True
        for connection in [*self._retired, *filter(None, [self._current])]:
            await connection.close()
        self._retired, self._current = [], None
