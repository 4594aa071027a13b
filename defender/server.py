"""Kube Defender over HTTP: the port `defender.client.Permits` for other processes.

    POST /v1/permits                            an Ask          -> a Verdict
    GET  /v1/permits/NAME?secondsNeeded=NUMBER  check           -> a Verdict
    POST /v1/permits/NAME/renew                                 -> a Verdict
    POST /v1/permits/NAME/release                               -> {}
    GET  /v1/status                             what is held, counted, decided
    GET  /healthz                               the loop turns; needs no token

A refusal is an answer: 200 and `allowed: false`. Everything else is `{"message": ...}`, and the
client takes it for a no: 401 without the bearer token, 413 and 422 for a body that does not fit,
503 where the record cannot be read or written now.
"""

import asyncio
import hmac
import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from defender.client import DefenderUnreachable, Permits
from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import Ask, Verdict
from kubenode.runtime.listening import listen
from kubenode.runtime.webserver import serve

log = logging.getLogger(__name__)

LONGEST_ASK = 2**16
"""Bytes. An Ask with all 64 sources of evidence has under 8 KiB."""
LONGEST_NAME = 253

Status = Callable[[], Mapping[str, Any]]


class Refused(Exception):
    """An answer other than a verdict, with the sentence for whoever asked."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Api:
    """token_file  read for each request, so that it can be rotated; None: whoever reaches the port
    may ask, which is for loopback alone
    """

    def __init__(
        self, permits: Permits, status: Status, token_file: str | Path | None = None
    ) -> None:
        self._permits = permits
        self._status = status
        self._token_file = Path(token_file) if token_file is not None else None

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/healthz", self._healthz, methods=["GET"]),
                Route("/v1/status", self._guarded(self._show_status), methods=["GET"]),
                Route("/v1/permits", self._guarded(self._ask), methods=["POST"]),
                Route("/v1/permits/{name}", self._guarded(self._check), methods=["GET"]),
                Route("/v1/permits/{name}/renew", self._guarded(self._renew), methods=["POST"]),
                Route("/v1/permits/{name}/release", self._guarded(self._release), methods=["POST"]),
            ]
        )

    def _guarded(self, endpoint: Callable[[Request], Any]) -> Callable[[Request], Any]:
        """`endpoint` for callers with the token, and its failures as answers."""

        async def answer(request: Request) -> Response:
            try:
                self._authenticate(request)
                response: Response = await endpoint(request)
            except Refused as refused:
                return _said(refused.code, str(refused))
            except DefenderUnreachable as error:
                return _said(503, str(error))
            except ClientDisconnect:
                return _said(400, "the connection ended before the body did")
            return response

        return answer

    def _authenticate(self, request: Request) -> None:
        if self._token_file is None:
            return
        try:
            token = self._token_file.read_text().strip()
        except (OSError, ValueError) as error:
            raise Refused(503, f"the token file of Kube Defender cannot be read: {error}") from None
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        # An empty file must not let in whoever shows nothing.
        if not token or not hmac.compare_digest(shown.encode(), token.encode()):
            raise Refused(401, "show Kube Defender's bearer token: Authorization: Bearer TOKEN")

    async def _healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _show_status(self, request: Request) -> Response:
        return JSONResponse(dict(self._status()))

    async def _ask(self, request: Request) -> Response:
        raw = await _body(request)
        try:
            ask = Ask.model_validate_json(raw)
        except ValidationError as error:
            raise Refused(422, "; ".join(problems(error, Ask))) from None
        return _answer(await self._permits.ask(ask))

    async def _check(self, request: Request) -> Response:
        needed = _seconds(request.query_params.get("secondsNeeded"))
        return _answer(await self._permits.check(_name(request), needed))

    async def _renew(self, request: Request) -> Response:
        return _answer(await self._permits.renew(_name(request)))

    async def _release(self, request: Request) -> Response:
        await self._permits.release(_name(request))
        return JSONResponse({})


def _said(code: int, message: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if code == 401 else None
    return JSONResponse({"message": message}, code, headers)


def _answer(verdict: Verdict) -> Response:
    return JSONResponse(verdict.to_dict())


async def _body(request: Request) -> bytes:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > LONGEST_ASK:
            raise Refused(413, f"body: longer than {LONGEST_ASK} bytes, an Ask never is: cut it")
    return bytes(raw)


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    if len(name) > LONGEST_NAME:
        raise Refused(422, f"permit: {name[:60]!r}… is no name, longer than {LONGEST_NAME}")
    return name


def _seconds(text: str | None) -> float:
    """How long the permit must last. Not a number means not valid long enough, never 0."""
    try:
        seconds = float(text or "")
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise Refused(422, f"secondsNeeded: {text!r} is no number of seconds: write one, 0 or more")
    return seconds


class DefenderServer:
    """A Part. `port` 0 takes a free one, which `port` then gives; `flag` is named in errors."""

    name = "defender server"

    def __init__(
        self,
        permits: Permits,
        status: Status,
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        token_file: str | Path | None = None,
        flag: str = "--listen-port",
    ) -> None:
        self.address = address
        self.port = port
        self.listening = asyncio.Event()
        self._app = Api(permits, status, token_file).app()
        self._flag = flag

    async def run(self) -> None:
        """Serve until cancelled. Raises CannotStart if the port cannot be had."""
        with listen(self.address, self.port, self._flag) as listener:
            self.port = listener.getsockname()[1]
            self.listening.set()
            log.info("defender listens", extra={"address": self.address, "port": self.port})
            await serve(self._app, listener)
