"""The local address of `kubenode dashboard`: a proxy that lets in one browser, once.

The browser opens `/.kubenode/open#SECRET`. Browsers send no fragment, so the page posts the secret,
which counts once, and gets the cookie of this process. The login at the dashboard stays in the
process: neither the token nor the dashboard's cookie reaches the browser, and other users of this
host are refused. The session ends with the process, or if the secret is used a second time.
"""

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta

import aiohttp
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from kubenode.cli.dashboard_client import DashboardClient, DashboardUnreachable
from kubenode.cli.exits import Refusal
from kubenode.runtime.httplimits import read_body
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.transport import CredentialsError
from kubenode.runtime.site.browser import (
    LONGEST_FORM,
    SafeHeaders,
    WebRefusal,
    form,
    from_here,
    set_cookie,
)

OPEN = "/.kubenode/open"
SCRIPT = f"{OPEN}.js"
LASTS = timedelta(hours=24)
SECRET_BYTES = 32
NOT_FORWARDED = frozenset(
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "cookie",
     "content-length", "origin", "referer", "authorization"}
)  # fmt: skip
"""Headers of the browser that the dashboard does not get. The origin is checked here."""
NOT_RETURNED = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "set-cookie", "date", "server"}
)
OPEN_PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Open the dashboard · KubeNode</title>
<script type="module" src="{SCRIPT}"></script>
</head>
<body>
<main>
<h1>Open the dashboard</h1>
<form method="post" action="{OPEN}">
<p><label for="secret">The part of the address after #</label>
<input id="secret" name="secret" required autocomplete="off" autofocus></p>
<button>Open the dashboard</button>
</form>
</main>
</body>
</html>
"""
OPEN_SCRIPT = """const secret = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
if (secret) {
  document.getElementById("secret").value = secret;
  document.forms[0].requestSubmit();
}
"""
USED_TWICE = "the address was opened twice, so the session has ended; run the command again"


class DashboardProxy:
    """The proxy. `ended` is set when its session ends, with the sentence for the person."""

    def __init__(self, client: DashboardClient) -> None:
        self._client = client
        self._secret = secrets.token_urlsafe(SECRET_BYTES)
        self._session = ""
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.port = 0
        """Port that the browser uses, set once it is known."""

    @property
    def address(self) -> str:
        """Address of the dashboard for the browser that is let in."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def entrance(self) -> str:
        """Address that lets in one browser, once."""
        return f"{self.address}{OPEN}#{self._secret}"

    def app(self) -> Starlette:
        routes = [
            Route(OPEN, self._page, methods=["GET"]),
            Route(SCRIPT, self._script, methods=["GET"]),
            Route(OPEN, self._enter, methods=["POST"]),
            Route("/{path:path}", self._forward, methods=["GET", "POST"]),
        ]
        return Starlette(
            routes=routes,
            middleware=[Middleware(SafeHeaders)],
            exception_handlers={WebRefusal: _refuse},
        )

    async def _page(self, request: Request) -> Response:
        self._check_origin(request)
        return Response(OPEN_PAGE, media_type="text/html")

    async def _script(self, request: Request) -> Response:
        return Response(OPEN_SCRIPT, media_type="text/javascript")

    async def _enter(self, request: Request) -> Response:
        self._check_origin(request)
        shown = (await form(request)).get("secret", "")
        if not hmac.compare_digest(shown.encode(), self._secret.encode()):
            raise WebRefusal(403, "This is not the secret that `kubenode dashboard` printed.")
        if self._session:
            self._end(USED_TWICE)
            raise WebRefusal(403, f"Refused: {USED_TWICE}.")
        self._session = secrets.token_urlsafe(SECRET_BYTES)
        response = RedirectResponse(f"{self._client.root}/", 303)
        set_cookie(response, self._cookie, self._session, LASTS, secure=False)
        return response

    async def _forward(self, request: Request) -> Response:
        self._check_origin(request)
        shown = request.cookies.get(self._cookie, "")
        if not self._session or not hmac.compare_digest(shown.encode(), self._session.encode()):
            text = "Open the address that `kubenode dashboard` printed; it lets in one browser."
            raise WebRefusal(401, text)
        if request.method == "POST" and request.url.path == f"{self._client.root}/logout":
            self._end("you have logged out")
            return PlainTextResponse("You are logged out. `kubenode dashboard` has ended.\n")
        return await self._answer(request)

    async def _answer(self, request: Request) -> Response:
        path = request.scope["raw_path"].decode("ascii", "replace")
        query = f"?{request.url.query}" if request.url.query else ""
        headers = {k: v for k, v in request.headers.items() if k not in NOT_FORWARDED}
        body = await read_body(request, LONGEST_FORM)
        try:
            answer = await self._client.send(request.method, path + query, headers, body)
        except (DashboardUnreachable, Refusal, KubeError, CredentialsError) as error:
            text = f"The dashboard was not reached: {error}. Reload the page to try again."
            raise WebRefusal(502, text) from error
        returned = {k: v for k, v in answer.headers.items() if k.lower() not in NOT_RETURNED}
        return StreamingResponse(_stream(answer), answer.status, returned)

    def _check_origin(self, request: Request) -> None:
        """Refuse other names of this host, and posts from pages of other sites."""
        host = f"127.0.0.1:{self.port}"
        if request.headers.get("Host") != host or self.ended.done():
            raise WebRefusal(403, f"Open http://{host} while `kubenode dashboard` runs.")
        if request.method != "GET" and not from_here(request):
            raise WebRefusal(403, "The form did not come from a page of this dashboard.")

    @property
    def _cookie(self) -> str:
        """Cookies do not tell ports apart: dashboards of several clusters have their own."""
        return f"kubenode-dashboard-{self.port}"

    def _end(self, why: str) -> None:
        self._session = ""
        if not self.ended.done():
            self.ended.set_result(why)


async def _stream(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Copy the body as it comes: pages follow changes by a stream."""
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    finally:
        answer.close()


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, WebRefusal)
    headers: Mapping[str, str] = error.headers
    return PlainTextResponse(f"{error}\n", error.code, headers=dict(headers))
