"""How a request is known: by the cookie that a login left, or by the proxy in front of us.

A cookie holds who the person is and, for a Token, the token. It is shown to the Gate again with
each request, which remembers its answers for seconds: a token that is withdrawn stops working here
as fast as it does elsewhere.
"""

import hmac
import secrets
from dataclasses import dataclass
from datetime import timedelta

from starlette.requests import HTTPConnection
from starlette.responses import Response

from defender.auth.identity import Identity, Proof
from defender.dashboard.people import IdentityProvider, Person, Proxy, Rights, Via, rights_of
from defender.dashboard.sealing import Seal
from defender.dashboard.signouts import SignOuts
from kubenode.runtime.clock import Clock

COOKIE = "kubenode-dashboard"
LASTS = timedelta(hours=8)
FLASH = "kubenode-told"
FLASH_LASTS = timedelta(seconds=30)
AUTHENTICATED = "system:authenticated"
OPERATOR = "demo"


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of a person. `session` names the login, and forms are bound to it."""

    person: Person
    rights: Rights
    session: str
    fresh: bool = False


class VisitorAuthenticator:
    """link  a secret that the program printed as part of an address; "" for none"""

    def __init__(
        self,
        gate: IdentityProvider,
        seal: Seal,
        clock: Clock,
        proxy: Proxy,
        sign_outs: SignOuts,
        link: str = "",
    ) -> None:
        self.gate, self.proxy, self.link = gate, proxy, link
        self._seal, self._clock, self._sign_outs = seal, clock, sign_outs

    # -- coming in ------------------------------------------------------------------------------

    async def visit(self, request: HTTPConnection) -> Visit | None:
        """Who asks, None for nobody we know. Raises Unverified."""
        content = self._seal.open(COOKIE, request.cookies.get(COOKIE, ""), self._clock.now()) or {}
        session = str(content.get("session", ""))
        if session in self._sign_outs:
            content, session = {}, ""
        if person := self._proxied(request):
            # The proxy decides who it is: a cookie of another person is not theirs.
            fits = content.get("via") == Via.PROXY and content.get("name") == person.name
            session = session if fits else secrets.token_hex(16)
            return Visit(person, await rights_of(person, self.gate), session, not fits)
        known = await self._known(content)
        if known is None:
            return None
        return Visit(known, await rights_of(known, self.gate), session)

    async def _known(self, content: dict[str, object]) -> Person | None:
        match content.get("via"):
            case Via.LINK if self.link and content.get("link") == self._mark():
                return Person(Identity(OPERATOR, proof=Proof.LOOPBACK), Via.LINK)
            case Via.TOKEN:
                return await self.with_token(str(content.get("token", "")))
            case _:
                return None

    async def with_token(self, token: str) -> Person | None:
        """Raises Unverified."""
        who = await self.gate.identify(token) if token else None
        return None if who is None else Person(who, Via.TOKEN, token)

    def with_link(self, shown: str) -> Person | None:
        if not self.link or not hmac.compare_digest(shown.encode(), self.link.encode()):
            return None
        return Person(Identity(OPERATOR, proof=Proof.LOOPBACK), Via.LINK)

    def _mark(self) -> str:
        """Ties a cookie to the link of this very program."""
        return self._seal.form_token(f"link {self.link}")

    def _proxied(self, request: HTTPConnection) -> Person | None:
        """The person that the proxy names, if it is the proxy that speaks."""
        proxy = self.proxy
        if not proxy.user or not self._by_proxy(request):
            return None
        shown = request.headers.get(proxy.secret_header, "")
        if proxy.secret and not hmac.compare_digest(shown.encode(), proxy.secret.encode()):
            return None
        named = request.headers.getlist(proxy.user)
        # Twice is a name that came from outside, beside the proxy's own.
        name = named[0].strip() if len(named) == 1 else ""
        # What Kubernetes itself gives its own parts is never a person's.
        if not name or name.startswith("system:") or len(name) > 256:
            return None
        said = request.headers.get(proxy.groups, "") if proxy.groups else ""
        groups = [group for group in map(str.strip, said.split(",")[:64]) if group]
        kept = (proxy.prefix + group for group in groups if not group.startswith("system:"))
        who = Identity(proxy.prefix + name, (*kept, AUTHENTICATED))
        return Person(who, Via.PROXY)

    # -- the way here ---------------------------------------------------------------------------

    def _by_proxy(self, request: HTTPConnection) -> bool:
        return request.client is not None and self.proxy.trusts(request.client.host)

    def secure(self, request: HTTPConnection) -> bool:
        """Whether the browser speaks https, with us or with the proxy in front of us."""
        if self._by_proxy(request):
            return request.headers.get("X-Forwarded-Proto", "") == "https"
        return request.url.scheme == "https"

    def address(self, request: HTTPConnection) -> str:
        """Whose attempts these are: the one that the proxy was called from, if it is the proxy."""
        if self._by_proxy(request):
            said = request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
            if said:
                return said[:45]
        return request.client.host if request.client else ""

    # -- cookies --------------------------------------------------------------------------------

    def remember(self, response: Response, person: Person, secure: bool, session: str = "") -> None:
        """Raises TooLong for a token that no cookie holds."""
        content = {"session": session or secrets.token_hex(16), "via": person.via.value}
        match person.via:
            case Via.TOKEN:
                content["token"] = person.token
            case Via.PROXY:
                content["name"] = person.name
            case Via.LINK:
                content["link"] = self._mark()
        sealed = self._seal.close(COOKIE, content, self._clock.now() + LASTS)
        self._set(response, COOKIE, sealed, LASTS, secure)

    def forget(self, response: Response, session: str, secure: bool) -> None:
        """Log out: this cookie opens nothing any more, wherever it is kept."""
        self._sign_outs.add(session, self._clock.now() + LASTS)
        self._set(response, COOKIE, "", timedelta(0), secure)

    def tell(self, response: Response, text: str, good: bool, secure: bool) -> None:
        """Something that the next page says once."""
        content = {"text": text[:900], "good": good}
        sealed = self._seal.close(FLASH, content, self._clock.now() + FLASH_LASTS)
        self._set(response, FLASH, sealed, FLASH_LASTS, secure)

    def told(self, request: HTTPConnection) -> dict[str, object] | None:
        return self._seal.open(FLASH, request.cookies.get(FLASH, ""), self._clock.now())

    def untell(self, response: Response, secure: bool) -> None:
        self._set(response, FLASH, "", timedelta(0), secure)

    def _set(
        self, response: Response, name: str, value: str, lasts: timedelta, secure: bool
    ) -> None:
        seconds = int(lasts.total_seconds())
        response.set_cookie(
            name, value, max_age=seconds, httponly=True, secure=secure, samesite="strict"
        )

    # -- forms ----------------------------------------------------------------------------------

    def form_token(self, session: str) -> str:
        return self._seal.form_token(session)

    def form_token_fits(self, session: str, shown: str) -> bool:
        return bool(session) and self._seal.form_token_fits(session, shown)
