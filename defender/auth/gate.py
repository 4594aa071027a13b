"""Who may call Kube Defender: identities from certificates and tokens, rights from RBAC.

    identify(token, peer)   who calls; None: nobody that we know
    may(identity, right)    whether RBAC lets them

Both raise Unverified when that cannot be found out now, and then the caller is not let in. A shown
token counts before a certificate: whoever shows one means it.
"""

import hmac
import logging
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from defender.auth.identity import (
    AUTHENTICATED,
    LOOPBACK,
    TOKEN_FILE,
    Identity,
    Proof,
    Right,
    without_review,
)
from defender.auth.reviews import AccessReviews, Unverified
from kubenode.api.base import GROUP
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.tls.peer import Peer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RequestAuthenticatorSettings:
    """token_file    its bearer asks and reads; read for each request, so that it can be rotated
    review_tokens  tokens of service accounts and users are shown to the API server
    audience       whom those must be made for; "" is the API server itself
    anyone         who shows nothing is let in to ask and read: for loopback alone
    """

    token_file: Path | None = None
    review_tokens: bool = False
    audience: str = ""
    anyone: bool = False


class RequestAuthenticator:
    """kube  None: no token is reviewed, and certificates have no rights"""

    def __init__(
        self, kube: Kube | None, clock: Clock, settings: RequestAuthenticatorSettings
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._reviews = None if kube is None else AccessReviews(kube, clock, settings.audience)

    async def identify(self, token: str, peer: Peer | None = None) -> Identity | None:
        """Who shows this token or certificate. Raises Unverified."""
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
        """Whether RBAC lets them: `may(who, "patch", "defenderpolicies", "default")`.

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
        # An empty file must not let in whoever shows nothing.
        return bool(wanted) and hmac.compare_digest(token.encode(), wanted.encode())

    def _certified(self, peer: Peer, now: datetime) -> Identity | None:
        if peer.ends <= now:
            return None  # it was valid when the connection began
        # The API server adds this group to whoever it knows; rights are often given to it.
        return Identity(peer.name, (*peer.organizations, AUTHENTICATED), Proof.CERTIFICATE)


def open_gate(clock: Clock) -> RequestAuthenticator:
    """For loopback where nothing is configured: whoever is on the host may ask and read."""
    return RequestAuthenticator(None, clock, RequestAuthenticatorSettings(anyone=True))
