"""Did nodes fail, or did we only stop hearing from them? Pure.

Heartbeats of half of all nodes that stop within two minutes, while signs of another way (leases
of the hosts' agents, probes, providers) go on, are an outage of the control path. Then everything
is frozen, and thaws when the heartbeats are back, and by nothing else.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubenode.api.v1alpha1.defenderpolicy import BreakerStatus

SCOPE = "control-path"
FEWEST = 3
"""Silent nodes, or hosts that are known to run, that mean anything."""


@dataclass(frozen=True, slots=True)
class Frozen:
    since: datetime
    why: str


class ControlPath:
    """Nodes whose heartbeat stopped (Ready is Unknown), and since when."""

    def __init__(self, together: timedelta) -> None:
        self._together = together
        self.frozen: Frozen | None = None
        self._silent: dict[str, datetime] = {}
        self._times: list[datetime] = []

    def node(self, name: str, silent_since: datetime | None) -> None:
        before = self._silent.pop(name, None)
        if before is not None:
            del self._times[bisect_left(self._times, before)]
        if silent_since is not None:
            self._silent[name] = silent_since
            insort(self._times, silent_since)

    def suspicious(self, members: int) -> Collection[str]:
        """Nodes to look at by another way, none if nothing is suspicious."""
        most = max(FEWEST, members / 2)
        if len(self._times) < most or self._at_once() < most:
            return ()
        return self._silent.keys()

    def _at_once(self) -> int:
        """The most nodes that fell silent together."""
        ends = (bisect_right(self._times, at + self._together) for at in self._times)
        return max(end - begin for begin, end in enumerate(ends))

    def heard(self, signs: Mapping[str, datetime], members: int, now: datetime) -> bool:
        """signs: when a host last showed that it runs. Whether this freezes what was not frozen.

        Hosts nobody knows anything of are no witnesses, neither for nor against.
        """
        if self.frozen is not None or not self.suspicious(members):
            return False
        known = [name for name in self._silent if name in signs]
        running = sum(signs[name] > self._silent[name] for name in known)
        if running < FEWEST or 2 * running < len(known):
            return False
        why = (
            f"heartbeats of {len(self._silent)} of {members} nodes stopped at once,"
            f" but {running} of {len(known)} hosts that show otherwise go on running"
        )
        self.frozen = Frozen(now, why)
        return True

    def recall(self, told: Iterable[BreakerStatus]) -> None:
        """Take up what a policy's status says: what was frozen is so until heartbeats are back."""
        for entry in told:
            if entry.scope == SCOPE and self.frozen is None:
                self.frozen = Frozen(entry.since, entry.why)

    def thaws(self, members: int) -> bool:
        """Whether heartbeats are back, so that what was frozen is not any more."""
        if self.frozen is None or len(self._silent) > members / 4:
            return False
        self.frozen = None
        return True
