"""Authentication of requests of people: by the cookie of a login, or by the proxy in front.

The cookie contains the identity and, for a Token login, the token. The authenticator checks the
token with each request and caches results for seconds, so a revoked token stops working as fast as
elsewhere.
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Generic, TypeVar

from starlette.requests import HTTPConnection
from starlette.responses import Response

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.identity import Identity, Proof
from kubenode.runtime.site.browser import set_cookie
from kubenode.runtime.site.people import IdentityProvider, Person, Proxy, Via
from kubenode.runtime.site.seals import Seal
from kubenode.runtime.site.signouts import SignOuts

LASTS = timedelta(hours=8)
FLASH_LASTS = timedelta(seconds=30)
AUTHENTICATED = "system:authenticated"
OPERATOR = "demo"


@dataclass(frozen=True, slots=True)
class SiteCookies:
    """Names of the cookies of a site. Sites on other ports of a host get each other's cookies.

    login: who the person is. message: what the next page shows once.
    """

    login: str = "kubenode-dashboard"
    message: str = "kubenode-told"


@dataclass(frozen=True, slots=True)
class SiteRights:
    """What a person may do at a site. Sites add rights of their own."""

    read: bool = False

    @property
    def lacking(self) -> list[str]:
        """Return the names of the rights that the person does not have."""
        return [each.name for each in fields(self) if not getattr(self, each.name)]


R = TypeVar("R", bound=SiteRights)


@dataclass(frozen=True, slots=True)
class Visit(Generic[R]):
    """A request of a person. `session` identifies the login, and forms are bound to it."""

    person: Person
    rights: R
    session: str
    fresh: bool = False


class VisitorAuthenticator(Generic[R]):
    """Authenticator of requests of people.

    rights_of: returns the rights of a person.
    link: a secret that the program printed in an address, "" for none.
    """

    def __init__(
        self,
        gate: IdentityProvider,
        seal: Seal,
        clock: Clock,
        proxy: Proxy,
        sign_outs: SignOuts,
        rights_of: Callable[[Person, IdentityProvider], Awaitable[R]],
        link: str = "",
        cookies: SiteCookies = SiteCookies(),
    ) -> None:
        self.gate, self.proxy, self.link = gate, proxy, link
        self._seal, self._clock, self._sign_outs = seal, clock, sign_outs
        self._rights_of, self.cookies = rights_of, cookies

    # -- coming in ------------------------------------------------------------------------------

    async def visit(self, request: HTTPConnection) -> Visit[R] | None:
        """Return the visit, None for an unknown caller. Raises Unverified."""
        content = self._open(request, self.cookies.login) or {}
        session = str(content.get("session", ""))
        if session in self._sign_outs:
            content, session = {}, ""
        if person := self._proxied(request):
            # The proxy decides who the person is; a cookie of another person is not used.
            fits = content.get("via") == Via.PROXY and content.get("name") == person.name
            session = session if fits else secrets.token_hex(16)
            return Visit(person, await self._rights_of(person, self.gate), session, not fits)
        known = await self._known(content)
        if known is None:
            return None
        return Visit(known, await self._rights_of(known, self.gate), session)

    def _open(self, request: HTTPConnection, cookie: str) -> dict[str, object] | None:
        return self._seal.open(cookie, request.cookies.get(cookie, ""), self._clock.now())

    async def _known(self, content: dict[str, object]) -> Person | None:
        match content.get("via"):
            case Via.LINK if self.link and content.get("link") == self._mark():
                return Person(Identity(OPERATOR, proof=Proof.LOOPBACK), Via.LINK)
            case Via.TOKEN:
                return await self.with_token(str(content.get("token", "")))
            case _:
                return None

    async def with_token(self, token: str) -> Person | None:
        """Return the person with this token, None if it is invalid. Raises Unverified."""
        who = await self.gate.identify(token) if token else None
        return None if who is None else Person(who, Via.TOKEN, token)

    def with_link(self, shown: str) -> Person | None:
        if not self.link or not hmac.compare_digest(shown.encode(), self.link.encode()):
            return None
        return Person(Identity(OPERATOR, proof=Proof.LOOPBACK), Via.LINK)

    def _mark(self) -> str:
        """Return a value that binds a cookie to the link of this process."""
        return self._seal.form_token(f"link {self.link}")

    def _proxied(self, request: HTTPConnection) -> Person | None:
        """Return the person that the proxy names, None if the request is not from the proxy."""
        proxy = self.proxy
        if not proxy.user or not self._by_proxy(request):
            return None
        shown = request.headers.get(proxy.secret_header, "")
        if proxy.secret and not hmac.compare_digest(shown.encode(), proxy.secret.encode()):
            return None
        named = request.headers.getlist(proxy.user)
        # A second header comes from outside, in addition to the proxy's own.
        name = named[0].strip() if len(named) == 1 else ""
        # Names with this prefix belong to components of Kubernetes, never to people.
        if not name or name.startswith("system:") or len(name) > 256:
            return None
        header = request.headers.get(proxy.groups, "") if proxy.groups else ""
        groups = [group for group in map(str.strip, header.split(",")[:64]) if group]
        allowed = (proxy.prefix + group for group in groups if not group.startswith("system:"))
        who = Identity(proxy.prefix + name, (*allowed, AUTHENTICATED))
        return Person(who, Via.PROXY)

    # -- the way here ---------------------------------------------------------------------------

    def _by_proxy(self, request: HTTPConnection) -> bool:
        return request.client is not None and self.proxy.trusts(request.client.host)

    def secure(self, request: HTTPConnection) -> bool:
        """Return whether the browser uses https, to us or to the proxy."""
        if self._by_proxy(request):
            return request.headers.get("X-Forwarded-Proto", "") == "https"
        return request.url.scheme == "https"

    def address(self, request: HTTPConnection) -> str:
        """Return the client's address for login limits, as the proxy reports it if there is one."""
        if self._by_proxy(request):
            forwarded = request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
            if forwarded:
                return forwarded[:45]
        return request.client.host if request.client else ""

    # -- cookies --------------------------------------------------------------------------------

    def remember(self, response: Response, person: Person, secure: bool, session: str = "") -> None:
        """Set the cookie of the login. Raises CookieTooLong for a token that does not fit."""
        content = {"session": session or secrets.token_hex(16), "via": person.via.value}
        match person.via:
            case Via.TOKEN:
                content["token"] = person.token
            case Via.PROXY:
                content["name"] = person.name
            case Via.LINK:
                content["link"] = self._mark()
        sealed = self._seal.close(self.cookies.login, content, self._clock.now() + LASTS)
        set_cookie(response, self.cookies.login, sealed, LASTS, secure=secure)

    def forget(self, response: Response, session: str, secure: bool) -> None:
        """Log out: the cookie becomes invalid, wherever a copy of it is kept."""
        self._sign_outs.add(session, self._clock.now() + LASTS)
        set_cookie(response, self.cookies.login, "", timedelta(0), secure=secure)

    def tell(self, response: Response, text: str, good: bool, secure: bool) -> None:
        """Set a message that the next page shows once."""
        content = {"text": text[:900], "good": good}
        sealed = self._seal.close(self.cookies.message, content, self._clock.now() + FLASH_LASTS)
        set_cookie(response, self.cookies.message, sealed, FLASH_LASTS, secure=secure)

    def read_message(self, request: HTTPConnection) -> dict[str, object] | None:
        return self._open(request, self.cookies.message)

    def untell(self, response: Response, secure: bool) -> None:
        set_cookie(response, self.cookies.message, "", timedelta(0), secure=secure)

    # -- forms ----------------------------------------------------------------------------------

    def form_token(self, session: str) -> str:
        return self._seal.form_token(session)

    def form_token_fits(self, session: str, shown: str) -> bool:
        return bool(session) and self._seal.form_token_fits(session, shown)
