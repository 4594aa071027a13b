"""Logins of people: the token of a reader, sealed in a cookie and checked with each request.

The key of cookies is made at start, so a restart of Insight ends all logins.
"""

import secrets
from dataclasses import dataclass
from datetime import timedelta

from starlette.requests import HTTPConnection
from starlette.responses import Response

from kubenode.runtime.bearer import bearer_token
from kubenode.runtime.clock import Clock
from kubenode.runtime.site.browser import set_cookie
from kubenode.runtime.site.seals import Seal
from kubenode.runtime.site.signouts import SignOuts
from kubenode.runtime.token_files import TokenFiles

COOKIE = "kubenode-insight"
LASTS = timedelta(hours=8)


@dataclass(frozen=True, slots=True)
class ReaderVisit:
    """A request of a person. session: identifies the login, "" without a login."""

    session: str = ""


class ReaderLogins:
    """readers: tokens; None lets anyone in, for loopback only"""

    def __init__(self, readers: TokenFiles | None, clock: Clock) -> None:
        self._readers, self._clock = readers, clock
        self._seal, self._sign_outs = Seal(), SignOuts(None, clock)

    def visit(self, request: HTTPConnection) -> ReaderVisit | None:
        """Return the visit, None for an unknown caller. Raises Unverified."""
        if self._readers is None:
            return ReaderVisit()
        if self.knows(bearer_token(request.headers.get("authorization", ""))):
            return ReaderVisit()
        content = self._seal.open(COOKIE, request.cookies.get(COOKIE, ""), self._clock.now()) or {}
        session = str(content.get("session", ""))
        if not session or session in self._sign_outs:
            return None
        return ReaderVisit(session) if self.knows(str(content.get("token", ""))) else None

    def knows(self, token: str) -> bool:
        """Return whether the token is one of a reader. Raises Unverified."""
        return self._readers is not None and bool(token) and bool(self._readers.names_of(token))

    def remember(self, response: Response, token: str, *, secure: bool) -> None:
        """Set the cookie of the login. Raises CookieTooLong for a token that does not fit."""
        content = {"session": secrets.token_hex(16), "token": token}
        sealed = self._seal.close(COOKIE, content, self._clock.now() + LASTS)
        set_cookie(response, COOKIE, sealed, LASTS, secure=secure)

    def forget(self, response: Response, visit: ReaderVisit, *, secure: bool) -> None:
        """Log out: the cookie becomes invalid, wherever a copy of it is stored."""
        self._sign_outs.add(visit.session, self._clock.now() + LASTS)
        set_cookie(response, COOKIE, "", timedelta(0), secure=secure)

    def form_token(self, visit: ReaderVisit) -> str:
        return self._seal.form_token(visit.session)

    def form_token_fits(self, visit: ReaderVisit, shown: str) -> bool:
        return bool(visit.session) and self._seal.form_token_fits(visit.session, shown)
