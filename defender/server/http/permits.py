"""Routes of the interface `Permits`: ask, check, renew, release, wakes."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import ValidationError
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import JSONResponse, Response

from defender.answers import Done
from defender.client import Permits
from defender.server.auth.gate import RequestAuthenticator
from defender.server.auth.rights import ASKS, PERMITS
from defender.server.http.admission import body_of, to
from defender.server.http.failures import HttpRefusal, failures
from defender.server.http.owners import Owners, PermitOwnership
from defender.server.http.streams import Streams
from defender.webhook.acts import USER
from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import Ask, Verdict
from kubenode.runtime.kube.identity import Identity
from kubenode.runtime.telemetry.places import TRACEPARENT, read
from kubenode.runtime.telemetry.tracing import within

ASK_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Ask"}}},
    }
}
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events; the data of each is one Holder as JSON.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}
Name = Annotated[str, Path(min_length=1, max_length=253, description="Of the Permit.")]
Seconds = Annotated[
    float,
    Query(
        alias="secondsNeeded",
        ge=0,
        allow_inf_nan=False,
        description="How long the permit must last: the timeout of the act.",
    ),
]
"""An invalid number must not count as 0, but is refused."""
UNTOLD = {"user", "user_uid"}
"""Fields of a holder that are not shown to other callers."""
Longer = Annotated[
    float,
    Query(
        alias="secondsNeeded",
        ge=0,
        allow_inf_nan=False,
        description="Valid for so long at least; 0: for the usual life.",
    ),
]


def permits_router(
    permits: Permits, gate: RequestAuthenticator, streams: Streams, owners: Owners
) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["permits"])
    ownership = PermitOwnership(gate, permits, owners)
    asker, keeper = Depends(to(gate, "create", ASKS)), Depends(to(gate, "update", ASKS))

    @router.post(
        "/permits",
        operation_id="ask",
        response_model=Verdict,
        responses=failures(400, 401, 403, 413, 422, 503),
        openapi_extra=ASK_BODY,
    )
    async def ask(request: Request, who: Identity = asker) -> Response:
        """May this holder disrupt this node now? A refusal is an answer: 200, `allowed: false`."""
        raw = await body_of(request)
        try:
            submitted = Ask.model_validate_json(raw)
        except ValidationError as error:
            raise HttpRefusal(422, "; ".join(problems(error, Ask))) from None
        if submitted.holder.kind == USER:
            raise HttpRefusal(
                422, "holder.kind: User is the admission webhook's: name the object that acts"
            )
        submitted = await ownership.authorize_ask(who, submitted)
        with within(read(request.headers.get(TRACEPARENT))):
            return answer(await permits.ask(submitted))

    @router.get(
        "/permits/{name}",
        operation_id="check",
        dependencies=[Depends(to(gate, "get", PERMITS))],
        response_model=Verdict,
        responses=failures(401, 403, 422, 503),
    )
    async def check(name: Name, seconds_needed: Seconds) -> Response:
        """Is the permit held, not revoked, and valid for `secondsNeeded` more?"""
        return answer(await permits.check(name, seconds_needed))

    @router.post(
        "/permits/{name}/renew",
        operation_id="renew",
        response_model=Verdict,
        responses=failures(401, 403, 422, 503),
    )
    async def renew(name: Name, seconds_needed: Longer = 0, who: Identity = keeper) -> Response:
        """Prolong the permit, for at least `secondsNeeded`. Refused when it is revoked, released
        or unknown; 403 when another asked for it."""
        await ownership.of_permit(who, name, "renew")
        return answer(await permits.renew(name, seconds_needed))

    @router.post(
        "/permits/{name}/release",
        operation_id="release",
        response_model=Done,
        responses=failures(401, 403, 422, 503),
    )
    async def release(name: Name, who: Identity = keeper) -> Response:
        """Give the permit back. Released or unknown ones are done already; 403 when another asked
        for it."""
        await ownership.of_permit(who, name, "release")
        await permits.release(name)
        return JSONResponse({})

    @router.get(
        "/wakes",
        operation_id="wakes",
        response_class=EventSourceResponse,
        responses=STREAM | failures(401, 403, 503),
    )
    async def wakes(who: Identity = asker) -> Response:
        """Holders that are next in line: ask now instead of at `lookAgainAt`. Endless."""
        holders = (
            ServerSentEvent(data=holder.model_dump_json(by_alias=True, exclude=UNTOLD))
            async for holder in permits.wakes()
        )
        return streams.serve(holders, who.name)

    return router


def answer(verdict: Verdict) -> Response:
    return JSONResponse(verdict.to_dict())
