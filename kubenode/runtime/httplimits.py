"""Limits of all our HTTP servers: connections, times, and the bytes of all bodies together.

`kubenode.runtime.webserver` applies them to each port, to clients without credentials as well.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kubenode.runtime.serverlimits import HttpLimits

SLOWEST = 128 * 2**10
"""Bytes per second. A body that arrives at least this fast may take as long as it needs."""
SCOPE_KEY = "kubenode.body"


class BodyRefused(HTTPException):
    """A body is refused. Unless the application catches it, the answer has its code."""

    code = 400

    def __init__(self, why: str) -> None:
        super().__init__(self.code, why)

    def __str__(self) -> str:
        return self.detail


class TooLong(BodyRefused):
    """The body is longer than the endpoint accepts."""

    code = 413


class TooSlow(BodyRefused):
    """The body did not arrive in time."""

    code = 408


class BodyBudgetFull(BodyRefused):
    """Too many bytes of bodies are in memory. A retry may succeed soon."""

    code = 503


class BodyBudget:
    """The byte budget for the bodies of all requests of one server."""

    def __init__(self, most: int) -> None:
        self._most, self._used = most, 0
        self._by_address: Counter[str] = Counter()

    @contextmanager
    def body(self, address: str) -> Iterator["Body"]:
        """Count the bytes that are read in the block until its end."""
        body = Body(self, address)
        try:
            yield body
        finally:
            body.give_back(body.reserved_bytes)

    def take(self, address: str, size: int) -> None:
        """Reserve `size` bytes. Raises BodyBudgetFull."""
        if self._used + size > self._most:
            raise BodyBudgetFull(f"{self._used} bytes of all callers are being taken in; try again")
        if (own := self._by_address[address]) + size > self._most // 2:
            raise BodyBudgetFull(f"{own} bytes from your address are being taken in; try again")
        self._used += size
        self._by_address[address] += size

    def give_back(self, address: str, size: int) -> None:
        self._used -= size
        self._by_address[address] -= size
        if self._by_address[address] <= 0:
            del self._by_address[address]


class Body:
    """The bytes of one request's body that are in memory."""

    def __init__(self, room: BodyBudget, address: str) -> None:
        self._room, self._address, self.reserved_bytes = room, address, 0
        self.refused = False

    def take(self, size: int) -> None:
        """Reserve `size` bytes. Raises BodyBudgetFull."""
        self._room.take(self._address, size)
        self.reserved_bytes += size

    def give_back(self, size: int) -> None:
        """Release bytes early, for an endpoint that passes parts on instead of collecting them."""
        self._room.give_back(self._address, size)
        self.reserved_bytes -= size


class BodyLimit:
    """Wraps an application: it gets no body beyond the budget, and none that arrives too slowly."""

    def __init__(self, app: ASGIApp, limits: HttpLimits) -> None:
        self._app, self._seconds = app, limits.read_seconds
        self._room = BodyBudget(limits.body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with self._room.body((scope.get("client") or ("",))[0]) as body:
            scope[SCOPE_KEY] = body
            bounded = self._receive(receive, body)
            await self._app(scope, bounded, _send(send, body))

    def _receive(self, receive: Receive, body: Body) -> Receive:
        loop = asyncio.get_running_loop()
        due, whole = loop.time() + self._seconds, False

        async def bounded() -> Message:
            nonlocal due, whole
            if whole:  # the next message is the end of the connection, which has no timeout here
                return await receive()
            try:
                async with asyncio.timeout_at(due):
                    message = await receive()
                part = len(message.get("body", b""))
                body.take(part)
            except TimeoutError:
                body.refused = True
                text = f"body: did not arrive within {self._seconds:g} s"
                raise TooSlow(text) from None
            except BodyBudgetFull:
                body.refused = True
                raise
            due += part / SLOWEST
            whole = not message.get("more_body", False)
            return message

        return bounded


def _send(send: Send, body: Body) -> Send:
    """Wrap `send`: close the connection after an answer to a body that was not read to its end."""

    async def closing(message: Message) -> None:
        if body.refused and message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Connection"] = "close"
        await send(message)

    return closing


async def read_body(request: Request, longest: int) -> bytes:
    """Return the body of at most `longest` bytes.

    Raises TooLong, TooSlow, BodyBudgetFull, ClientDisconnect.
    """
    body = _of(request.scope)
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > longest:
        _refuse(body)
        raise TooLong(f"body: has {announced[:20]} bytes, longer than {longest} is not taken")
    raw = bytearray()
    async for chunk in request.stream():
        if len(raw) + len(chunk) > longest:
            _refuse(body)
            raise TooLong(f"body: longer than {longest} bytes")
        raw += chunk
    return bytes(raw)


def handed_on(scope: MutableMapping[str, Any], size: int) -> None:
    """Record that `size` bytes of the body are not in memory any more."""
    if (body := _of(scope)) is not None:
        body.give_back(size)


def _of(scope: MutableMapping[str, Any]) -> Body | None:
    """Return the request's Body, None outside of our servers."""
    body = scope.get(SCOPE_KEY)
    return body if isinstance(body, Body) else None


def _refuse(body: Body | None) -> None:
    if body is not None:
        body.refused = True
