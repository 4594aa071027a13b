"""Reads the Leases of programs and agents, and whether there are Machines, now and then.

Ten thousand agents renew a thousand Leases a second, so Leases are listed and not watched. The age
of a Lease is measured by the clock of this process from the time at which it was read changed; only
for the first reading it is computed from the time that its holder wrote.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from defender.overview.programs import EVERYTHING, MACHINE, NO_SIGHT, REMEDY, ProgramSight
from defender.replicas.lifesigns import NAMESPACE as AGENTS
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound
from kubenode.runtime.kube.lists import decoded
from kubenode.runtime.kube.objects import Lease, structs

log = logging.getLogger(__name__)

READ_SECONDS = 15.0
AGENTS_SECONDS = 60.0
"""Seconds between two lists of the agents' Leases, which agents renew every 10 s."""
AGENT_GONE_SECONDS = 150.0
"""Age of an agent's Lease from which on the agent counts as gone."""
_lease = structs(Lease)


@dataclass(slots=True)
class RenewalAges:
    """Ages of Leases, each by (renew time, monotonic time of the change, age at that time)."""

    _changes: dict[str, tuple[datetime, float, float]] = field(default_factory=dict)

    def update(self, renewed: dict[str, datetime], now: datetime, monotonic: float) -> None:
        """Take in a reading of all Leases."""
        before, self._changes = self._changes, {}
        for name, at in renewed.items():
            known = before.get(name)
            if known is None:
                known = at, monotonic, max(0.0, (now - at).total_seconds())
            elif known[0] != at:
                known = at, monotonic, 0.0
            self._changes[name] = known

    def ages(self, monotonic: float) -> dict[str, float]:
        """Return the age of each Lease in seconds."""
        return {name: age + monotonic - since for name, (_, since, age) in self._changes.items()}


class LeaseReader:
    """A part that runs on every replica.

    namespace: of the leaders' Leases.
    changed: called after each change of `sight`.
    """

    name = "leases of dashboard"

    def __init__(
        self, kube: Kube, clock: Clock, namespace: str, changed: Callable[[], None]
    ) -> None:
        self.sight = NO_SIGHT
        self._kube, self._clock, self._namespace = kube, clock, namespace
        self._changed = changed
        self._leaders, self._agents = RenewalAges(), RenewalAges()
        self._agents_at = float("-inf")
        self._problem = ""

    async def run(self) -> None:
        while True:
            await self.read()
            await self._clock.sleep(READ_SECONDS)

    async def read(self) -> None:
        """Read once. What cannot be read stays as it was read last."""
        try:
            await self._read_leaders()
            if self._clock.monotonic() >= self._agents_at + AGENTS_SECONDS:
                await self._read_agents()
        except KubeError as error:
            if str(error) != self._problem:  # without a right it is the same every time
                log.warning("leases cannot be read", extra={"why": str(error)})
            self._problem = str(error)
        else:
            self._problem = ""

    async def _read_leaders(self) -> None:
        renewed: dict[str, datetime] = {}
        for name in (REMEDY, MACHINE, EVERYTHING):
            try:
                lease = await self._kube.get(paths.lease(self._namespace, name), _lease)
            except NotFound:
                continue
            if lease.spec.holder_identity and lease.spec.renew_time is not None:
                renewed[name] = lease.spec.renew_time
        monotonic = self._clock.monotonic()
        self._leaders.update(renewed, self._clock.now(), monotonic)
        self._publish(replace(self.sight, leases=self._leaders.ages(monotonic)))

    async def _read_agents(self) -> None:
        leases = [each async for each in decoded(self._kube, paths.leases(AGENTS), _lease)]
        monotonic = self._clock.monotonic()
        self._agents.update(_renewed(leases), self._clock.now(), monotonic)
        alive = [n for n, age in self._agents.ages(monotonic).items() if age < AGENT_GONE_SECONDS]
        machines = await self._has_machines()
        self._agents_at = monotonic
        self._publish(replace(self.sight, agents=frozenset(alive), machines=machines))

    async def _has_machines(self) -> bool:
        try:
            page = await self._kube.get(paths.custom("machines"), query={"limit": 1})
        except NotFound:  # a cluster without the kinds of machines
            return False
        return bool(page.get("items"))

    def _publish(self, sight: ProgramSight) -> None:
        if sight != self.sight:
            self.sight = sight
            self._changed()


def _renewed(leases: Iterable[Lease]) -> dict[str, datetime]:
    return {each.metadata.name: at for each in leases if (at := each.spec.renew_time) is not None}
