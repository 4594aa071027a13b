"""Detection of a meltdown: so much is wrong at once that our observation, not the machines, is
doubtful.

During a meltdown nothing is deleted or replaced, no batch starts and no act disrupts. Uncordoning,
certificates and corrections without disruption continue. Kube Defender's breaker does the same for
acts on nodes that it knows; this part covers what Machines alone show. Causes:

- a stale cache: the API server has not proven it current for 60 s.
- Leases that stop together: more than 20 % and at least 3 agents, within 120 s.
- a provider that lists no instance, though Machines have one.

A meltdown ends by itself 300 s after its last cause, and then one replacement goes first. A restore
of etcd from a backup has the same effect until a person lifts it (kubenode.runtime.restore).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinework import ChangeClass
from kubenode.runtime.clock import Clock
from kubenode.runtime.disruption.guard import never_frozen
from kubenode.runtime.kube.informer import Informer
from machine.bootstrap.lifesigns import STALE_SECONDS, AgentLease

log = logging.getLogger(__name__)

FEWEST = 3
"""Least number of Leases for a conclusion."""


@dataclass(frozen=True, slots=True)
class MeltdownTimes:
    """Times in seconds, and the share of agents.

    silent: age after which a cache is stale.
    stale: time without renewal after which an agent's Lease is stale.
    together: Leases that become stale within this time stopped together.
    share: the share of agents that may stop together without a meltdown.
    thaw: time from the end of the last cause to the first act, and again until normal operation.
    check_interval: interval of checks.
    """

    silent: float = 60.0
    stale: float = STALE_SECONDS
    together: float = 120.0
    share: float = 0.2
    thaw: float = 300.0
    check_interval: float = 5.0


@dataclass(slots=True)
class _LeaseChange:
    """The last change of a Lease.

    at: monotonic time of the change.
    moved: whether a change was observed. A Lease from before the start proves nothing yet.
    """

    at: float
    moved: bool


class Meltdown:
    """A part that detects meltdowns. It checks periodically, so that a short fault is not missed.

    caches: caches whose staleness is a cause.
    machines: Machines whose agents count.
    expected: returns whether the Machine's agent is silent because of our own act.
    restored: returns why a restore of etcd freezes, "" if none does.
    """

    name = "meltdown"

    def __init__(
        self,
        clock: Clock,
        caches: Sequence[Informer[Any]],
        machines: Mapping[str, Machine],
        expected: Callable[[Machine], bool] = lambda machine: False,
        pace: MeltdownTimes | None = None,
        restored: Callable[[], str] = never_frozen,
    ) -> None:
        self._restored = restored
        self.pace = pace or MeltdownTimes()
        self._clock, self._caches, self._machines = clock, caches, machines
        self._expected = expected
        self._lease_changes: dict[str, _LeaseChange] = {}
        self._empty: dict[str, str] = {}
        self._why, self._until = "", float("-inf")
        self._first, self._unproven = "", ""
        self._looked = float("-inf")

    # -- what is asked ------------------------------------------------------------------------

    def frozen(self) -> str:
        """Return why nothing may be deleted, replaced or disrupted now, "" if it may."""
        if (unfilled := self._unfilled()) is not None:
            return f"the cache of {unfilled.name} is not filled yet"
        self.check_causes()
        if why := self._restored():
            return why
        return self._why if self._clock.monotonic() < self._until else self._unproven

    def claim_replacement(self, machine: str) -> str:
        """Return why the Machine must not be replaced, "" if it may.

        After a meltdown one Machine goes first: the first one for which "" is returned. Therefore
        call this right before the act.

        machine: UID of the Machine.
        """
        if why := self.frozen():
            return why
        if self._clock.monotonic() < self._until + self.pace.thaw and self._why:
            self._first = self._first or machine
            if self._first != machine:
                return f"after a freeze ({self._why}) one machine is replaced before others"
        return ""

    @property
    def requeue_after(self) -> float:
        """Seconds until the answers may change with time alone."""
        now = self._clock.monotonic()
        ends = (self._until, self._until + self.pace.thaw)
        return min((end - now for end in ends if end > now), default=self.pace.check_interval)

    # -- what is seen -------------------------------------------------------------------------

    def lease_changed(self, key: str, old: AgentLease | None, new: AgentLease | None) -> None:
        """Record a change of an agent's Lease. A deleted Lease counts as one that stopped."""
        name, now = key.rpartition("/")[2], self._clock.monotonic()
        if new is None:
            return
        if old is None or name not in self._lease_changes:
            self._lease_changes[name] = _LeaseChange(now, moved=self._unfilled() is None)
        elif old.spec.renew_time != new.spec.renew_time:
            self._lease_changes[name] = _LeaseChange(now, moved=True)

    def listed(self, source: str, instances: int, known: int) -> None:
        """Record a provider's list.

        instances: number of instances in the list.
        known: number of Machines that have an instance of this provider.
        """
        if instances == 0 and known > 0:
            self._empty[source] = f"{source} lists no instance, but {known} Machines have one"
        else:
            self._empty.pop(source, None)
        self.check_causes(now=True)

    async def run(self) -> None:
        while True:
            self.check_causes()
            await self._clock.sleep(self.pace.check_interval)

    def check_causes(self, *, now: bool = False) -> None:
        """Check for causes, at most once a second.

        now: check also within the second.
        """
        at = self._clock.monotonic()
        if not now and at < self._looked + 1:
            return
        self._looked = at
        was, counted = at < self._until, self._counted(at)
        self._unproven = self._doubt(at, counted)
        why = self._silent() or self._stopped(at, counted) or next(iter(self._empty.values()), "")
        if why:
            self._why, self._until, self._first = why, at + self.pace.thaw, ""
            if not was:
                log.warning("frozen: nothing is deleted, replaced or disrupted", extra={"why": why})

    def _silent(self) -> str:
        for cache in self._caches:
            if cache.synced.is_set() and cache.age() > self.pace.silent:
                return (
                    f"the API server has not proven the cache of {cache.name} current for"
                    f" {self.pace.silent:g} s"
                )
        return ""

    def _unfilled(self) -> Informer[Any] | None:
        return next((cache for cache in self._caches if not cache.synced.is_set()), None)

    def _stopped(self, now: float, counted: list[_LeaseChange]) -> str:
        since = now - self.pace.stale
        gone = sum(since - self.pace.together < change.at <= since for change in counted)
        if gone < FEWEST or gone <= self.pace.share * len(counted):
            return ""
        return (
            f"over {self.pace.share:.0%} of {len(counted)} agents stopped to renew their Leases"
            f" within {self.pace.together:g} s"
        )

    def _doubt(self, now: float, counted: list[_LeaseChange]) -> str:
        """Return why the agents' liveness is uncertain, "" if it is not.

        After a start, too few Leases may have changed, before any could become stale.
        """
        since = now - self.pace.stale
        unproven = sum(not change.moved and change.at > since for change in counted)
        if unproven < FEWEST or unproven <= self.pace.share * len(counted):
            return ""
        return f"too few of {len(counted)} agents have renewed their Leases since we watch them"

    def _counted(self, now: float) -> list[_LeaseChange]:
        """Return the Leases of Machines whose agents are expected to be alive.

        If fewer than FEWEST of all Leases are in doubt, nothing can follow; this avoids a pass over
        10,000 Machines each second.
        """
        since = now - self.pace.stale
        if (
            sum(change.at <= since or not change.moved for change in self._lease_changes.values())
            < FEWEST
        ):
            return []
        changes = []
        for name in list(self._lease_changes):
            machine = self._machines.get(name)
            if machine is None:
                self._lease_changes.pop(name)
            elif not by_our_doing(machine) and not self._expected(machine):
                changes.append(self._lease_changes[name])
        return changes


def by_our_doing(machine: Machine) -> bool:
    """Return whether the Machine's agent may be silent because of our own act.

    The Machine is being deleted or replaced, or may reboot. Its silence says nothing about others.
    """
    spec = machine.spec
    return (
        machine.metadata.deletion_timestamp is not None
        or spec.operation is not None
        or (spec.permit is not None and spec.permit.max_disruption is ChangeClass.REBOOT)
    )
