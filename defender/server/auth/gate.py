"""Authentication and authorization of callers: certificates, tokens and RBAC.

    identify(token, peer)   the caller, None if unknown
    may(identity, right)    whether RBAC allows it

Both raise Unverified if that cannot be determined now; then the caller is rejected. A token takes
precedence over a certificate, because a caller that sends one intends it.
"""

import hmac
import logging
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from defender.server.auth.rights import LOOPBACK, TOKEN_FILE, without_review
from kubenode.api.base import GROUP
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.access_reviews import AccessReviews
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.identity import AUTHENTICATED, Identity, Proof, Right
from kubenode.runtime.kube.reviews import Unverified
from kubenode.runtime.tls.peer import Peer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RequestAuthenticatorSettings:
    """Settings of authentication.

    token_file: its bearer may ask and read. Read for each request, so that it can be rotated.
    review_tokens: whether other tokens are reviewed by the API server.
    audience: required audience of those; "" is the API server itself.
    anyone: whether callers without credentials may ask and read. For loopback only.
    """

    token_file: Path | None = None
    review_tokens: bool = False
    audience: str = ""
    anyone: bool = False


class RequestAuthenticator:
    """Authenticator of callers.

    kube: client for reviews. None: no token is reviewed, and certificates have no rights.
    """

    def __init__(
        self, kube: Kube | None, clock: Clock, settings: RequestAuthenticatorSettings
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._reviews = None if kube is None else AccessReviews(kube, clock, settings.audience)

    async def identify(self, token: str, peer: Peer | None = None) -> Identity | None:
        """Return the caller with this token or certificate, None if unknown. Raises Unverified."""
        if token:
            if self._is_the_files(token):
                return TOKEN_FILE
            if self.settings.review_tokens and self._reviews is not None:
                return await self._reviews.user(token)
            return None
        if peer is not None:
            return self._certified(peer, self._clock.now())
        return LOOPBACK if self.settings.anyone else None

    async def may(
        self, who: Identity, verb: str, resource: str, name: str = "", group: str = GROUP
    ) -> bool:
        """Return whether RBAC allows it: `may(who, "patch", "defenderpolicies", "default")`.

        Raises Unverified.
        """
        right = Right(verb, resource, name, group)
        if not who.of_the_api_server:
            return without_review(right)
        return self._reviews is not None and await self._reviews.may(who, right)

    def _is_the_files(self, token: str) -> bool:
        path = self.settings.token_file
        if path is None:
            return False
        try:
            wanted = path.read_text().strip()
        except (OSError, ValueError) as error:
            raise Unverified(f"the token file of Kube Defender cannot be read: {error}") from None
        # An empty file must not accept an empty token.
        return bool(wanted) and hmac.compare_digest(token.encode(), wanted.encode())

    def _certified(self, peer: Peer, now: datetime) -> Identity | None:
        if peer.ends <= now:
            return None  # it was valid when the connection began
        # The API server adds this group to every known user, and roles are often bound to it.
        return Identity(peer.name, (*peer.organizations, AUTHENTICATED), Proof.CERTIFICATE)


def open_gate(clock: Clock) -> RequestAuthenticator:
    """Return an authenticator for loopback without configuration: any local caller may ask and
    read.
    """
    return RequestAuthenticator(None, clock, RequestAuthenticatorSettings(anyone=True))
