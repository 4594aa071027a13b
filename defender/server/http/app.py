"""Kube Defender's API as one application.

    POST /v1/permits                            an Ask          -> a Verdict
    GET  /v1/permits/NAME?secondsNeeded=NUMBER  check           -> a Verdict
    POST /v1/permits/NAME/renew                                 -> a Verdict
    POST /v1/permits/NAME/release                               -> {}
    GET  /v1/wakes                              server-sent events: holders that are next
    GET  /v1/status, /v1/queue, /v1/breakers    permits, waiting holders, breakers
    GET  /v1/nodes/NAME/explain                 all reasons for and against an act
    GET  /openapi.json, /healthz                need no token

A refusal is an answer: 200 and `allowed: false`. Everything else is `{"message": ...}`, which the
client treats as a refusal. docs/reference/defender-openapi.json describes all routes.
"""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from defender.client import Permits
from defender.server.auth.gate import RequestAuthenticator
from defender.server.http.failures import handle_failures
from defender.server.http.owners import Owners
from defender.server.http.permits import permits_router
from defender.server.http.read_routes import reading_router
from defender.server.http.shown import StatusSource
from defender.server.http.streams import Streams
from kubenode.api.v1alpha1 import Ask

DESCRIPTION = (
    "The only authority on whether a node may be disrupted. A refusal is an answer: 200 with"
    " `allowed: false`, a reason and when to ask again. Every call may be repeated. Whatever is not"
    " an answer means no."
)
READ_BY_HAND = [(Ask, "validation")]
"""Models of bodies that routes parse themselves, so that FastAPI does not know them."""


class DefenderApi(FastAPI):
    """The application. `streams` must be closed when the server stops."""

    def __init__(self, streams: Streams, **given: Any) -> None:
        super().__init__(**given)
        self.streams = streams

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            made = super().openapi()
            _, read = models_json_schema(
                READ_BY_HAND,  # type: ignore[arg-type]
                ref_template="#/components/schemas/{model}",
            )
            parts = made.setdefault("components", {})
            parts["schemas"] = dict(sorted({**read["$defs"], **parts["schemas"]}.items()))
            parts["securitySchemes"] = {
                "token": {"type": "http", "scheme": "bearer"},
                "certificate": {"type": "mutualTLS"},
            }
            made["security"] = [{"token": []}, {"certificate": []}]
            self.openapi_schema = made
        return self.openapi_schema


def create_app(
    permits: Permits,
    shown: StatusSource,
    gate: RequestAuthenticator,
    mounts: Sequence[tuple[str, ASGIApp]] = (),
    owners: Owners | None = None,
) -> DefenderApi:
    """Build the application.

    mounts: further applications below a path, which authenticate their own callers.
    """
    streams = Streams()
    app = DefenderApi(
        streams,
        title="Kube Defender",
        version="v1",
        description=DESCRIPTION,
        docs_url=None,  # its pages come from a CDN
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    handle_failures(app)

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    app.include_router(permits_router(permits, gate, streams, owners or Owners()))
    app.include_router(reading_router(shown, gate))
    for path, mounted in mounts:
        app.mount(path, mounted)
    return app
