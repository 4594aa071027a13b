"""Do hosts run whose kubelets fell silent? Asked only when many fell silent at once.

The agents of hosts renew Leases of their own, and probes are answered by agents and providers.
Ten thousand Leases are a thousand writes a second: they are listed on suspicion, never watched. A
host runs if its Lease moved between two lists; whose clock wrote it does not matter.
"""

import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta

import msgspec

from defender.control import RiskControl
from kubenode.api.v1alpha1 import HostProbe
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.objects import Lease, ObjectMeta, structs

log = logging.getLogger(__name__)

EVERY = timedelta(seconds=15)
"""Between two looks; agents renew their Leases every 10 s."""
NAMESPACE = "kubenode-agents"
MACHINE = "kubenode.io/machine"
"""A node's annotation: the name of its host's agent, where that is not the node's own."""
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class Leases(msgspec.Struct):
    items: list[Lease] = []


class ProbeSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class ProbeStatus(msgspec.Struct, rename="camel"):
    answered_at: datetime | None = None
    error: str = ""


class Probe(msgspec.Struct):
    metadata: ObjectMeta
    spec: ProbeSpec = msgspec.field(default_factory=ProbeSpec)
    status: ProbeStatus = msgspec.field(default_factory=ProbeStatus)


class Probes(msgspec.Struct):
    items: list[Probe] = []


_leases, _probes = structs(Leases), structs(Probes)


class LifeSigns:
    """A Part, on every replica.

    current  whether what is known of nodes is up to date
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
            await self.look()
            await self._clock.sleep(self._every.total_seconds())

    async def look(self) -> None:
        """Once. What cannot be read is looked at again the next time."""
        breakers = self._control.breakers
        silent = breakers.suspicious() if self._current() else ()
        if not silent or breakers.control_path.frozen is not None:
            self._renewed.clear()
            return
        names = set(silent)
        try:
            leases = await self._kube.get(paths.leases(NAMESPACE), _leases)
            path = paths.custom(HostProbe.resource.plural)
            probes = await self._kube.get(path, _probes)
        except KubeError as error:
            log.warning("hosts' signs of life cannot be read", extra={"why": str(error)})
            return
        now = self._clock.now()
        breakers.heard(self._signs(leases, names, now) | _answered(probes, names), now)

    def _signs(self, leases: Leases, nodes: Collection[str], now: datetime) -> dict[str, datetime]:
        """Of each silent node with a Lease that was seen before, whether it moved since."""
        renewed = {
            lease.metadata.name: lease.spec.renew_time
            for lease in leases.items
            if lease.spec.renew_time is not None
        }
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


def _answered(probes: Probes, nodes: Collection[str]) -> dict[str, datetime]:
    """The latest answer about each of these nodes."""
    found = dict[str, datetime]()
    for probe in probes.items:
        node, at = probe.spec.node_name, probe.status.answered_at
        if node in nodes and at is not None and not probe.status.error:
            found[node] = max(at, found.get(node, at))
    return found
