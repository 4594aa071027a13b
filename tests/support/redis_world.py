"""Several Kube Defenders on one record and one real Redis; time stands still until stepped.

The record is in memory, with its levers; Redis is a redis-server, with its own. Each replica has a
fence of its own: `leader` says who holds the lease.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from redis.asyncio import Redis
from support.defender_world import World

from defender.replicas.charge.record import RecordStore
from defender.replicas.charge.replicas import Shared
from defender.replicas.charge.step import AnswerSource, CoordinationTimes
from defender.replicas.redis.client import RedisAddress, connect
from defender.replicas.redis.log import SharedLog
from defender.server.store import PermitStore
from defender.service import Defender
from kubenode.api.v1alpha1 import DefenderPolicy, Permit
from kubenode.runtime.fence import Fence, LeaseLost
from kubenode.runtime.kube.informer import Informer

NAMESPACE = "kubenode-system"
TIMES = CoordinationTimes()


class Lever:
    """A fence that the test opens and closes."""

    def __init__(self) -> None:
        self.term: int | None = None

    def check(self) -> int:
        if self.term is None:
            raise LeaseLost("another leads")
        return self.term


class SharedWorld(World):
    """`defenders` are the replicas; the first one leads, unless `leads` says otherwise."""

    def __init__(
        self, url: str, replicas: int = 2, nodes: int = 10, policies: Sequence[DefenderPolicy] = ()
    ) -> None:
        self._url, self._terms = url, 0
        self.fences: list[Lever] = []
        self.charges: list[Shared] = []
        self.defenders: list[Defender] = []
        self._clients: list[Redis] = []
        super().__init__(nodes, *policies)
        self.api.listeners.clear()
        for _ in range(replicas):
            self.replica()
        self.leads(0)

    def replica(self, number: int | None = None) -> Defender:
        """One more, or a new process in the place of one that is gone with all that it knew."""
        fence = Lever()
        client = connect(RedisAddress(self._url))
        log = SharedLog(client, "test")

        def charge(store: PermitStore, fence: Fence, permits: Informer[Permit]) -> Shared:
            recorder = RecordStore(self.api, NAMESPACE)
            return Shared(store, fence, permits, log, recorder, self.clock, TIMES)

        defender = self._new(fence, charge=charge)
        defender.control.breakers.loaded = True  # no part of it runs here
        made = defender.charge
        assert isinstance(made, Shared)
        self._clients.append(client)
        if number is None:
            self.fences.append(fence)
            self.charges.append(made)
            self.defenders.append(defender)
        else:
            self._leave(self.defenders[number])
            self.fences[number], self.charges[number] = fence, made
            self.defenders[number] = defender
        return defender

    def _leave(self, gone: Defender) -> None:
        """Its informers hear nothing any more."""
        for informer in (gone.nodes, gone.permits, gone.policies, gone.jobs):
            self.deafen(informer)

    def leads(self, number: int | None) -> None:
        self._terms += 1
        for i, fence in enumerate(self.fences):
            fence.term = self._terms if i == number else None

    async def rounds(self, seconds: float = 0.0, every: float = 0.5) -> None:
        """Every replica looks around, again and again, as time passes."""
        await self._round()
        for _ in range(round(seconds / every)):
            self.step(seconds=every)
            await self._round()

    async def _round(self) -> None:
        for charge in self.charges:
            await charge.round()

    async def until(self, answers: AnswerSource, *numbers: int, seconds: float = 60.0) -> None:
        """Let time pass until these replicas, or all, answer by this."""
        chosen = [self.charges[i] for i in numbers] or self.charges
        for _ in range(round(seconds / 0.5)):
            await self.rounds()
            if all(charge.answers() is answers and not charge.why_not() for charge in chosen):
                return
            self.step(seconds=0.5)
        raise AssertionError([(c.answers(), c.why_not(), c.state.phase) for c in chosen])

    def current(self, yes: bool = True) -> None:
        for defender in self.defenders:
            hand_fed: Any = (defender.nodes, defender.permits, defender.policies, defender.jobs)
            for informer in hand_fed:
                informer.current(yes)

    def step(self, **time: float) -> None:
        self.clock.step(timedelta(**time))
        self.current()

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()
