"""Ask the API server whose token it is (TokenReview), and what a user may do (SubjectAccessReview).

Answers are cached for SECONDS, so a revoked right works for that long.
"""

import msgspec

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.identity import Identity, Proof, Right
from kubenode.runtime.kube.reviews import ReviewClient, ReviewedUser, TokenReviewer
from kubenode.runtime.responses import ResponseCache

SECONDS = 10.0
MOST = 4096
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


_access = msgspec.json.Decoder(_AccessReview).decode


class AccessReviews:
    """Reviews by the API server.

    audience: required audience of tokens; "" is the API server itself.
    """

    def __init__(self, kube: Kube, clock: Clock, audience: str = "") -> None:
        self._client = ReviewClient(kube, clock)
        self._tokens = TokenReviewer(
            self._client, clock, audience=audience, seconds=SECONDS, most=MOST
        )
        self._rights: ResponseCache[tuple[Identity, Right], bool]
        self._rights = ResponseCache(clock, seconds=SECONDS, most=MOST)

    async def user(self, token: str) -> Identity | None:
        """Return the user of the token, None for an invalid token. Raises Unverified."""
        user = await self._tokens.user(token)
        return None if user is None else _identity(user)

    async def may(self, who: Identity, right: Right) -> bool:
        """Return whether the user has the right. Raises Unverified."""
        return await self._rights.get((who, right), lambda: self._allowed(who, right))

    async def _allowed(self, who: Identity, right: Right) -> bool:
        resource, _, sub = right.resource.partition("/")
        attributes = {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": sub,
            "name": right.name,
        }
        spec = {
            "user": who.name,
            "groups": list(who.groups),
            "uid": who.uid,
            "extra": {key: list(values) for key, values in who.extra},
            "resourceAttributes": {key: value for key, value in attributes.items() if value},
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        status = (await self._client.send(ACCESS, {**body, "spec": spec}, _access)).status
        return status.allowed and not status.denied


def _identity(user: ReviewedUser) -> Identity:
    extra = tuple((key, tuple(values)) for key, values in sorted((user.extra or {}).items()))
    return Identity(user.username, tuple(user.groups or ()), Proof.TOKEN_REVIEW, user.uid, extra)
