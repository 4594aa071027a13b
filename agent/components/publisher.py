"""`status.components` of the own Machine: written only when it says something else than before.

Several changes in a moment are one write. The list is written whole, under the resourceVersion it
was compared with: the one other writer there can be is another agent of this name.
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
    """A Part.

    machine  the newest that is known, None for none
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
        """What it shall say from now on. Never blocks."""
        if components != self._wanted:
            self._wanted = list(components)
            self._news.set()

    def wake(self) -> None:
        """The Machine changed: perhaps somebody wrote what is ours, or it was made anew."""
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
        """Whether nothing is left to write."""
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
            return True  # told again when there is one
        except Conflict:
            self._written = None
            return False
        except KubeError as error:
            log.warning("components are not told", extra={"error": str(error)})
            return False
        self._backoff.reset()
        return True

    def _newest(self) -> WireMachine | None:
        """Of what is watched and what our own last write answered."""
        watched, written = self._machine(), self._written
        if watched is None or written is None or watched.metadata.uid != written.metadata.uid:
            return watched
        return max(watched, written, key=lambda machine: _number(machine.metadata.resource_version))


def _number(version: str) -> int:
    """resourceVersions are decimal and comparable (Kubernetes 1.35)."""
    return int(version) if version.isdecimal() else 0
