"""A client of the dashboard that is logged in as the caller, and stays so when tokens expire."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
import yarl

from kubenode.cli.exits import Refusal

CONNECT_SECONDS = 15.0
LOGIN_SECONDS = 30.0
LOGIN_PROBLEMS = {
    HTTPStatus.BAD_REQUEST: "your token is too long for its cookie: name a service account with"
    " --service-account",
    HTTPStatus.UNAUTHORIZED: "the API server does not know your token, or it has expired: renew the"
    " credentials of the kubeconfig, or name another context",
    HTTPStatus.TOO_MANY_REQUESTS: "too many logins failed: try again in a minute",
    HTTPStatus.SERVICE_UNAVAILABLE: "it cannot verify tokens now: `kubenode doctor` says why",
}
"""Reasons and remedies for a login that the dashboard refuses, by status."""


class DashboardUnreachable(Exception):
    """The dashboard does not answer. Says why."""


class TokenSource(Protocol):
    async def read(self, *, fresh: bool = False) -> str: ...


class DashboardClient:
    """A login at the dashboard. Its cookies stay in this process.

    base: address of the dashboard, without a slash at its end.
    """

    def __init__(self, session: aiohttp.ClientSession, base: str, token: TokenSource) -> None:
        self._session, self._token = session, token
        self._origin = base.removesuffix(urlsplit(base).path)
        self.root = urlsplit(base).path

    async def enter(self) -> None:
        """Log in, and check that the caller may read. Raises Refusal, DashboardUnreachable."""
        await self.log_in()
        async with await self._request("GET", f"{self.root}/") as answer:
            if answer.status == HTTPStatus.FORBIDDEN:
                raise Refusal(
                    "you may not read the dashboard: that takes the right to get defenderpolicies;"
                    " ClusterRole kubenode-viewer of charts/kubenode/people.yaml has it"
                )
            if answer.status != HTTPStatus.OK:
                raise self._foreign(answer.status)

    async def log_in(self, *, fresh: bool = False) -> None:
        """Log in. fresh: with a new token. Raises Refusal, DashboardUnreachable."""
        self._session.cookie_jar.clear()
        fields = aiohttp.FormData({"token": await self._token.read(fresh=fresh)})
        async with await self._request("POST", f"{self.root}/login", fields=fields) as answer:
            if problem := LOGIN_PROBLEMS.get(HTTPStatus(answer.status)):
                raise Refusal(f"the dashboard refuses the login: {problem}")
            if answer.status != HTTPStatus.SEE_OTHER:
                raise self._foreign(answer.status)

    async def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> aiohttp.ClientResponse:
        """Send one request. If the login has expired, log in and read once more.

        path: with its query. Raises Refusal, DashboardUnreachable.
        """
        answer = await self._request(method, path, headers, body)
        if method != "GET" or not self._has_expired(answer):
            return answer
        answer.close()
        await self.log_in(fresh=True)
        return await self._request(method, path, headers, body)

    def _has_expired(self, answer: aiohttp.ClientResponse) -> bool:
        """Return whether the dashboard asks for a login: it redirects, or refuses a stream."""
        target = urlsplit(answer.headers.get("Location", "")).path
        redirected = answer.status == HTTPStatus.SEE_OTHER and target == f"{self.root}/login"
        return redirected or answer.status == HTTPStatus.UNAUTHORIZED

    async def _request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        fields: aiohttp.FormData | None = None,
    ) -> aiohttp.ClientResponse:
        url = yarl.URL(self._origin + path, encoded=True)
        try:
            return await self._session.request(
                method, url, headers=headers, data=fields or body or None, allow_redirects=False
            )
        except (aiohttp.ClientError, OSError) as error:
            raise DashboardUnreachable(str(error) or type(error).__name__) from error

    def _foreign(self, status: int) -> Refusal:
        return Refusal(
            f"{self._origin}{self.root} answers {status}, as no dashboard of KubeNode does: is"
            " --url right, and is it reached without the login of a proxy?"
        )


@asynccontextmanager
async def dashboard_client(
    base: str, context: ssl.SSLContext, token: TokenSource
) -> AsyncIterator[DashboardClient]:
    """Yield a client that is not logged in yet. context: verifies the dashboard."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context),
        cookie_jar=aiohttp.CookieJar(unsafe=True),  # accepts cookies of an IP address
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        auto_decompress=False,
    )
    async with session:
        yield DashboardClient(session, base.rstrip("/"), token)
