"""The embedded API server: HTTP in front of the objects.

There is one writer, the event loop, so there are no locks. It listens on loopback only, since it
has no RBAC: everybody who reaches it, or has one of its tokens, may do everything.
"""

import asyncio
import errno
import ipaddress
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from simulation.apiserver import calls, discovery, openapi
from simulation.apiserver.access import Tls, check_token, kubeconfig
from simulation.apiserver.admission import Admission, Hook, Mutator
from simulation.apiserver.answers import ServerResponse
from simulation.apiserver.api import Api
from simulation.apiserver.crd import CustomResources
from simulation.apiserver.database import Database
from simulation.apiserver.errors import ApiError, Obj, no_such_path, unsupported
from simulation.apiserver.faults import Delay, Drop, Fail, Fault
from simulation.apiserver.gc import Collector
from simulation.apiserver.objects import (
    CRDS,
    NAMESPACES,
    PERMANENT_NAMESPACES,
    Objects,
    WriteOptions,
    timestamp,
)
from simulation.apiserver.reads import form_of
from simulation.apiserver.registry import Registry
from simulation.apiserver.selectors import select
from simulation.apiserver.store import HISTORY, Store, encode
from simulation.apiserver.watch import Watch

MAX_BODY = 3 * 2**20
"""Bytes of a request body: the limit of a real server."""
BOOKMARK_SECONDS = 30.0
HEALTH = ("healthz", "livez", "readyz")
PUBLIC = (*HEALTH, "version")
"""Paths that need no token."""


class ListenError(Exception):
    """The server cannot listen on its address; the message says what to do."""


def utc_now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  the server's own clock, given as an argument elsewhere


class EmbeddedApiServer:
    """An API server in this process: `async with EmbeddedApiServer() as server: ... server.url`.

    `run()` serves as a part of a process until it is cancelled.

    port: 0 for a free port.
    crds: CustomResourceDefinitions to install.
    admission: hooks by qualified resource name ("noderemediers.kubenode.io"), see admission.Hook.
    mutators: likewise, see admission.Mutator.
    now: its clock; the first resourceVersion is its milliseconds.
    history: events kept for each resource; older watches and list pages get 410.
    tls: its certificate; None for plain HTTP.
    tokens: bearer tokens, one of which each request must carry; () for none.
    database: a file that keeps the objects between runs; None for memory alone.
    """

    name = "apiserver"

    def __init__(
        self,
        port: int = 0,
        host: str = "127.0.0.1",
        *,
        crds: Sequence[Mapping[str, Any]] = (),
        admission: Mapping[str, Hook | Sequence[Hook]] | None = None,
        mutators: Mapping[str, Mutator] | None = None,
        now: Callable[[], datetime] = utc_now,
        history: int = HISTORY,
        bookmark_seconds: float = BOOKMARK_SECONDS,
        database: Path | None = None,
        tls: Tls | None = None,
        tokens: Sequence[str] = (),
    ) -> None:
        if not _is_loopback(host):
            raise ListenError(
                f"the embedded API server knows no permissions and binds loopback only, not "
                f"{host!r}: use 127.0.0.1, or a real cluster"
            )
        self._host, self._port = host, port
        self._tls, self._tokens = tls, tuple(tokens)
        self._bookmark_seconds = bookmark_seconds
        self._runner: web.ServerRunner | None = None
        self.faults: list[Fault] = []
        self.registry = Registry()
        self._database = Database(database) if database is not None else None
        start, keep = int(now().timestamp() * 1000), None
        if self._database is not None:
            start, keep = max(start, self._database.newest() + 1), self._database.write
        self.store = Store(start, history, keep)
        self.admission = Admission(admission, mutators)
        custom = CustomResources(self.registry, self.store)
        self.objects = Objects(
            self.registry,
            self.store,
            self.admission,
            now,
            lambda crd: custom.install(crd, timestamp(now())),
        )
        self._collector = Collector(self.objects, custom.uninstall)
        self._api = Api(self.objects)
        if self._database is not None:
            self._restore(self._database, custom)
        namespaces = self.store.collection(NAMESPACES)
        for name in PERMANENT_NAMESPACES:
            if namespaces.get(("", name)) is None:
                self.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
        self._install(crds)

    def _restore(self, database: Database, custom: CustomResources) -> None:
        """Load what an earlier server stored: CRDs first, since they define other resources."""
        rows = list(database.objects())
        for qualified, obj, _ in rows:
            if qualified == CRDS:
                custom.install(obj, "")
        for qualified, obj, rv in rows:
            self.store.restore(qualified, obj, rv)

    def _install(self, crds: Sequence[Mapping[str, Any]]) -> None:
        resource, installed = self.registry.named(CRDS), self.store.collection(CRDS)
        for crd in crds:
            stored = installed.get(("", crd["metadata"]["name"]))
            if stored is None:
                self.load([crd])
            else:
                newer = {**stored.obj, "spec": crd["spec"]}
                self.objects.update(resource, "", stored.key[1], newer, WriteOptions())

    # ---- life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        if self._database is not None:
            self._database.close()

    async def start(self) -> None:
        """Listen. Raises ListenError if the port is taken."""
        loop = asyncio.get_running_loop()

        def request(
            message: Any, payload: Any, protocol: Any, writer: Any, task: Any
        ) -> web.BaseRequest:
            return web.BaseRequest(
                message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY
            )

        server = web.Server(
            self._handle,
            request_factory=request,
            handler_cancellation=True,  # a client that goes away ends its watch at once
            access_log=None,
        )
        runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        try:
            tls = self._tls.context() if self._tls is not None else None
            await web.TCPSite(runner, self._host, self._port, ssl_context=tls).start()
        except OSError as error:
            await runner.cleanup()
            if error.errno == errno.EADDRINUSE:
                raise ListenError(
                    f"port {self._port} on {self._host} is taken: end the program that listens "
                    "there, or choose another port (0 takes a free one)"
                ) from error
            raise ListenError(f"cannot listen on {self._host}:{self._port}: {error}") from error
        if self._database is not None:
            self._collector.resume()
        self._runner = runner
        self._port = runner.addresses[0][1]

    async def stop(self) -> None:
        """End watches, then connections. The objects stay, so it can be started again."""
        runner, self._runner = self._runner, None
        if runner is not None:
            self.cut_watches()
            await runner.cleanup()

    async def run(self) -> None:
        """Serve until cancelled; starts and stops the server unless `async with` does."""
        if self._runner is not None:
            await asyncio.Event().wait()
        async with self:
            await asyncio.Event().wait()

    # ---- use

    @property
    def url(self) -> str:
        """Return its URL, known once it is started or if the port was given."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http{'s' if self._tls else ''}://{host}:{self._port}"

    def kubeconfig_text(self) -> str:
        """Return a kubeconfig as YAML with the authority and the first token."""
        return kubeconfig(self.url, self._tls, self._tokens[0] if self._tokens else "")

    async def write_kubeconfig(self, path: Path) -> None:
        await asyncio.to_thread(path.write_text, self.kubeconfig_text())

    def load(self, objs: Sequence[Mapping[str, Any]]) -> None:
        """Create objects without HTTP, with their `status`, to start a demo with a whole fleet.

        objs: must not be changed afterwards.

        Raises ApiError.
        """
        kinds = {(r.gv, r.kind): r for r in self.registry}
        for obj in objs:
            resource = kinds.get((obj.get("apiVersion", ""), obj.get("kind", "")))
            if resource is None:
                raise no_such_path()
            namespace = (obj.get("metadata") or {}).get("namespace", "")
            record = self.objects.create(resource, namespace, dict(obj), WriteOptions())
            if resource.status and "status" in obj and resource.qualified not in (CRDS, NAMESPACES):
                self.objects.put(resource, namespace, {**record.obj, "status": obj["status"]})

    def cut_watches(self, qualified: str = "") -> None:
        """End the open watches of a resource, or all, as a restart of a real server does."""
        if qualified:
            self.store.collection(qualified).close_watches()
            return
        for collection in self.store.collections():
            collection.close_watches()

    def compact(self, qualified: str) -> None:
        """Drop the history of a resource: older watches and pages get 410."""
        self.store.collection(qualified).forget_history()

    # ---- HTTP

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._route(request)
        except ApiError as error:
            return _refusal(error)

    async def _route(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        root = parts[0] if parts else ""
        if self._tokens and root not in PUBLIC:
            check_token(request.headers.get("Authorization", ""), self._tokens)
        if (root == "api" and len(parts) > 2) or (root == "apis" and len(parts) > 3):
            query: Mapping[str, str] = request.query if request.query_string else {}
            call = calls.parse(self.registry, request.method, parts, query)
            call.accept = request.headers.get("Accept", "")
            call.agent = request.headers.get("User-Agent", "")
            call.content_type = request.content_type if "Content-Type" in request.headers else ""
            return await self._serve(request, call)
        if request.method != "GET":
            raise unsupported(405, f"{request.method} {request.path}", "read it with GET")
        if root in HEALTH:
            return web.Response(text="ok")
        accept = request.headers.get("Accept", "")
        if parts == ["openapi", "v2"] and "json" not in accept and "*/*" not in accept:
            raise unsupported(406, "OpenAPI v2 as protobuf", "ask with Accept: application/json")
        aggregated = discovery.AGGREGATED in accept
        answer = _response(ServerResponse(encode(self._document(parts, aggregated))))
        if aggregated and parts in (["api"], ["apis"]):
            # kubectl tells the two forms apart by this header alone.
            answer.headers["Content-Type"] = discovery.AGGREGATED_TYPE
        return answer

    def _document(self, parts: list[str], aggregated: bool) -> Obj:
        """Return discovery, OpenAPI or the version. Raises ApiError 404."""
        match parts:
            case []:
                return {"paths": list(discovery.ROOT_PATHS)}
            case ["version"]:
                return discovery.VERSION
            case ["api" | "apis" as root] if aggregated:
                return discovery.aggregated(self.registry, root == "api")
            case ["api"]:
                return discovery.api_versions()
            case ["apis"]:
                return discovery.groups(self.registry)
            case ["api", version]:
                return discovery.resources(self.registry, "", version)
            case ["apis", group]:
                return discovery.group(self.registry, group)
            case ["apis", group, version]:
                return discovery.resources(self.registry, group, version)
            case ["openapi", "v2"]:
                return openapi.swagger(self.registry)
            case ["openapi", "v3"]:
                return openapi.index(self.registry)
            case ["openapi", "v3", *rest]:
                return openapi.document(self.registry, rest)
            case _:
                raise no_such_path()

    async def _serve(self, request: web.BaseRequest, call: calls.Call) -> web.StreamResponse:
        done_but_lost = False
        for fault in self.faults:
            match fault(call):
                case Fail(code, reason, message, retry_after):
                    error = ApiError(code, reason, message)
                    if retry_after is not None:
                        error.details["retryAfterSeconds"] = retry_after
                    raise error
                case Delay(seconds):
                    await asyncio.sleep(seconds)
                case Drop(done):
                    if not done:
                        return _cut(request)
                    done_but_lost = True
                case None:
                    continue
            break
        if call.verb == "watch":
            return await self._watch(request, call)
        if request.can_read_body:
            call.body = await _body(request)
        answer = self._api.answer(call)
        return _cut(request) if done_but_lost else _response(answer)

    async def _watch(self, request: web.BaseRequest, call: calls.Call) -> web.StreamResponse:
        query = call.query
        watch = Watch(
            call.resource,
            self.store,
            select(call.resource, call.namespace, "", query),
            query,
            form_of(call),
            self._bookmark_seconds,
        )
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        await response.prepare(request)
        try:
            await watch.stream(response)
            await response.write_eof()
        except ConnectionError:
            pass  # the client is gone, as most watches end
        return response


async def _body(request: web.BaseRequest) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        message = f"Request entity too large: limit is {MAX_BODY}"
        raise ApiError(413, "RequestEntityTooLarge", message) from error


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _response(answer: ServerResponse) -> web.Response:
    response = web.Response(
        body=answer.body, status=answer.code, headers={"Content-Type": "application/json"}
    )
    for warning in answer.warnings:
        response.headers.add("Warning", f"299 - {json.dumps(warning)}")
    return response


def _refusal(error: ApiError) -> web.Response:
    response = _response(ServerResponse(encode(error.status()), error.code))
    retry_after = error.details.get("retryAfterSeconds")
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    return response


def _cut(request: web.BaseRequest) -> web.Response:
    """Reset the connection. aiohttp needs the response, which is not sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
