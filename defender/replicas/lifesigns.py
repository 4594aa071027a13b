"""Check whether hosts run although their kubelets are silent, when many are silent at once.

Agents renew Leases of their own, and agents and providers answer probes. Ten thousand Leases cause
a thousand writes a second, so they are listed on suspicion and not watched. A host runs if its
Lease changed between two lists; the clock that wrote it does not matter.
"""

import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta

import msgspec

from defender.decision.control import RiskControl
from kubenode.api.v1alpha1 import HostProbe
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.lists import decoded
from kubenode.runtime.kube.objects import KubeObjectMeta, Lease, structs

log = logging.getLogger(__name__)

EVERY = timedelta(seconds=15)
"""Interval of checks. Agents renew their Leases every 10 s."""
NAMESPACE = "kubenode-agents"
MACHINE = "kubenode.io/machine"
"""Annotation of a node with the name of its host's agent, if that is not the node's name."""
NEVER = datetime(1970, 1, 1, tzinfo=UTC)
"""Sign of life of a host whose Lease did not change."""


class ProbeViewSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class ProbeViewStatus(msgspec.Struct, rename="camel"):
    answered_at: datetime | None = None
    error: str = ""


class ProbeView(msgspec.Struct):
    """The fields of a HostProbe that are needed."""

    metadata: KubeObjectMeta
    spec: ProbeViewSpec = msgspec.field(default_factory=ProbeViewSpec)
    status: ProbeViewStatus = msgspec.field(default_factory=ProbeViewStatus)


_lease, _probe = structs(Lease), structs(ProbeView)


class LifeSigns:
    """A part that runs on every replica.

    current: returns whether the cache of nodes is fresh.
    """

    name = "life signs of hosts"

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        control: RiskControl,
        current: Callable[[], bool],
        every: timedelta = EVERY,
    ) -> None:
        self._kube, self._clock, self._control = kube, clock, control
        self._current, self._every = current, every
        self._renewed: dict[str, datetime] = {}

    async def run(self) -> None:
        while True:
            await self.check_hosts()
            await self._clock.sleep(self._every.total_seconds())

    async def check_hosts(self) -> None:
        """Check once. What cannot be read is checked again the next time."""
        breakers = self._control.breakers
        silent = breakers.suspicious() if self._current() else ()
        if not silent or breakers.control_path.frozen is not None:
            self._renewed.clear()
            return
        names = set(silent)
        try:
            renewed = {
                lease.metadata.name: lease.spec.renew_time
                async for lease in decoded(self._kube, paths.leases(NAMESPACE), _lease)
                if lease.spec.renew_time is not None
            }
            path = paths.custom(HostProbe.resource.plural)
            answered = dict[str, datetime]()
            async for probe in decoded(self._kube, path, _probe):
                _note_answer(probe, names, answered)
        except KubeError as error:
            log.warning("hosts' signs of life cannot be read", extra={"why": str(error)})
            return
        now = self._clock.now()
        breakers.evaluate_signs(self._signs(renewed, names, now) | answered, now)

    def _signs(
        self, renewed: dict[str, datetime], nodes: Collection[str], now: datetime
    ) -> dict[str, datetime]:
        """Return when each silent node was last alive, if its Lease was in the list before as
        well.
        """
        signs = dict[str, datetime]()
        for node in nodes:
            agent = self._agent_of(node)
            if agent in renewed and agent in self._renewed:
                signs[node] = now if renewed[agent] != self._renewed[agent] else NEVER
        self._renewed = renewed
        return signs

    def _agent_of(self, name: str) -> str:
        node = self._control.census.node(name)
        return (node.metadata.annotations.get(MACHINE) if node is not None else None) or name


def _note_answer(probe: ProbeView, nodes: Collection[str], answered: dict[str, datetime]) -> None:
    """Record the latest answer about each of these nodes."""
    node, at = probe.spec.node_name, probe.status.answered_at
    if node in nodes and at is not None and not probe.status.error:
        answered[node] = max(at, answered.get(node, at))
