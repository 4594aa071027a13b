"""A small API server with levers: real HTTP over loopback, faults on command.

It knows list (paged), watch (with history), get, create, replace, merge patch and delete of any
collection, and one resourceVersion for all. It validates nothing: for how a server behaves when
all is well there are the embedded and the real one; this one is for how servers misbehave.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from aiohttp import web

Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
"""Answers a request in the server's place, or None to let it through."""

Object = dict[str, Any]


def status(code: int, reason: str, message: str = "", **details: Any) -> Object:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return body | ({"details": details} if details else {})


class FakeKube:
    """Levers: `faults`, `compact`, `close_watches`, `freeze_watches`, `send_line`, `go_back_to`,
    `stop` and `start` (on the same port), `token` (401 for another one)."""

    def __init__(self) -> None:
        self.version = 100
        self.floor = 0
        self.objects: dict[str, dict[str, Object]] = {}
        self.faults: list[Fault] = []
        self.token: str | None = None
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.frozen = False
        self.quiet = False  # a deaf watch: open, but tells nothing
        self.port = 0
        self._history: list[tuple[int, str, str, Object]] = []
        self._watches: list[asyncio.Queue[bytes | None]] = []
        self._runner: web.AppRunner | None = None

    # -- life ---------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            self.close_watches()
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # -- what a test does behind the clients' backs -------------------------------------------

    def put(self, path: str, obj: Object) -> Object:
        """Create or change `obj` in the collection at `path`, and tell the watches."""
        self.version += 1
        obj = json.loads(json.dumps(obj))
        meta = obj.setdefault("metadata", {})
        kind = "MODIFIED" if meta["name"] in self.objects.get(path, {}) else "ADDED"
        meta["resourceVersion"] = str(self.version)
        self.objects.setdefault(path, {})[meta["name"]] = obj
        self._tell(path, kind, obj)
        return obj

    def remove(self, path: str, name: str) -> Object:
        self.version += 1
        obj = self.objects[path].pop(name)
        obj["metadata"]["resourceVersion"] = str(self.version)
        self._tell(path, "DELETED", obj)
        return obj

    def compact(self) -> None:
        """Forget the past: every watch and page token from before answers 410."""
        self.floor = self.version
        self._history.clear()

    def go_back_to(self, version: int) -> None:
        """A backup was restored: the server is behind its clients."""
        self.version = version
        self._history.clear()

    def close_watches(self) -> None:
        for lines in self._watches:
            lines.put_nowait(None)

    def send_line(self, line: bytes) -> None:
        for lines in self._watches:
            lines.put_nowait(line)

    @property
    def watches(self) -> int:
        return len(self._watches)

    def asked(self, method: str, **query: str) -> int:
        """How many requests came with this method and these query parameters."""
        return sum(
            m == method and all(q.get(k) == v for k, v in query.items())
            for m, _, q in self.requests
        )

    def lists(self) -> int:
        return sum(
            m == "GET" and "limit" in q and "resourceVersion" not in q for m, _, q in self.requests
        )

    def _tell(self, path: str, kind: str, obj: Object) -> None:
        self._history.append((self.version, path, kind, json.loads(json.dumps(obj))))
        if not self.quiet:
            self.send_line(_line(kind, obj))

    # -- HTTP ---------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path, dict(request.query)))
        for fault in list(self.faults):
            if (response := await fault(request)) is not None:
                return response
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return _json(status(401, "Unauthorized"))
        match request.method:
            case "GET" if request.query.get("watch"):
                return await self._watch(request)
            case "GET":
                return self._get(request)
            case "POST":
                return await self._create(request)
            case "PUT" | "PATCH":
                return await self._write(request)
            case _:
                collection, name = request.path.rsplit("/", 1)
                if name not in self.objects.get(collection, {}):
                    return _json(status(404, "NotFound"))
                return _json(self.remove(collection, name))

    def _get(self, request: web.Request) -> web.StreamResponse:
        collection, name = request.path.rsplit("/", 1)
        if collection in self.objects and "limit" not in request.query:
            obj = self.objects[collection].get(name)
            return _json(status(404, "NotFound", request.path) if obj is None else obj)
        if "limit" not in request.query and request.path not in self.objects:
            return _json(status(404, "NotFound", request.path))
        wanted = int(request.query.get("resourceVersion", "0"))
        if wanted > self.version:
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            return _json(status(504, "Timeout", "too large", causes=[cause]))
        return self._list(request)

    def _list(self, request: web.Request) -> web.StreamResponse:
        at, start = self.version, 0
        if token := request.query.get("continue"):
            at, start = (int(part) for part in token.split("."))
            if at < self.floor:
                return _json(status(410, "Expired", "the continue parameter is too old"))
        limit = int(request.query["limit"])
        items = list(self.objects.get(request.path, {}).values())
        meta = {"resourceVersion": str(at)}
        if start + limit < len(items):
            meta["continue"] = f"{at}.{start + limit}"
        return _json({"metadata": meta, "items": items[start : start + limit]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        since = int(request.query["resourceVersion"])
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        if since < self.floor:
            lines.put_nowait(_line("ERROR", status(410, "Expired", "too old resource version")))
            lines.put_nowait(None)
        for version, path, kind, obj in self._history:
            if path == request.path and version > since and not self.quiet:
                lines.put_nowait(_line(kind, obj))
        self._watches.append(lines)
        try:
            await response.prepare(request)
            async with asyncio.timeout(float(request.query["timeoutSeconds"])):
                while (line := await lines.get()) is not None:
                    await response.write(line)
        except TimeoutError:
            if self.frozen:
                await asyncio.sleep(30)
        finally:
            self._watches.remove(lines)
        return response

    async def _create(self, request: web.Request) -> web.StreamResponse:
        obj = await request.json()
        if obj["metadata"]["name"] in self.objects.get(request.path, {}):
            return _json(status(409, "AlreadyExists"))
        return _json(self.put(request.path, obj), 201)

    async def _write(self, request: web.Request) -> web.StreamResponse:
        collection, name = request.path.rsplit("/", 1)
        old = self.objects.get(collection, {}).get(name)
        if old is None:
            return _json(status(404, "NotFound"))
        change = await request.json()
        version = change.get("metadata", {}).get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            return _json(status(409, "Conflict", "the object has been modified"))
        new = change if request.method == "PUT" else _merged(old, change)
        return _json(self.put(collection, new))


def _merged(old: Any, change: Any) -> Any:
    if not isinstance(change, dict) or not isinstance(old, dict):
        return change
    new = dict(old)
    for key, value in change.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = _merged(old.get(key), value)
    return new


def _line(kind: str, obj: Object) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def _json(body: Object, code: int = 200) -> web.Response:
    if body.get("kind") == "Status":
        code = body["code"]
    return web.json_response(body, status=code)


def answer(body: Object, times: int = 10**9, retry_after: int | None = None) -> Fault:
    """A fault that answers the next `times` requests with `body`, a `status(...)`."""
    left = times
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}

    async def fault(request: web.Request) -> web.StreamResponse | None:
        nonlocal left
        if left <= 0:
            return None
        left -= 1
        return web.json_response(body, status=body["code"], headers=headers)

    return fault


async def reset(request: web.Request) -> web.StreamResponse | None:
    """A fault that cuts the connection without a word."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def hang(request: web.Request) -> web.StreamResponse | None:
    """A fault that never answers."""
    await asyncio.Event().wait()
    return None
