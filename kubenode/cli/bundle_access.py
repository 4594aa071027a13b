"""Decides who may download diagnostics bundles.

The right is the verb `download` on bundles.kubenode.io, named by the agent. It has no objects: the
API server is asked for it alone (SubjectAccessReview). The tokens of Host Doctor's senders are not
users of the API server, so they download nothing.
"""

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from defender.server.auth.gate import RequestAuthenticator, RequestAuthenticatorSettings
from kubenode.runtime.audit import Audit, AuditLine
from kubenode.runtime.bearer import bearer_token
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.reviews import Unverified
from kubenode.runtime.tls.peer import SCOPE_KEY

VERB, RESOURCE = "download", "bundles"


class BundleAccess:
    """Checks the caller of a download, and audits every download that is allowed or refused.

    audience: the audience that tokens must be issued for; "" is that of the API server.
    """

    def __init__(self, kube: Kube, clock: Clock, audit: Audit, audience: str = "") -> None:
        self._clock, self._audit = clock, audit
        self._gate = RequestAuthenticator(
            kube, clock, RequestAuthenticatorSettings(review_tokens=True, audience=audience)
        )

    async def check(self, request: Request) -> Response | None:
        """Return None for a caller that may download, else the response that refuses."""
        agent = request.path_params["agent"]
        shown = bearer_token(request.headers.get("authorization", ""))
        try:
            user = await self._gate.identify(shown, request.scope.get(SCOPE_KEY))
            allowed = user is not None and await self._gate.may(user, VERB, RESOURCE, agent)
        except Unverified as error:
            return PlainTextResponse(f"{error}\n", 503, {"Retry-After": "2"})
        if user is None:
            text = "show who you are: Authorization: Bearer TOKEN, of a user of the API server\n"
            return PlainTextResponse(text, 401, {"WWW-Authenticate": "Bearer"})
        outcome = "Done" if allowed else "Refused"
        what = f"Download bundle of {agent[:253]}"
        self._audit.write(AuditLine(self._clock.now(), "hostdoctor", user.name, what, outcome))
        if allowed:
            return None
        text = f"{user.name} may not {VERB} {RESOURCE}.kubenode.io {agent[:253]}\n"
        return PlainTextResponse(text, 403)
