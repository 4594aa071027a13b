"""Bundles over HTTP: agents upload them, people download them.

PUT /v1/hosts/AGENT/bundles/NAME   by that agent's own client certificate; 201 and the place
GET /v1/hosts/AGENT/bundles/NAME   by users with the right to download; the stored bytes
"""

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import IO

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kubenode.runtime.httplimits import handed_on
from remedy.bundles.port import MOST_BYTES, BundleStore, NoBundle, StoreFailed, fits

log = logging.getLogger(__name__)

AT_ONCE = 4
"""Concurrent uploads: in a storm many jobs collect at once."""
TAKE_SECONDS = 120.0
GZIP = b"\x1f\x8b"
PATH = "/v1/hosts/{agent}/bundles/{name}"

Guard = Callable[[Request], Awaitable[Response | None]]
"""Returns None, or the response that refuses."""


class BundleRoutes:
    """Routes for bundles. `may_hand_in` admits only the agent in the path, `may_read` people who
    download.
    """

    def __init__(self, store: BundleStore, may_hand_in: Guard, may_read: Guard) -> None:
        self._store, self._may_hand_in, self._may_read = store, may_hand_in, may_read
        self._slots = asyncio.Semaphore(AT_ONCE)
        self.routes = [
            Route(PATH, self._put, methods=["PUT"]),
            Route(PATH, self._get, methods=["GET"]),
        ]

    async def _put(self, request: Request) -> Response:
        agent, name = request.path_params["agent"], request.path_params["name"]
        if (refused := await self._may_hand_in(request)) is not None:
            return refused
        if not fits(agent, name):
            return _respond(400, f"name {name!r}: letters, digits, . and -, ending with .tar.gz")
        if int(request.headers.get("content-length") or 0) > MOST_BYTES:
            return _too_long()
        if self._slots.locked():
            return _busy()
        async with self._slots:
            try:
                async with asyncio.timeout(TAKE_SECONDS):
                    return await self._take(request, agent, name)
            except TimeoutError:
                return _respond(408, f"no whole bundle within {TAKE_SECONDS:.0f} s")
            except ClientDisconnect:
                return _respond(400, "the body ended early")

    async def _take(self, request: Request, agent: str, name: str) -> Response:
        with tempfile.NamedTemporaryFile(prefix="kubenode-bundle-") as file:
            if (wrong := await _received(request, file)) is not None:
                return wrong
            try:
                place = await self._store.put(agent, name, Path(file.name))
            except StoreFailed as error:
                log.warning("a bundle was not kept", extra={"agent": agent, "error": str(error)})
                return _respond(503, f"the bundle could not be kept: {error}")
        log.info("a bundle was kept", extra={"agent": agent, "place": place})
        return _respond(201, place)

    async def _get(self, request: Request) -> Response:
        agent, name = request.path_params["agent"], request.path_params["name"]
        if (refused := await self._may_read(request)) is not None:
            return refused
        if not fits(agent, name):
            return _respond(404, f"host {agent} has no bundle {name}")
        parts = self._store.get(agent, name)
        try:
            first = await anext(parts, b"")
        except NoBundle as error:
            return _respond(404, str(error))
        except StoreFailed as error:
            return _respond(503, str(error))

        async def body() -> AsyncIterator[bytes]:
            async with aclosing(parts):
                yield first
                async for part in parts:
                    yield part

        return StreamingResponse(body(), media_type="application/gzip")


async def _received(request: Request, file: IO[bytes]) -> Response | None:
    """Write the body to `file`; return the response that refuses it, else None."""
    length = 0
    async for part in request.stream():
        if length == 0 and part and not part.startswith(GZIP[: len(part)]):
            return _respond(415, "this is no gzip")
        length += len(part)
        if length > MOST_BYTES:
            return _too_long()
        await asyncio.to_thread(file.write, part)
        handed_on(request.scope, len(part))
    if length == 0:
        return _respond(400, "the body is empty")
    await asyncio.to_thread(file.flush)
    return None


def _too_long() -> Response:
    return _respond(413, f"a bundle has at most {MOST_BYTES} bytes")


def _busy() -> Response:
    headers = {"Retry-After": "10"}
    return PlainTextResponse(f"{AT_ONCE} bundles are being taken\n", 503, headers)


def _respond(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status)
