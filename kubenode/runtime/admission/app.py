"""Admission webhooks over HTTP.

    POST /validate/...?timeout=5s   AdmissionReview in, AdmissionReview out
    GET  /healthz                   200 while the event loop runs

A refusal is a normal answer: 200 with `allowed: false`. Other codes: 400 for a body that is no
AdmissionReview, 413 if it is too long, 408 if it arrives too slowly, 503 if it cannot be judged
now. The API server then follows the failurePolicy of the webhook configuration.
"""

import math
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from kubenode.runtime.admission.review import BadReview
from kubenode.runtime.httplimits import BodyRefused, read_body

LONGEST_REVIEW = 4 * 2**20
"""Bytes. etcd accepts objects of 1.5 MiB, and the API server sends the old and the new one."""
SHORT_REVIEW = 2**20
"""Bytes, for webhooks of small objects only, such as evictions."""
DEFAULT_SECONDS, LONGEST_SECONDS = 5.0, 30.0
_TIMEOUT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s)")


Answer = Callable[[bytes, float], Awaitable[Mapping[str, Any]]]
"""Computes the body of the reply from the body of a request and the seconds until its timeout.

Raises BadReview, CannotJudge.
"""


class CannotJudge(Exception):
    """The request cannot be judged now. The API server follows the failurePolicy."""


def app(answers: Mapping[str, Answer], longest: Mapping[str, int] | None = None) -> Starlette:
    """Build the application.

    answers: by path
    longest: bytes of a body by path, where it is not LONGEST_REVIEW
    """
    most = longest or {}

    async def healthz(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    routes = [
        Route(path, _endpoint(each, most.get(path, LONGEST_REVIEW)), methods=["POST"])
        for path, each in answers.items()
    ]
    return Starlette(routes=[*routes, Route("/healthz", healthz, methods=["GET"])])


def _endpoint(answer: Answer, longest: int) -> Callable[[Request], Awaitable[Response]]:
    async def validate(request: Request) -> Response:
        try:
            raw = await read_body(request, longest)
            return JSONResponse(dict(await answer(raw, seconds_given(request))))
        except BadReview as error:
            return JSONResponse({"message": str(error)}, 400)
        except BodyRefused as error:
            return JSONResponse({"message": str(error)}, error.code)
        except ClientDisconnect:
            return JSONResponse({"message": "the connection ended before the body did"}, 400)
        except CannotJudge as error:
            return JSONResponse({"message": str(error)}, 503)

    return validate


def seconds_given(request: Request) -> float:
    """Return the API server's timeout in seconds from the query, else DEFAULT_SECONDS."""
    match = _TIMEOUT.fullmatch(request.query_params.get("timeout", ""))
    if match is None:
        return DEFAULT_SECONDS
    seconds = float(match[1]) / (1000 if match[2] == "ms" else 1)
    return min(max(seconds, 0.1), LONGEST_SECONDS) if math.isfinite(seconds) else DEFAULT_SECONDS
