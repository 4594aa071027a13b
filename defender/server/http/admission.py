"""Checks before a request is answered: authentication, authorization and size of the body."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request

from defender.server.auth.gate import RequestAuthenticator
from defender.server.http.failures import HttpRefusal
from kubenode.runtime.bearer import bearer_token
from kubenode.runtime.httplimits import TooLong, read_body
from kubenode.runtime.kube.identity import Identity, Proof
from kubenode.runtime.tls.peer import SCOPE_KEY

LONGEST_ASK = 2**16
"""Greatest size of a body in bytes. An Ask with all 64 sources of evidence has less than 8 KiB."""
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
HOW_TO_SHOW = "show Kube Defender who you are: Authorization: Bearer TOKEN, or a client certificate"

Admit = Callable[[Request], Awaitable[Identity]]


def to(gate: RequestAuthenticator, verb: str, resource: str) -> Admit:
    """Return the dependency of a route: the caller must have this right, by RBAC of group
    kubenode.io.
    """

    async def admit(request: Request) -> Identity:
        who = await gate.identify(shown_token(request), request.scope.get(SCOPE_KEY))
        if who is None:
            raise HttpRefusal(401, HOW_TO_SHOW)
        if who.proof is Proof.LOOPBACK:
            refuse_browsers(request)
        if not await gate.may(who, verb, resource):
            what = f"{verb} {resource} of kubenode.io"
            raise HttpRefusal(403, f"{who.name} may not {what}: grant it by RBAC")
        return who

    return admit


def shown_token(request: Request) -> str:
    return bearer_token(request.headers.get("Authorization", ""))


def refuse_browsers(request: Request) -> None:
    """Refuse requests of web pages where callers need no credentials: a page must not act for its
    user.
    """
    host = request.url.hostname or ""
    foreign = request.headers.get("Origin") or request.headers.get("Sec-Fetch-Site")
    if host not in LOCAL_NAMES or foreign not in (None, "", "none", "same-origin"):
        raise HttpRefusal(
            403, "without a token only programs on this host are answered, no web pages"
        )


async def body_of(request: Request) -> bytes:
    """Return the body. Raises HttpRefusal for more than LONGEST_ASK bytes, and TooSlow and
    BodyBudgetFull.
    """
    try:
        return await read_body(request, LONGEST_ASK)
    except TooLong as error:
        raise HttpRefusal(413, f"{error}, an Ask never is: cut it") from None
