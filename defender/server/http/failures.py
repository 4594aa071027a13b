"""Responses other than the requested one: each `{"message": ...}`, which a client treats as a
refusal.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from defender.answers import Problem
from defender.client import DefenderUnreachable
from kubenode.runtime.kube.reviews import Unverified

log = logging.getLogger(__name__)

LONGEST_MESSAGE = 2000


class HttpRefusal(Exception):
    """A response other than a verdict, with a message for the caller."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


STATUS_TEXTS: Mapping[int, str] = {
    400: "The request ended before its body did.",
    401: "Nobody that Kube Defender knows: show a token or a client certificate.",
    403: "RBAC does not let this caller.",
    404: "Kube Defender knows no such node.",
    413: "The body is longer than any question.",
    422: "A field is wrong; the message names it.",
    503: "Kube Defender cannot say now. Treat it as no.",
}
"""Descriptions of status codes in the OpenAPI document."""


def failures(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that may answer with these codes."""
    return {code: {"model": Problem, "description": STATUS_TEXTS[code]} for code in codes}


def build_response(code: int, message: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if code == 401 else None
    return JSONResponse(Problem(message=message[:LONGEST_MESSAGE]).to_dict(), code, headers)


def handle_failures(app: FastAPI) -> None:
    async def refused(request: Request, error: Exception) -> Response:
        return build_response(error.code if isinstance(error, HttpRefusal) else 500, str(error))

    async def unavailable(request: Request, error: Exception) -> Response:
        return build_response(503, str(error))

    async def gone(request: Request, error: Exception) -> Response:
        return build_response(400, "the connection ended before the body did")

    async def invalid(request: Request, error: Exception) -> Response:
        wrong = error.errors() if isinstance(error, RequestValidationError) else ()
        return build_response(422, "; ".join(_lines(wrong)) or "the request makes no sense")

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return build_response(
            error.status_code, f"{request.method} {request.url.path}: {error.detail}"
        )

    async def broken(request: Request, error: Exception) -> Response:
        log.error("a question could not be answered", exc_info=error)
        return build_response(
            500, f"Kube Defender failed over this: {type(error).__name__}; see its log"
        )

    app.add_exception_handler(HttpRefusal, refused)
    app.add_exception_handler(Unverified, unavailable)
    app.add_exception_handler(DefenderUnreachable, unavailable)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, broken)


def _lines(errors: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for error in errors:
        field = str(error["loc"][-1]) if error.get("loc") else "request"
        given = error.get("input")
        shown = "" if isinstance(given, dict | list) else f"{str(given)[:60]!r}: "
        yield f"{field}: {shown}{error['msg'][:1].lower()}{error['msg'][1:]}"
