"""HTTP endpoints of Insight.

    POST /v1/events           a batch of CloudEvents of the stream; 200 means that all are stored
    GET  /v1/faults           ?by=class&every=day
    GET  /v1/healing
    GET  /v1/lemons           ?min=3
    GET  /v1/incidents        the latest ones
    GET  /v1/incidents/ID     one incident, by the UID or name of its job

Analyses take ?since=, ?until=, ?cluster=, ?class=, ?rule= and ?node=, and answer {"since",
"until", "rows"}. Senders and readers have different tokens: a cluster that sends events cannot
read those of others. Every temporary failure is 503, which the sender of the stream repeats. Pages
for people are in `insight.site`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any

import msgspec
from sqlalchemy import Connection
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from insight.analyses.faults import FaultProperty, count_faults
from insight.analyses.incidents import find_incidents, list_incidents, read_incident
from insight.analyses.interval import Interval
from insight.analyses.lemons import list_lemons
from insight.analyses.repair_outcomes import summarize_healing
from insight.analyses.selection import HistorySelection
from insight.server.metrics import InsightMetrics, InsightRefusal
from insight.server.reader import StoreReader
from insight.server.requests import ParameterError, read_choice, read_least, read_selection
from insight.site.pages import InsightSite
from insight.store.database import StoreUnavailable
from insight.store.event_store import EventStore
from insight.store.rows import MalformedEvent, read_batch
from kubenode.runtime.bearer import bearer_token
from kubenode.runtime.clock import Clock
from kubenode.runtime.httplimits import BodyBudgetFull, TooLong, TooSlow, read_body
from kubenode.runtime.kube.reviews import Unverified
from kubenode.runtime.site.browser import SafeHeaders
from kubenode.runtime.token_files import TokenFiles

log = logging.getLogger(__name__)

LONGEST_BODY = 8 * 2**20
AGAIN_SECONDS = "5"
HOW_TO_SHOW = "show who you are: Authorization: Bearer TOKEN"

Analysis = Callable[..., list[Any]]
"""Takes a connection, `selection` and `query`."""
Endpoint = Callable[[Request], Awaitable[Response]]


class NoCredentials(Exception):
    """The token is missing or unknown."""


class InsightEndpoints:
    """The endpoints as an ASGI application.

    senders, readers: tokens; None lets anyone in, for loopback only
    writing: an executor, because the database blocks. A write may go on after its request was
        cancelled; loading is idempotent, so it may.
    """

    def __init__(
        self,
        store: EventStore,
        reader: StoreReader,
        clock: Clock,
        metrics: InsightMetrics,
        *,
        senders: TokenFiles | None,
        readers: TokenFiles | None,
        writing: Executor,
    ) -> None:
        self._store, self._reader, self._clock, self._metrics = store, reader, clock, metrics
        self._senders, self._readers, self._writing = senders, readers, writing

    def app(self) -> Starlette:
        analyses = {"faults": _faults, "healing": _healing, "lemons": _lemons}
        analyses |= {"incidents": _incidents}
        return Starlette(
            routes=[
                Route("/v1/events", self._answered(self._take), methods=["POST"]),
                *(
                    Route(f"/v1/{name}", self._answered(self._analysis(each)), methods=["GET"])
                    for name, each in analyses.items()
                ),
                Route("/v1/incidents/{id}", self._answered(self._incident), methods=["GET"]),
                *InsightSite(self._reader, self._clock, self._readers).routes(),
            ],
            middleware=[Middleware(SafeHeaders)],
        )

    def _answered(self, endpoint: Endpoint) -> Endpoint:
        async def answer(request: Request) -> Response:
            try:
                return await endpoint(request)
            except Exception as error:  # noqa: BLE001  every known failure has its answer
                return self._refusal(error)

        return answer

    async def _take(self, request: Request) -> Response:
        _authenticate(request, self._senders)
        batch = read_batch(await read_body(request, LONGEST_BODY))
        load = partial(self._store.load, batch, self._clock.now())
        with self._metrics.seconds.time():
            result = await asyncio.get_running_loop().run_in_executor(self._writing, load)
        self._metrics.loaded(result)
        return JSONResponse(msgspec.to_builtins(result))

    def _analysis(self, analysis: Analysis) -> Endpoint:
        async def answer(request: Request) -> Response:
            _authenticate(request, self._readers)
            query = request.query_params
            selection = read_selection(query, self._clock.now())
            rows = await self._reader.read(partial(analysis, selection=selection, query=query))
            body = {"since": selection.since, "until": selection.until, "rows": rows}
            return Response(msgspec.json.encode(body), media_type="application/json")

        return answer

    async def _incident(self, request: Request) -> Response:
        _authenticate(request, self._readers)
        name = request.path_params["id"]
        uids = await self._reader.read(partial(find_incidents, name=name))
        if len(uids) > 1:
            raise ParameterError(f"id: {len(uids)} jobs have this name: {', '.join(uids)}")
        incident = None
        if uids:
            incident = await self._reader.read(partial(read_incident, uid=uids[0]))
        if incident is None:
            text = f"id: the store has no event of a job with the UID or name {name[:200]!r}"
            return JSONResponse({"message": text}, 404)
        return Response(msgspec.json.encode(incident), media_type="application/json")

    def _refusal(self, error: Exception) -> Response:
        code, reason = _refusal_of(error)
        self._metrics.refusals.labels(reason).inc()
        headers = {"Retry-After": AGAIN_SECONDS} if code == 503 else {}
        if code == 401:
            headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
        return JSONResponse({"message": str(error)[:2000]}, code, headers)


def _authenticate(request: Request, tokens: TokenFiles | None) -> None:
    """Raise NoCredentials or Unverified unless the request has a known token."""
    if tokens is None:
        return
    token = bearer_token(request.headers.get("authorization", ""))
    if not token or not tokens.names_of(token):
        raise NoCredentials(HOW_TO_SHOW)


def _faults(
    connection: Connection, selection: HistorySelection, query: Mapping[str, str]
) -> list[Any]:
    by = read_choice(query, "by", FaultProperty, FaultProperty.CLASS)
    interval = read_choice(query, "every", Interval, Interval.DAY)
    return count_faults(connection, selection, by, interval)


def _healing(
    connection: Connection, selection: HistorySelection, query: Mapping[str, str]
) -> list[Any]:
    return summarize_healing(connection, selection)


def _lemons(
    connection: Connection, selection: HistorySelection, query: Mapping[str, str]
) -> list[Any]:
    return list_lemons(connection, selection, read_least(query))


def _incidents(
    connection: Connection, selection: HistorySelection, query: Mapping[str, str]
) -> list[Any]:
    return list_incidents(connection, selection)


def _refusal_of(error: Exception) -> tuple[int, InsightRefusal]:
    match error:
        case NoCredentials():
            return 401, InsightRefusal.UNAUTHORIZED
        case MalformedEvent() | ParameterError() | ClientDisconnect():
            return 400, InsightRefusal.MALFORMED
        case TooLong():
            return 413, InsightRefusal.TOO_LARGE
        case TooSlow():
            return 408, InsightRefusal.TOO_SLOW
        case StoreUnavailable() | BodyBudgetFull() | Unverified():
            return 503, InsightRefusal.UNAVAILABLE
        case _:
            raise error
