"""HTTP endpoints of Host Doctor.

    POST /v1/alertmanager          Alertmanager's webhook
    POST /v1/grafana               Grafana's
    POST /v1/cloudevents           CloudEvents, structured, binary or a batch
    POST /v1/alibaba               Alibaba Cloud's notifications, by CloudMonitor or EventBridge
    POST /v1/hosts/AGENT/events    {"transport": ..., "payload": ...} from the agent of that name
    GET  /healthz

200 means that everything is stored in HostEvents. Alertmanager repeats a delivery after 5xx, at
once and for as long as its group waits, and drops it after 4xx, including 429. So 4xx is only for
deliveries that would be rejected again, and every temporary failure is 503; agents get 429, which
they handle.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from kubenode.runtime.audit import Audit, AuditLine
from kubenode.runtime.bearer import bearer_token
from kubenode.runtime.clock import Clock
from kubenode.runtime.httplimits import BodyBudgetFull, TooLong, TooSlow, read_body
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.reviews import Unverified
from kubenode.runtime.rate import TokenBucket
from kubenode.runtime.tls.peer import SCOPE_KEY
from remedy.hostdoctor.decoder import cloud_events, json_of
from remedy.hostdoctor.desk import HostEventService, NotReady, Taken, TooManyWaiting
from remedy.hostdoctor.gate import (
    ALIBABA,
    LOOPBACK,
    DeliveryAuthenticator,
    DeliveryCaller,
)
from remedy.hostdoctor.limits import Rates
from remedy.hostdoctor.metrics import DeliveryRefusal, HostDoctorMetrics
from remedy.hostdoctor.own import of_agent
from remedy.hostdoctor.parsers import FROM_AGENTS, PARSERS, alibaba_notification
from remedy.hostdoctor.parsers.fields import fields, required
from remedy.hostdoctor.pollers.concern import about_us, concerning
from remedy.hostdoctor.report import ParseError, ReportedEvents

log = logging.getLogger(__name__)

LONGEST_BODY = 8 * 2**20
"""Bytes: about 8,000 alerts. Alertmanager's `max_alerts` keeps a group below."""
LONGEST_OF_AGENT = 256 * 2**10
"""Bytes of a delivery of an agent, or to a cloud's own endpoint."""
AGAIN_SECONDS = 2
"""Value of the header Retry-After."""
SHOWN = 20
"""Most sentences in a response."""
HOW_TO_SHOW = "show who you are: Authorization: Bearer TOKEN, or a client certificate"

Read = Callable[[Request, bytes, DeliveryCaller], ReportedEvents]


class DeliveryRefused(Exception):
    """A rejected delivery: HTTP status, reason for the metrics, and message."""

    def __init__(self, code: int, why: DeliveryRefusal, message: str) -> None:
        super().__init__(message)
        self.code, self.why = code, why


class DeliveryEndpoints:
    """The endpoints as an ASGI application."""

    def __init__(
        self,
        desk: HostEventService,
        gate: DeliveryAuthenticator,
        clock: Clock,
        metrics: HostDoctorMetrics,
        audit: Audit,
    ) -> None:
        self._desk, self._gate, self._clock, self._metrics = desk, gate, clock, metrics
        self._audit = audit
        self._rates = Rates(clock)
        self._refused_lines = TokenBucket(1.0, 20.0, clock)

    async def may_hand_in(self, request: Request) -> Response | None:
        """Authenticate a caller of further routes: return None for the agent that the path names,
        else the refusal.
        """
        try:
            await self._admitted(request, of_agents=True)
        except DeliveryRefused as error:
            return self._refusal("more", "nobody", error)
        return None

    def app(self, more: Sequence[BaseRoute] = ()) -> Starlette:
        """Return the application. Routes in `more` authenticate their own callers."""

        async def healthz(request: Request) -> Response:
            return PlainTextResponse("ok\n")

        return Starlette(
            routes=[
                self._route("/v1/alertmanager", "alertmanager", self._parsed("alertmanager")),
                self._route("/v1/grafana", "grafana", self._parsed("grafana")),
                self._route("/v1/cloudevents", "cloudevents", self._cloud_events),
                self._route("/v1/alibaba", ALIBABA, self._of_alibaba),
                self._route("/v1/hosts/{agent}/events", "hosts", self._of_agent),
                Route("/healthz", healthz, methods=["GET"]),
                *more,
            ]
        )

    def _route(self, path: str, endpoint: str, read: Read) -> Route:
        return Route(path, self._endpoint(endpoint, read), methods=["POST"])

    def _endpoint(self, endpoint: str, read: Read) -> Callable[[Request], Awaitable[Response]]:
        of_agents = endpoint == "hosts"
        cloud = endpoint if endpoint == ALIBABA else ""
        longest = LONGEST_OF_AGENT if of_agents or cloud else LONGEST_BODY

        async def take(request: Request) -> Response:
            who = "nobody"
            try:
                caller = await self._admitted(request, of_agents=of_agents, cloud=cloud)
                who = caller.name
                raw = await read_body(request, longest)
                began = self._clock.monotonic()
                taken, reports = await self._stored(read, request, raw, caller)
            except DeliveryRefused as error:
                return self._refusal(endpoint, who, error)
            except Exception as error:  # noqa: BLE001  every failure has its answer
                return self._refusal(endpoint, who, _refused(error))
            self._metrics.seconds.observe(self._clock.monotonic() - began)
            self._metrics.deliveries.labels(endpoint).inc()
            self._note(endpoint, who, taken)
            return JSONResponse(_answer(taken, reports))

        return take

    async def _admitted(
        self, request: Request, *, of_agents: bool, cloud: str = ""
    ) -> DeliveryCaller:
        """Return the caller. `cloud`: the cloud that has this endpoint, "" for none. Raises
        DeliveryRefused.
        """
        peer = request.scope.get(SCOPE_KEY)
        try:
            token = _token(request) or (request.query_params.get("token", "") if cloud else "")
            caller = await self._gate.identify(token, peer, of_agents=of_agents)
        except Unverified as error:
            raise DeliveryRefused(503, DeliveryRefusal.NOT_READY, str(error)) from None
        if caller is None:
            raise DeliveryRefused(401, DeliveryRefusal.UNAUTHORIZED, HOW_TO_SHOW)
        if of_agents:
            if caller.agent != request.path_params["agent"]:
                text = f"{caller.name} may not speak for agent {request.path_params['agent'][:80]}"
                raise DeliveryRefused(403, DeliveryRefusal.FORBIDDEN, text)
        elif caller.agent:
            raise DeliveryRefused(
                403, DeliveryRefusal.FORBIDDEN, "agents tell of their own machines alone"
            )
        elif caller.cloud != cloud and caller != LOOPBACK:
            text = f"tokens of the file named {ALIBABA!r} are for /v1/{ALIBABA}, and no others are"
            raise DeliveryRefused(403, DeliveryRefusal.FORBIDDEN, text)
        if not self._rates.allow(caller):
            code = 429 if of_agents else 503
            raise DeliveryRefused(code, DeliveryRefusal.TOO_MANY, f"{caller.name} sends too often")
        return caller

    async def _stored(
        self, read: Read, request: Request, raw: bytes, caller: DeliveryCaller
    ) -> tuple[Taken, ReportedEvents]:
        if not self._desk.ready:
            raise NotReady("the caches of nodes and events are being filled")
        reports = read(request, raw, caller)
        return await self._desk.take(reports), reports

    def _parsed(self, transport: str) -> Read:
        parse = PARSERS[transport]
        return lambda request, raw, caller: parse(json_of(raw), self._clock.now())

    def _cloud_events(self, request: Request, raw: bytes, caller: DeliveryCaller) -> ReportedEvents:
        return PARSERS["cloudevents"](cloud_events(request.headers, raw), self._clock.now())

    def _of_alibaba(self, request: Request, raw: bytes, caller: DeliveryCaller) -> ReportedEvents:
        """Parse a notification. It covers the whole account; events of other machines
        are ignored.
        """
        reports = PARSERS[alibaba_notification.TRANSPORT](json_of(raw), self._clock.now())
        selection = concerning(reports, about_us(self._desk))
        more = ("a machine that is no node of this cluster",) * selection.foreign
        return replace(selection.reports, ignored=(*reports.ignored, *more))

    def _of_agent(self, request: Request, raw: bytes, caller: DeliveryCaller) -> ReportedEvents:
        body = fields(json_of(raw), "")
        transport = required(body, "transport")
        if transport not in FROM_AGENTS:
            known = ", ".join(sorted(FROM_AGENTS))
            raise ParseError(f"transport: is {transport[:60]!r}; it must be one of {known}")
        if "payload" not in body:
            raise ParseError("payload: is missing; it must be what the metadata service answered")
        node = self._desk.index.of_agent(caller.agent)
        if not node.resolved:
            # The Node may appear soon: the agent tries again.
            raise NotReady(node.text)
        reports = PARSERS[transport](body["payload"], self._clock.now())
        return of_agent(reports, caller.agent, transport, node, self._desk.index)

    def _refusal(self, endpoint: str, who: str, error: DeliveryRefused) -> Response:
        self._metrics.refusals.labels(endpoint, error.why).inc()
        if self._refused_lines.allow():
            extra = {"endpoint": endpoint, "who": who, "why": str(error)}
            log.warning("a delivery was not taken", extra=extra)
            self._write(who, f"Deliver {endpoint}", "Refused", f"{error.why}: {error}")
        headers = {"Connection": "close"} if error.code in (401, 403, 408, 413) else {}
        if error.code in (429, 503):
            headers["Retry-After"] = str(AGAIN_SECONDS)
        if error.code == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse({"message": str(error)[:2000]}, error.code, headers)

    def _note(self, endpoint: str, who: str, taken: Taken) -> None:
        """Write an audit line for a delivery that changed something."""
        if taken.changed or taken.refused:
            text = f"{taken.changed} changed, {taken.known} known, {taken.unresolved} unresolved"
            self._write(who, f"Deliver {endpoint}", "Done", text)

    def _write(self, who: str, what: str, outcome: str, why: str) -> None:
        self._audit.write(AuditLine(self._clock.now(), "hostdoctor", who, what, outcome, why))


def _refused(error: Exception) -> DeliveryRefused:
    match error:
        case TooLong():
            text = f"{error}; cut groups by Alertmanager's max_alerts"
            return DeliveryRefused(413, DeliveryRefusal.TOO_LARGE, text)
        case TooSlow():
            return DeliveryRefused(408, DeliveryRefusal.TOO_SLOW, str(error))
        case ClientDisconnect():
            return DeliveryRefused(
                400, DeliveryRefusal.TOO_SLOW, "the connection ended before the body did"
            )
        case ParseError():
            return DeliveryRefused(400, DeliveryRefusal.MALFORMED, str(error))
        case BodyBudgetFull() | TooManyWaiting():
            return DeliveryRefused(503, DeliveryRefusal.BUSY, str(error))
        case NotReady():
            return DeliveryRefused(503, DeliveryRefusal.NOT_READY, str(error))
        case KubeError():
            return DeliveryRefused(
                503, DeliveryRefusal.NOT_STORED, f"not all of it could be stored: {error}"
            )
        case _:
            log.error("a delivery could not be taken", exc_info=error)
            text = f"Host Doctor failed over this: {type(error).__name__}; see its log"
            return DeliveryRefused(500, DeliveryRefusal.BROKEN, text)


def _token(request: Request) -> str:
    return bearer_token(request.headers.get("authorization", ""))


def _answer(taken: Taken, reports: ReportedEvents) -> dict[str, Any]:
    return {
        "changed": taken.changed,
        "known": taken.known,
        "unresolved": taken.unresolved,
        "refused": list(taken.refused[:SHOWN]),
        "ignored": list(reports.ignored[:SHOWN]),
    }
