"""Admission webhooks over HTTP.

    POST /validate/...?timeout=5s   an AdmissionReview -> an AdmissionReview
    GET  /healthz                   the loop turns

A refusal is an answer: 200 and `allowed: false`. What is no AdmissionReview is 400, one that is
too long 413, too slow 408, one that cannot be judged now 503; the API server then does what the
configuration's failurePolicy says.
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
"""Bytes. etcd takes objects of 1.5 MiB, and the API server sends the old one beside the new one."""
SHORT_REVIEW = 2**20
"""Bytes, where only small objects are asked about, such as evictions."""
DEFAULT_SECONDS, LONGEST_SECONDS = 5.0, 30.0
_TIMEOUT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s)")


Answer = Callable[[bytes, float], Awaitable[Mapping[str, Any]]]
"""From the body of a question and the seconds that there are to the body of the reply.

Raises BadReview, CannotJudge.
"""


class CannotJudge(Exception):
    """Not now: the API server goes by the failurePolicy."""


def app(answers: Mapping[str, Answer], longest: Mapping[str, int] | None = None) -> Starlette:
    """`answers` by the path that they are asked at; `longest` where it is not LONGEST_REVIEW."""
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
    """How long the API server waits, as it says in the query; DEFAULT_SECONDS if it does not."""
    match = _TIMEOUT.fullmatch(request.query_params.get("timeout", ""))
    if match is None:
        return DEFAULT_SECONDS
    seconds = float(match[1]) / (1000 if match[2] == "ms" else 1)
    return min(max(seconds, 0.1), LONGEST_SECONDS) if math.isfinite(seconds) else DEFAULT_SECONDS
