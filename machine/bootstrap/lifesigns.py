"""Liveness of agents, by the monotonic time at which their Leases were observed to change.

Clocks of hosts do not matter. A Lease from before the start says nothing until it changes, or has
not changed for the time after which it is stale.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.wire import HeadMeta
from machine.bootstrap.agentready import Lifesign

STALE_SECONDS = 120.0
"""Seconds without a renewal after which an agent counts as dead."""


class AgentLeaseSpec(msgspec.Struct, rename="camel", gc=False):
    renew_time: str | None = ""


class AgentLease(msgspec.Struct, gc=False):
    """A Lease of an agent. `renew_time` is only compared with its earlier value."""

    metadata: HeadMeta
    spec: AgentLeaseSpec = msgspec.field(default_factory=AgentLeaseSpec)


decode_lease = msgspec.json.Decoder(AgentLease).decode


@dataclass(slots=True)
class _Sign:
    at: float
    moved: bool


class Lifesigns:
    """Liveness of all agents.

    current: returns whether the cache of Leases is fresh.
    listed: returns whether it has been filled once. A Lease that appears later is a heartbeat.
    wake: called with the name of a Machine whose agent's liveness changed, or whose Lease was
        deleted.
    stale: seconds without a renewal after which an agent counts as dead.
    """

    def __init__(
        self,
        clock: Clock,
        current: Callable[[], bool],
        listed: Callable[[], bool],
        wake: Callable[[str], None] = lambda name: None,
        stale: float = STALE_SECONDS,
    ) -> None:
        self._clock, self._current, self._listed = clock, current, listed
        self.wake, self._stale = wake, stale
        self._signs: dict[str, _Sign] = {}

    def changed(self, key: str, old: AgentLease | None, new: AgentLease | None) -> None:
        """Record a change of an agent's Lease."""
        name = key.rpartition("/")[2]
        if new is None:
            self._signs.pop(name, None)
            self.wake(name)
            return
        before, now = self.of(name), self._clock.monotonic()
        if old is None:
            self._signs[name] = _Sign(now, moved=self._listed())
        elif old.spec.renew_time != new.spec.renew_time:
            self._signs[name] = _Sign(now, moved=True)
        if self.of(name) is not before:
            self.wake(name)

    def of(self, name: str) -> Lifesign:
        """Return the liveness of the Machine's agent."""
        return self.now()(name)

    def now(self) -> Callable[[str], Lifesign]:
        """Return a function like `of` for this instant, which is cheaper for many Machines."""
        current, since = self._current(), self._clock.monotonic() - self._stale

        def of(name: str) -> Lifesign:
            sign = self._signs.get(name)
            if not current:
                return Lifesign.UNKNOWN
            if sign is None:
                return Lifesign.ABSENT
            if sign.at <= since:
                return Lifesign.STALE
            return Lifesign.FRESH if sign.moved else Lifesign.UNKNOWN

        return of

    def turns_in(self, name: str) -> float | None:
        """Return the seconds until the Lease becomes stale without a renewal, None if it is or
        there is none.
        """
        sign = self._signs.get(name)
        if sign is None:
            return None
        remaining = self._stale - (self._clock.monotonic() - sign.at)
        return remaining if remaining > 0 else None
