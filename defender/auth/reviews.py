"""Ask the API server whose token it is (TokenReview), and what a user may do (SubjectAccessReview).

Responses are cached for SECONDS, so a revoked right works for that long. Tokens are cached by their
digest only. The rate of reviews is bounded, so that invalid tokens cannot use up the requests that
Kube Defender needs.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from defender.auth.cache import Remembered
from defender.auth.identity import Identity, Proof, Right
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.rate import TokenBucket

SECONDS = 10.0
MOST = 4096
RATE, BURST = 50.0, 200.0
LONGEST_TOKEN = 16 * 1024
TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Unverified(Exception):
    """The API server did not say who calls or what it may do, so the caller is rejected for now."""


class _ReviewedUser(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _ReviewedUser = msgspec.field(default_factory=_ReviewedUser)
    audiences: list[str] | None = None


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


_token = msgspec.json.Decoder(_TokenReview).decode
_access = msgspec.json.Decoder(_AccessReview).decode


class AccessReviews:
    """Reviews by the API server.

    audience: required audience of tokens; "" is the API server itself.
    """

    def __init__(self, kube: Kube, clock: Clock, audience: str = "") -> None:
        self._kube, self._audience = kube, audience
        self._bucket = TokenBucket(RATE, BURST, clock)
        self._users: Remembered[bytes, Identity | None]
        self._users = Remembered(clock, seconds=SECONDS, most=MOST)
        self._rights: Remembered[tuple[Identity, Right], bool]
        self._rights = Remembered(clock, seconds=SECONDS, most=MOST)

    async def user(self, token: str) -> Identity | None:
        """Return the user of the token, None for an invalid token. Raises Unverified."""
        if not token or len(token) > LONGEST_TOKEN:
            return None
        digest = sha256(token.encode(errors="replace")).digest()
        return await self._users.get(digest, lambda: self._review(token))

    async def may(self, who: Identity, right: Right) -> bool:
        """Return whether the user has the right. Raises Unverified."""
        return await self._rights.get((who, right), lambda: self._allowed(who, right))

    async def _review(self, token: str) -> Identity | None:
        spec: dict[str, Any] = {"token": token}
        if self._audience:
            spec["audiences"] = [self._audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        status = (await self._ask(TOKENS, body, _token)).status
        # A server without audience support returns none: the token is for the API server only.
        if self._audience and self._audience not in (status.audiences or ()):
            return None
        if not status.authenticated or not status.user.username:
            return None
        return _identity(status.user)

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
        status = (await self._ask(ACCESS, {**body, "spec": spec}, _access)).status
        return status.allowed and not status.denied

    async def _ask(self, path: str, body: Mapping[str, Any], decode: Any) -> Any:
        if not self._bucket.allow():
            raise Unverified("too many callers at once are unknown to us: try again in a second")
        try:
            return await self._kube.create(path, body, decode)
        except KubeError as error:
            raise Unverified(f"the API server did not say who may ask: {error}") from error


def _identity(user: _ReviewedUser) -> Identity:
    extra = tuple((key, tuple(values)) for key, values in sorted((user.extra or {}).items()))
    return Identity(user.username, tuple(user.groups or ()), Proof.TOKEN_REVIEW, user.uid, extra)
