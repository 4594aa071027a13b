"""Did nodes fail, or did we only stop hearing from them? Pure.

Heartbeats of half of all nodes that stop within two minutes, while signs of another way (leases
of the hosts' agents, probes, providers) go on, are an outage of the control path. Then everything
is frozen. It thaws when those that fell silent together are back or accounted for: the Node is
gone, the machine is known to be off, or the breaker of its zone or rack is open and holds it. A
person may lift it before.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubenode.api.v1alpha1.defenderpolicy import BreakerStatus

SCOPE = "control-path"
FEWEST = 3
"""Silent nodes, or hosts that are known to run, that mean anything."""


SHUT_DOWN = frozenset(
    {"node.cloudprovider.kubernetes.io/shutdown", "node.kubernetes.io/out-of-service"}
)
"""Taints of a node whose provider, or whoever fenced it, says that its machine is off."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """together  nodes that were silent when it froze; None: not known since a restart"""

    since: datetime
    why: str
    together: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Thaw:
    """A person's word that ends the freeze which began at `frozen_since`."""

    frozen_since: datetime
    by: str
    why: str


class ControlPath:
    """Nodes whose heartbeat stopped (Ready is Unknown), and since when."""

    def __init__(self, together: timedelta) -> None:
        self._together = together
        self.frozen: Frozen | None = None
        self.thaw: Thaw | None = None
        """The last one."""
        self.lifted: Thaw | None = None
        """The last one that ended a freeze of this process."""
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
        first = self._first_counted()
        if len(self._times) - first < most or self._at_once(first) < most:
            return ()
        return self._silent.keys()

    def _first_counted(self) -> int:
        """Place of the first silence that counts: a person has answered for those before."""
        if self.thaw is None:
            return 0
        return bisect_right(self._times, self.thaw.frozen_since + self._together)

    def _at_once(self, first: int = 0) -> int:
        """The most nodes that fell silent together."""
        times = self._times[first:]
        ends = (bisect_right(times, at + self._together) for at in times)
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
        # To the millisecond, as the policy's status keeps it.
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        self.frozen = Frozen(now, why, frozenset(self._silent))
        return True

    def recall(self, told: Iterable[BreakerStatus]) -> None:
        """Take up what a policy's status says: what was frozen is so until heartbeats are back."""
        for entry in told:
            if entry.scope == SCOPE and self.frozen is None and not self._lifted(entry.since):
                self.frozen = Frozen(entry.since, entry.why)

    def lift(self, thaw: Thaw) -> bool:
        """A person thaws it. Whether that is news: one word lifts one freeze, once.

        Each replica found the outage by itself, so the freeze that is meant may have begun up to
        `together` later here.
        """
        if self.thaw is not None and self.thaw.frozen_since >= thaw.frozen_since:
            return False
        self.thaw = thaw
        if self.frozen is not None and self._lifted(self.frozen.since):
            self.frozen, self.lifted = None, thaw
        return True

    def _lifted(self, since: datetime) -> bool:
        return self.thaw is not None and since <= self.thaw.frozen_since + self._together

    def thaws(self, members: int, accounted: Callable[[str], bool] = lambda name: False) -> bool:
        """Whether those that fell silent together are back or accounted for, so that what was
        frozen is not any more.

        accounted  whether something else than the control path explains a node's silence
        """
        if self.frozen is None:
            return False
        if len(self._silent) > members / 4 and not self._rest_is_back(members, accounted):
            return False
        self.frozen = None
        return True

    def _rest_is_back(self, members: int, accounted: Callable[[str], bool]) -> bool:
        """Whether the nodes whose silence nothing else explains are heard, and enough of them came
        back to prove that the way works.
        """
        assert self.frozen is not None
        open_questions = [name for name in self._silent if not accounted(name)]
        explained = len(self._silent) - len(open_questions)
        if len(open_questions) > (members - explained) / 4:
            return False
        together = self.frozen.together
        if together is None:  # fewer are silent than it takes to freeze: some came back
            return len(self._silent) < members / 2
        back = [name for name in together if name not in self._silent and not accounted(name)]
        return len(back) >= FEWEST
