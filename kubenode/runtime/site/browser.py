"""Headers and cookies of the responses of a site, and validation of requests of browsers."""

from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kubenode.runtime.httplimits import TooLong, read_body

LONGEST_FORM = 2**16
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # no-referrer would make posts come from "null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
STATIC = "/static/"


class WebRefusal(Exception):
    """A response with this status code and a message for the person."""

    def __init__(self, code: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.headers = dict(headers or {})


class SafeHeaders:
    """Adds HEADERS to every response. Pages are not cached, and assets are revalidated each
    time.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                inner = scope["path"].removeprefix(scope.get("root_path", ""))
                headers["Cache-Control"] = "no-cache" if inner.startswith(STATIC) else "no-store"
            await send(message)

        await self._app(scope, receive, sending)


def root(request: HTTPConnection) -> str:
    """Return the path at which the site is mounted, "" for the top."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def from_here(request: HTTPConnection) -> bool:
    """Return whether a post comes from our own page, as far as the browser tells.

    Old browsers do not tell; the form's token is required in any case.
    """
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    if site not in ("same-origin", "none"):
        return False
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("Host", "")


async def form(request: Request) -> dict[str, str]:
    """Return the fields of a posted form, the last one of equal names. Raises WebRefusal."""
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise WebRefusal(415, "A form of this site is wanted: open the page and send it there.")
    try:
        raw = await read_body(request, LONGEST_FORM)
    except TooLong:
        text = f"The form is longer than {LONGEST_FORM} bytes: shorten it."
        raise WebRefusal(413, text) from None
    try:
        pairs = parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=50)
    except ValueError as error:
        raise WebRefusal(400, f"The form cannot be read: {error}.") from None
    return dict(pairs)


def set_cookie(
    response: Response, name: str, value: str, lasts: timedelta, *, secure: bool
) -> None:
    """Set a cookie that scripts cannot read and that other sites do not cause to be sent.

    lasts: 0 removes the cookie. secure: the browser sends it over https alone.
    """
    seconds = int(lasts.total_seconds())
    response.set_cookie(
        name, value, max_age=seconds, httponly=True, secure=secure, samesite="strict"
    )


def inner_path(to: str) -> str:
    """Return the path if it is within this site, else "/". It never leads to another host."""
    safe = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable()
    return to if safe and "\\" not in to and len(to) < 1000 else "/"
