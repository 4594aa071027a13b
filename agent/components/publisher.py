"""Writes `status.components` of the agent's own Machine, and only when it changes.

Changes within a moment become one write. The list is written as a whole, with the resourceVersion
that it was compared with. The only other writer is another agent of the same name.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence

import msgspec

from kubenode.runtime.clock import Clock
from kubenode.runtime.components.wire import WireComponentStatus, WireMachine
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, KubeError, NotFound
from kubenode.runtime.kube.objects import structs
from kubenode.runtime.kube.paths import custom
from kubenode.runtime.rate import Backoff, Spread

log = logging.getLogger(__name__)

PLURAL = "machines"
GATHER_SECONDS = 0.5
RETRY_LOW, RETRY_HIGH = 0.5, 60.0

decode_machine = structs(WireMachine)


class StatusPublisher:
    """Part: publishes the statuses of components.

    machine: returns the newest known Machine; None for none
    """

    name = "components-status"

    def __init__(
        self,
        kube: Kube,
        agent: str,
        machine: Callable[[], WireMachine | None],
        clock: Clock,
        *,
        gather: float = GATHER_SECONDS,
        spread: Spread = random.random,
    ) -> None:
        self._kube, self._path, self._machine = kube, custom(PLURAL, agent, "status"), machine
        self._clock, self._gather = clock, gather
        self._wanted: list[WireComponentStatus] | None = None
        self._written: WireMachine | None = None
        self._news = asyncio.Event()
        self._backoff = Backoff(RETRY_LOW, RETRY_HIGH, spread)

    def tell(self, components: Sequence[WireComponentStatus]) -> None:
        """Set the statuses to publish. Never blocks."""
        if components != self._wanted:
            self._wanted = list(components)
            self._news.set()

    def wake(self) -> None:
        """Compare again, because the Machine changed: another writer, or a new object."""
        self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            await self._clock.sleep(self._gather)
            self._news.clear()
            if not await self.write():
                self._news.set()
                await self._clock.sleep(self._backoff.next())

    async def write(self) -> bool:
        """Write the statuses if they differ; return whether nothing remains to be written."""
        machine = self._newest()
        if machine is None or self._wanted is None or machine.status.components == self._wanted:
            return True
        wanted = self._wanted
        body = {
            "metadata": {"resourceVersion": machine.metadata.resource_version},
            "status": {"components": msgspec.to_builtins(wanted)},
        }
        try:
            self._written = await self._kube.patch(self._path, body, decode=decode_machine)
        except NotFound:
            return True  # written once the Machine exists again
        except Conflict:
            self._written = None
            return False
        except KubeError as error:
            log.warning("components are not told", extra={"error": str(error)})
            return False
        self._backoff.reset()
        return True

    def _newest(self) -> WireMachine | None:
        """Return the newer of the watched Machine and the response to the agent's own last
        write.
        """
        watched, written = self._machine(), self._written
        if watched is None or written is None or watched.metadata.uid != written.metadata.uid:
            return watched
        return max(watched, written, key=lambda machine: _number(machine.metadata.resource_version))


def _number(version: str) -> int:
    """Return the resourceVersion as a number. It is decimal and comparable (Kubernetes 1.35)."""
    return int(version) if version.isdecimal() else 0
