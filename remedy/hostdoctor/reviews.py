"""Resolves the service account tokens of agents: a DaemonSet's pods have no certificates of their
own.

The API server returns the owner of a token and the node of its pod. Answers are cached for a
minute, by the token's digest only; the rate of requests is bounded, so that made-up tokens do not
use up the requests that the operator needs.
"""

from collections import OrderedDict
from hashlib import sha256
from typing import Any

import msgspec

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.rate import TokenBucket

ACCOUNT = "system:serviceaccount:kubenode-agents:kubenode-agent"
"""Service account of the DaemonSet in charts/kubenode/agent."""
NODE_CLAIM = "authentication.kubernetes.io/node-name"
PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
SECONDS = 60.0
MOST = 16_384
RATE, BURST = 50.0, 200.0


class TokenUnverified(Exception):
    """The API server did not answer now."""


class _TokenUser(msgspec.Struct):
    username: str = ""
    extra: dict[str, list[str]] | None = None


class _TokenReviewStatus(msgspec.Struct):
    authenticated: bool = False
    audiences: list[str] | None = None
    user: _TokenUser = msgspec.field(default_factory=_TokenUser)


class _ReviewAnswer(msgspec.Struct):
    status: _TokenReviewStatus = msgspec.field(default_factory=_TokenReviewStatus)


_decode = msgspec.json.Decoder(_ReviewAnswer).decode


class TokenReviews:
    """Resolves tokens. `audience`: required audience of tokens; "" is the API server itself."""

    def __init__(self, kube: Kube, clock: Clock, audience: str = "") -> None:
        self._kube, self._clock, self._audience = kube, clock, audience
        self._known: OrderedDict[bytes, tuple[float, str]] = OrderedDict()
        self._bucket = TokenBucket(RATE, BURST, clock)

    async def agent(self, token: str) -> str:
        """Return the agent with this token, which is its node's name; "" for none. Raises
        TokenUnverified.
        """
        digest = sha256(token.encode(errors="replace")).digest()
        until, agent = self._known.get(digest, (0.0, ""))
        now = self._clock.monotonic()
        if now < until:
            return agent
        if not self._bucket.allow():
            raise TokenUnverified("too many tokens at once are unknown to us")
        agent = await self._ask(token)
        self._known[digest] = (now + SECONDS, agent)
        self._known.move_to_end(digest)
        if len(self._known) > MOST:
            self._known.popitem(last=False)
        return agent

    async def _ask(self, token: str) -> str:
        spec: dict[str, Any] = {"token": token}
        if self._audience:
            spec["audiences"] = [self._audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        try:
            status = (await self._kube.create(PATH, body, _decode)).status
        except KubeError as error:
            raise TokenUnverified(
                f"the API server did not say whose token it is: {error}"
            ) from error
        # A server without audiences returns none: the token is for the API server.
        if self._audience and self._audience not in (status.audiences or ()):
            return ""
        claimed = (status.user.extra or {}).get(NODE_CLAIM) or [""]
        ours = status.authenticated and status.user.username == ACCOUNT
        return claimed[0] if ours and len(claimed) == 1 else ""
