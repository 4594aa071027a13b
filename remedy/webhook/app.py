"""The webhook over HTTP.

    POST /validate/noderemediers?timeout=5s   an AdmissionReview -> an AdmissionReview
    GET  /healthz                             the loop turns

A refusal is an answer: 200 and `allowed: false`. What is no AdmissionReview is 400, one that is too
long 413; the API server then does what the configuration's failurePolicy says.
"""

import math
import re

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from remedy.webhook.review import BadReview
from remedy.webhook.validator import Validator

PATH = "/validate/noderemediers"
LONGEST_REVIEW = 8 * 2**20
"""Bytes. The API server takes objects of 3 MiB, and sends the old one beside the new one."""
DEFAULT_SECONDS, LONGEST_SECONDS = 5.0, 30.0
_TIMEOUT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s)")


def app(validator: Validator) -> Starlette:
    async def validate(request: Request) -> Response:
        try:
            raw = await _body(request)
            return JSONResponse(await validator.answer(raw, seconds_given(request)))
        except BadReview as error:
            return JSONResponse({"message": str(error)}, 400)
        except TooLong as error:
            return JSONResponse({"message": str(error)}, 413)
        except ClientDisconnect:
            return JSONResponse({"message": "the connection ended before the body did"}, 400)

    async def healthz(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    return Starlette(
        routes=[
            Route(PATH, validate, methods=["POST"]),
            Route("/healthz", healthz, methods=["GET"]),
        ]
    )


class TooLong(ValueError):
    """The body is longer than any question of an API server."""


async def _body(request: Request) -> bytes:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > LONGEST_REVIEW:
            raise TooLong(f"body: longer than {LONGEST_REVIEW} bytes, no AdmissionReview is")
    return bytes(raw)


def seconds_given(request: Request) -> float:
    """How long the API server waits, as it says in the query; DEFAULT_SECONDS if it does not."""
    found = _TIMEOUT.fullmatch(request.query_params.get("timeout", ""))
    if found is None:
        return DEFAULT_SECONDS
    seconds = float(found[1]) / (1000 if found[2] == "ms" else 1)
    return min(max(seconds, 0.1), LONGEST_SECONDS) if math.isfinite(seconds) else DEFAULT_SECONDS
