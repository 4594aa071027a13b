"""Clusters that share limits over one real Redis, each with its own API server, all in one time.

Each has one Kube Defender. `cut` keeps a cluster from Redis; its own API server it always reaches.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from redis.asyncio import Redis
from support.clock import FakeClock
from support.defender_world import World, an_ask

from defender.client import DefenderUnreachable
from defender.decision.control import RiskControl
from defender.decision.fleet_view import FleetGroup
from defender.replicas.charge.charge import Charge, MakeCharge
from defender.replicas.charge.note import NoteStore
from defender.replicas.fleet.budget import ANNOTATION, NAME, FleetSharing, MakeFleet
from defender.replicas.fleet.departure import ANNOTATION as DEPARTURE
from defender.replicas.redis.client import RedisAddress, connect
from defender.replicas.redis.log import Away, SharedLog
from defender.service import Defender
from kubenode.api.v1alpha1 import DefenderPolicy, Verdict
from kubenode.runtime.fence import Fence

NAMESPACE = "kubenode-system"
CALLS = ("probe", "begin", "sync", "take", "put", "trim")


class CuttableLog:
    """A SharedLog whose way to Redis can be cut."""

    def __init__(self, log: SharedLog, cluster: "Cluster") -> None:
        self._log, self._cluster = log, cluster

    def __getattr__(self, name: str) -> Any:
        assert name in CALLS
        call = getattr(self._log, name)

        async def perhaps(*args: Any, **kwargs: Any) -> Any:
            if self._cluster.cut:
                raise Away("cut off")
            return await call(*args, **kwargs)

        return perhaps


class Cluster(World):
    def __init__(
        self, name: str, redis: Redis, clock: FakeClock, nodes: int, policy: DefenderPolicy
    ) -> None:
        self.name, self._redis, self.cut, self.asked = name, redis, False, 0
        super().__init__(0, policy)
        self.clock = self.api.clock = clock
        self.api.listeners.clear()
        for i in range(nodes):
            self.node(f"n{i}")
        self.defender = self._new()

    def _new(
        self,
        fence: Fence | None = None,
        behind: bool = False,
        charge: MakeCharge | None = None,
        fleet: MakeFleet | None = None,
    ) -> Defender:
        def shared(control: RiskControl, charge: Charge, fence: Fence) -> FleetSharing:
            def make(group: str) -> Any:
                return CuttableLog(SharedLog(self._redis, f"fleet:{group}"), self)

            note = NoteStore(self.api, NAMESPACE, NAME, ANNOTATION)
            departures = NoteStore(self.api, NAMESPACE, NAME, DEPARTURE)
            return FleetSharing(
                control, charge, fence, self.clock, note, make, self.name, departures
            )

        return super()._new(fence, behind, charge, fleet or shared)

    @property
    def sharing(self) -> FleetSharing:
        found = self.defender.fleet
        assert isinstance(found, FleetSharing)
        return found

    def group(self, name: str = "prod") -> FleetGroup:
        return self.sharing.view.groups[name]

    async def ask(self, **change: Any) -> Verdict:
        """For the next node that has no permit."""
        taken = {permit.spec.node_name for permit in self.api.open_permits()}
        names = [name for name in self.defender.nodes.cache if name not in taken]
        self.asked += 1
        return await self.defender.ask(
            an_ask(names[self.asked % len(names)], kind="Test", **change)
        )

    async def release(self, which: int = 0) -> None:
        held = sorted(permit.metadata.name for permit in self.api.open_permits())
        if held:
            try:
                await self.defender.release(held[which % len(held)])
            except DefenderUnreachable:
                return

    @property
    def held(self) -> int:
        return len(self.api.open_permits())


class Fleet:
    def __init__(
        self, url: str, policy: DefenderPolicy, sizes: Sequence[int] = (100, 100, 100)
    ) -> None:
        self.clock = FakeClock()
        self._redis = connect(RedisAddress(url, seconds=2.0))
        self.clusters = [
            Cluster(f"c{i}", self._redis, self.clock, size, policy) for i, size in enumerate(sizes)
        ]

    async def start(self) -> None:
        for cluster in self.clusters:
            await cluster.start()
        await self.beats(6)

    async def beats(self, count: int = 1) -> None:
        """A second each, in which every cluster tells the others of itself."""
        for _ in range(count):
            self.clock.step(timedelta(seconds=1))
            for cluster in self.clusters:
                cluster.current()
                await cluster.sharing.round()

    @property
    def held(self) -> int:
        return sum(cluster.held for cluster in self.clusters)

    async def close(self) -> None:
        await self._redis.aclose()
