"""Reviews by the API server: whose token it is (TokenReview), and the requests of other reviews.

Tokens are cached by their digest only. The rate of reviews is bounded, so that invalid tokens
cannot use up the requests that the program needs.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.rate import TokenBucket
from kubenode.runtime.responses import ResponseCache

RATE, BURST = 50.0, 200.0
"""Reviews per second of one program, and at once."""
LONGEST_TOKEN = 16 * 1024
TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"


class Unverified(Exception):
    """It cannot be determined now who calls or what it may do: the caller is rejected for now."""


class ReviewedUser(msgspec.Struct, frozen=True):
    """The user of a token, as the API server names it."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: ReviewedUser = msgspec.field(default_factory=ReviewedUser)
    audiences: list[str] | None = None


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


_decode = msgspec.json.Decoder(_TokenReview).decode


class ReviewClient:
    """Sends reviews to the API server at a bounded rate."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube, self._bucket = kube, TokenBucket(RATE, BURST, clock)

    async def send(self, path: str, body: Mapping[str, Any], decode: Any) -> Any:
        """Return the decoded answer. Raises Unverified."""
        if not self._bucket.allow():
            raise Unverified("too many callers at once are unknown: try again in a second")
        try:
            return await self._kube.create(path, body, decode)
        except KubeError as error:
            raise Unverified(
                f"the API server did not answer the {body['kind']}: {error}"
            ) from error


class TokenReviewer:
    """Resolves bearer tokens to users.

    audience: required audience of tokens; "" is the API server itself.
    seconds: how long an answer is valid, so how long a revoked token works.
    most: greatest number of cached answers.
    """

    def __init__(
        self, client: ReviewClient, clock: Clock, *, audience: str, seconds: float, most: int
    ) -> None:
        self._client, self._audience = client, audience
        self._users: ResponseCache[bytes, ReviewedUser | None]
        self._users = ResponseCache(clock, seconds=seconds, most=most)

    async def user(self, token: str) -> ReviewedUser | None:
        """Return the user of the token, None for an invalid token. Raises Unverified."""
        if not token or len(token) > LONGEST_TOKEN:
            return None
        digest = sha256(token.encode(errors="replace")).digest()
        return await self._users.get(digest, lambda: self._review(token))

    async def _review(self, token: str) -> ReviewedUser | None:
        spec: dict[str, Any] = {"token": token}
        if self._audience:
            spec["audiences"] = [self._audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        status = (await self._client.send(TOKENS, body, _decode)).status
        # A server without audience support returns none: the token is for the API server only.
        if self._audience and self._audience not in (status.audiences or ()):
            return None
        if not status.authenticated or not status.user.username:
            return None
        user: ReviewedUser = status.user
        return user
