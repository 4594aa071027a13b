"""The embedded API server without a network: a Transport that calls it, for one loop.

Each request takes LATENCY of the loop's time; the server's own work is booked under its name.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import parse_qsl

import aiohttp
from support.simulated_time import Books

from simulation.apiserver import ApiError, EmbeddedApiServer, calls, discovery
from simulation.apiserver.api import Api
from simulation.apiserver.forms import Form
from simulation.apiserver.selectors import select
from simulation.apiserver.store import encode
from simulation.apiserver.watch import Watch

LATENCY = 0.002
BOOKMARK_SECONDS = 30.0
SERVER = "server"


class DirectResponse:
    """As much of aiohttp.ClientResponse as a Kube uses."""

    def __init__(self, status: int, raw: bytes = b"") -> None:
        self.status, self.headers = status, dict[str, str]()
        self.content = asyncio.StreamReader(limit=2**22)
        self._raw = raw
        self._watch: asyncio.Task[None] | None = None

    async def write(self, lines: bytes) -> None:
        self.content.feed_data(lines)

    def follow(self, watch: Watch, tasks: asyncio.TaskGroup) -> None:
        self._watch = tasks.create_task(self._follow(watch))

    async def _follow(self, watch: Watch) -> None:
        await watch.stream(cast("Any", self))
        self.content.feed_eof()

    async def read(self) -> bytes:
        return self._raw

    def on_end(self, ended: Callable[[], None]) -> bool:
        """Whether it is a watch; then this is called when it is over."""
        if self._watch is not None:
            self._watch.add_done_callback(lambda _: ended())
        return self._watch is not None

    def cut(self) -> None:
        """The connection breaks."""
        self.close()
        self.content.set_exception(ConnectionResetError("connection reset by peer"))

    def release(self) -> None:
        self.close()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self.content.set_exception(aiohttp.ClientConnectionError("Connection closed"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class DirectTransport:
    """tasks  that follow watches
    asked  requests but watches, by `VERB resource/subresource`
    """

    generation = 0

    def __init__(self, server: EmbeddedApiServer, books: Books, tasks: asyncio.TaskGroup) -> None:
        self._server, self._books, self._tasks = server, books, tasks
        self._api = Api(server.objects)
        self.asked: Counter[str] = Counter()

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  aiohttp's own
    ) -> aiohttp.ClientResponse:
        await asyncio.sleep(LATENCY)
        with self._books.lent(SERVER):
            response = self._answer(method, path, body, headers)
        return cast("aiohttp.ClientResponse", response)

    def _answer(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> DirectResponse:
        where, _, query = path.partition("?")
        if where == "/version":
            return DirectResponse(200, encode(discovery.VERSION))
        try:
            parts = where.strip("/").split("/")
            if len(parts) == 2:
                return DirectResponse(200, encode(discovery.group(self._server.registry, parts[1])))
            if len(parts) == 3 and parts[0] == "apis":
                return DirectResponse(
                    200, encode(discovery.resources(self._server.registry, *parts[1:]))
                )
            call = calls.parse(self._server.registry, method, parts, dict(parse_qsl(query)))
            call.accept, call.body = headers["Accept"], body or b""
            call.content_type = headers.get("Content-Type", "")
            if call.verb == "watch":
                return self._watch(call)
            sub = f"/{call.subresource}" if call.subresource else ""
            self.asked[f"{call.verb.upper()} {call.resource.plural}{sub}"] += 1
            answer = self._api.answer(call)
        except ApiError as error:
            return DirectResponse(error.code, encode(error.status()))
        return DirectResponse(answer.code, answer.body)

    def _watch(self, call: calls.Call) -> DirectResponse:
        chosen = select(call.resource, call.namespace, "", call.query)
        store, response = self._server.store, DirectResponse(200)
        watch = Watch(call.resource, store, chosen, call.query, Form.PLAIN, BOOKMARK_SECONDS)
        response.follow(watch, self._tasks)
        return response

    async def reload(self, generation: int) -> None:
        """There are no credentials."""

    async def close(self) -> None:
        """Nothing is open."""
