"""Which agents live: by our own clock, at which we saw their Leases change.

The clocks of hosts do not matter. A Lease that was there when we began to watch says nothing until
it changes, or has not changed for as long as a stale one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.wire import HeadMeta
from machine.bootstrap.agentready import Lifesign

STALE_SECONDS = 120.0


class AgentLeaseSpec(msgspec.Struct, rename="camel", gc=False):
    renew_time: str | None = ""


class AgentLease(msgspec.Struct, gc=False):
    """`renew_time` is compared, never read."""

    metadata: HeadMeta
    spec: AgentLeaseSpec = msgspec.field(default_factory=AgentLeaseSpec)


decode_lease = msgspec.json.Decoder(AgentLease).decode


@dataclass(slots=True)
class _Sign:
    at: float
    moved: bool


class Lifesigns:
    """current  whether the cache of Leases is
    listed   whether it has been filled once: a Lease that comes later is a sign of life
    wake     called with the name of a Machine whose agent began to live, or was taken away
    stale    seconds without a renewal after which an agent does not live
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
        """Handler of the informer of agents' Leases."""
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
        return self.now()(name)

    def now(self) -> Callable[[str], Lifesign]:
        """As `of`, for many at this instant: what holds for all of them is looked at once."""
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
        """Seconds until it is stale if nothing comes; None where nothing turns by itself."""
        sign = self._signs.get(name)
        if sign is None:
            return None
        left = self._stale - (self._clock.monotonic() - sign.at)
        return left if left > 0 else None
