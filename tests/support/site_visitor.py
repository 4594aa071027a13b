"""A person at a site in tests: keeps cookies and sends forms, without a browser or a socket."""

import html
import re
from http.cookies import SimpleCookie
from urllib.parse import urlencode

from starlette.types import ASGIApp
from support.asgi import Reply, request

FORM = "application/x-www-form-urlencoded"


class SiteVisitor:
    """Calls the application as a browser does that runs no scripts."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.cookies: dict[str, str] = {}

    async def get(self, path: str) -> Reply:
        return await self._send("GET", path)

    async def post(
        self, path: str, fields: dict[str, str], headers: dict[str, str] | None = None
    ) -> Reply:
        given = {"Content-Type": FORM, **(headers or {})}
        return await self._send("POST", path, urlencode(fields).encode(), given)

    async def log_in(self, token: str) -> Reply:
        return await self.post("/login", {"token": token})

    async def read_form_token(self, path: str) -> str:
        """Return the token of the forms on a page."""
        page = (await self.get(path)).body.decode()
        match = re.search(r'name="form_token" value="([^"]+)"', page)
        assert match is not None, page
        return match[1]

    async def read_message(self, path: str) -> str:
        """Return what the next page tells the person."""
        page = (await self.get(path)).body.decode()
        match = re.search(r'role="status">([^<]*)<', page)
        return html.unescape(match[1]) if match else ""

    async def _send(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Reply:
        given = dict(headers or {})
        if self.cookies:
            given["Cookie"] = "; ".join(f"{name}={text}" for name, text in self.cookies.items())
        reply = await request(self._app, method, path, body, given)
        for name, morsel in SimpleCookie(reply.headers.get("set-cookie", "")).items():
            self.cookies[name] = morsel.value
            if morsel["max-age"] == "0":
                del self.cookies[name]
        return reply
