"""Renews the agent's Lease, which shows that the agent lives and on which boot.

The Lease is `kubenode-agents/AGENT`, renewed every 10 s. The annotation `kubenode.io/boot-id` has
the boot ID for hosts without a kubelet. `kubenode.io/clock-offset` has the seconds by which the
host's clock is ahead of the API server's. A missed renewal is not retried: readers judge by the
Lease's age, and the next renewal follows.
"""

import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime

from agent.host import Host
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, KubeError, NotFound
from kubenode.runtime.kube.paths import lease, leases
from kubenode.runtime.rate import Spread

log = logging.getLogger(__name__)

NAMESPACE = "kubenode-agents"
BOOT_ID_ANNOTATION = "kubenode.io/boot-id"
CLOCK_OFFSET_ANNOTATION = "kubenode.io/clock-offset"
EVERY_SECONDS = 10.0
JITTER = 0.1
"""Share of the interval, in both directions: 10,000 agents must not renew at the same time."""
LEASE_SECONDS = 40
"""Four renewals, as for the kubelet's Lease."""


class Heartbeat:
    """Part: renews the Lease until cancelled.

    renewed: called once, after the first success
    offset: returns the seconds by which the host's clock is ahead of the API server's; None:
        unknown
    """

    name = "heartbeat"

    def __init__(
        self,
        kube: Kube,
        host: Host,
        agent: str,
        clock: Clock,
        *,
        every: float = EVERY_SECONDS,
        spread: Spread = random.random,
        renewed: Callable[[], None] | None = None,
        offset: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._kube = kube
        self._host = host
        self._agent = agent
        self._clock = clock
        self._every = every
        self._spread = spread
        self._failing = ""
        self._renewed = renewed
        self._offset = offset

    async def run(self) -> None:
        while True:
            await self.beat()
            await self._clock.sleep(self._every * (1 - JITTER + 2 * JITTER * self._spread()))

    async def beat(self) -> None:
        """Renew once. Log a failure unless its text is the same as before."""
        try:
            await self._renew()
        except KubeError as error:
            if (text := str(error)) != self._failing:
                self._failing = text
                log.warning("the agent's lease was not renewed", extra={"error": text})
            return
        if self._renewed is not None:
            self._renewed()
            self._renewed = None
        if self._failing:
            self._failing = ""
            log.info("the agent's lease is renewed again")

    async def _renew(self) -> None:
        annotations = self._annotations()
        fresh = self._lease(annotations)
        try:
            await self._kube.patch(lease(NAMESPACE, self._agent), fresh)
        except NotFound:
            present = {key: value for key, value in annotations.items() if value is not None}
            fresh["metadata"] = {"name": self._agent, "annotations": present}
            try:
                await self._kube.create(leases(NAMESPACE), fresh)
            except AlreadyExists:
                return  # created by an earlier request whose response was lost; renewed next time

    def _annotations(self) -> dict[str, str | None]:
        """Return the annotations; None removes one."""
        offset = self._offset()
        offset_text = None if offset is None else str(round(offset))
        return {BOOT_ID_ANNOTATION: self._host.boot_id(), CLOCK_OFFSET_ANNOTATION: offset_text}

    def _lease(self, annotations: dict[str, str | None]) -> dict[str, dict[str, object]]:
        return {
            "metadata": {"annotations": annotations},
            "spec": {
                "holderIdentity": self._agent,
                "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": micro_time(self._clock.now()),
            },
        }


def micro_time(at: datetime) -> str:
    """Format a metav1.MicroTime: RFC 3339 with exactly six digits of a second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
