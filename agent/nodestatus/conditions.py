"""Publishes the conditions in the Node's status: changes at once, and periodic renewals.

One strategic merge patch contains all that is due. Its response is the Node with its UID, which the
agent may not read otherwise. After the Node was created again, all conditions are published again.
"""

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable

import msgspec

from agent.nodestatus import form
from agent.nodestatus.board import ConditionBoard, ReportNews
from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.paths import node as node_path
from kubenode.runtime.rate import Backoff, Spread, TokenBucket

log = logging.getLogger(__name__)

RENEW_SECONDS = 300.0
"""As node-problem-detector. Rules trust a condition for 15 min, so two renewals may be missed."""
JITTER = 0.1
RATE, BURST = 0.5, 10.0
START_SECONDS = 2.0
"""Delay of the first renewal, so that detectors can check before UNKNOWN is published."""
RETRY_LOW, RETRY_HIGH = 0.5, 30.0


class _Metadata(msgspec.Struct):
    uid: str = ""


class _OwnNode(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_OwnNode).decode


class NodeStatusWriter:
    """Writes the status of the agent's own Node. uid: "" until the first response."""

    def __init__(self, kube: Kube, node: str) -> None:
        self._kube, self._path = kube, node_path(node, "status")
        self.name = node
        self.uid = ""

    async def patch(self, body: dict[str, object]) -> bool:
        """Patch the status; return whether the Node is a new object. Raises KubeError."""
        answer = await self._kube.patch(self._path, body, STRATEGIC_PATCH, _decode)
        new = self.uid != "" and self.uid != answer.metadata.uid
        self.uid = answer.metadata.uid
        return new


class ConditionTeller:
    """Part: publishes conditions. Call `notify` after each change; it calls `save` before
    publishing.
    """

    name = "conditions"

    def __init__(
        self,
        board: ConditionBoard,
        status: NodeStatusWriter,
        clock: Clock,
        save: Callable[[], Awaitable[None]],
        *,
        rate: float = RATE,
        burst: float = BURST,
        renew: float = RENEW_SECONDS,
        spread: Spread = random.random,
    ) -> None:
        self._board, self._status, self._clock, self._save = board, status, clock, save
        self._bucket = TokenBucket(rate, burst, clock)
        self._renew, self._spread = renew, spread
        self._backoff = Backoff(RETRY_LOW, RETRY_HIGH, spread)
        self._woken = asyncio.Event()
        self._due = math.inf
        self._renew_at = clock.monotonic() + START_SECONDS
        self._trouble = ""

    def notify(self, news: ReportNews) -> None:
        if news is ReportNews.STATE:
            self._due = self._clock.monotonic()
        elif news is ReportNews.UNSEEN:
            self._due = min(self._due, self._clock.monotonic() + START_SECONDS)
        else:
            return
        self._woken.set()

    async def run(self) -> None:
        while True:
            now = self._clock.monotonic()
            if (at := min(self._due, self._renew_at)) > now:
                self._woken.clear()
                await wait(self._clock, self._woken, at - now)
                continue
            await self._bucket.take()
            if not await self.tell():
                await self._clock.sleep(self._backoff.next())

    async def tell(self) -> bool:
        """Publish what is due; return whether it succeeded. An error is logged once."""
        now = self._clock.monotonic()
        whole = now >= self._renew_at
        conditions = self._board.renewable() if whole else self._board.untold()
        self._due = math.inf
        if conditions:
            await self._save()
            try:
                new = await self._status.patch(form.conditions(conditions, self._clock.now()))
            except KubeError as error:
                self._due = self._clock.monotonic()
                self._note(str(error))
                return False
            self._board.mark_published(conditions)
            if new:
                self._board.forget_published()
                self._due = self._clock.monotonic()
        if whole:
            self._renew_at = now + self._renew * (1 - JITTER + 2 * JITTER * self._spread())
        self._backoff.reset()
        self._note("")
        return True

    def _note(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.warning("conditions wait for the API server", extra={"error": trouble})
        elif self._trouble and not trouble:
            log.info("conditions are told again")
        self._trouble = trouble
