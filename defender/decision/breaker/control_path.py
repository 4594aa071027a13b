"""Distinguish failed nodes from an outage of the control path. Pure.

If the heartbeats of half of all nodes stop within two minutes, while other signs of life (Leases of
agents, probes, providers) continue, the control path is down. Then everything is frozen. The freeze
ends when the nodes that became silent together are back or accounted for: the Node is gone, the
machine is known to be off, or the breaker of its zone or rack is open. A person may end it earlier.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubenode.api.v1alpha1.defenderpolicy import BreakerStatus

SCOPE = "control-path"
FEWEST = 3
"""Least number of silent nodes, and of hosts known to run, for a conclusion."""


SHUT_DOWN = frozenset(
    {"node.cloudprovider.kubernetes.io/shutdown", "node.kubernetes.io/out-of-service"}
)
"""Taints of a node whose machine is off, according to its provider or whoever fenced it."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """A freeze.

    together: nodes that were silent when it began; None if unknown since a restart.
    """

    since: datetime
    why: str
    together: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Thaw:
    """A person's order to end the freeze that began at `frozen_since`."""

    frozen_since: datetime
    by: str
    why: str


class ControlPath:
    """Nodes whose heartbeat has stopped (Ready is Unknown), with the time."""

    def __init__(self, together: timedelta) -> None:
        self._together = together
        self.frozen: Frozen | None = None
        self.thaw: Thaw | None = None
        """The last thaw, None for none."""
        self.lifted: Thaw | None = None
        """The last thaw that ended a freeze in this process, None for none."""
        self._silent: dict[str, datetime] = {}
        self._times: list[datetime] = []

    def node(self, name: str, silent_since: datetime | None) -> None:
        """Record since when a node is silent, None if it is not."""
        before = self._silent.pop(name, None)
        if before is not None:
            del self._times[bisect_left(self._times, before)]
        if silent_since is not None:
            self._silent[name] = silent_since
            insort(self._times, silent_since)

    def suspicious(self, members: int) -> Collection[str]:
        """Return the nodes to check for other signs of life, none if nothing is suspicious."""
        most = max(FEWEST, members / 2)
        first = self._first_counted()
        if len(self._times) - first < most or self._at_once(first) < most:
            return ()
        return self._silent.keys()

    def _first_counted(self) -> int:
        """Return the index of the first silence that counts. Those before the last thaw do not."""
        if self.thaw is None:
            return 0
        return bisect_right(self._times, self.thaw.frozen_since + self._together)

    def _at_once(self, first: int = 0) -> int:
        """Return the greatest number of nodes that became silent together."""
        times = self._times[first:]
        ends = (bisect_right(times, at + self._together) for at in times)
        return max(end - begin for begin, end in enumerate(ends))

    def evaluate_signs(self, signs: Mapping[str, datetime], members: int, now: datetime) -> bool:
        """Evaluate signs of life. Return whether a freeze begins.

        Hosts without signs in either direction do not count.

        signs: when a host last showed that it runs.
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

    def recall(self, statuses: Iterable[BreakerStatus]) -> None:
        """Restore a freeze from a policy's status. It lasts until heartbeats are back."""
        for entry in statuses:
            if entry.scope == SCOPE and self.frozen is None and not self._lifted(entry.since):
                self.frozen = Frozen(entry.since, entry.why)

    def lift(self, thaw: Thaw) -> bool:
        """Apply a thaw. Return whether it is new: a thaw applies to one freeze, once.

        Each replica detects the outage by itself, so the freeze may have begun up to `together`
        later here.
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
        """End the freeze if the silent nodes are back or accounted for. Return whether it ended.

        accounted: returns whether something other than the control path explains a node's silence.
        """
        if self.frozen is None:
            return False
        if len(self._silent) > members / 4 and not self._rest_is_back(members, accounted):
            return False
        self.frozen = None
        return True

    def _rest_is_back(self, members: int, accounted: Callable[[str], bool]) -> bool:
        """Return whether nodes without another explanation are heard, and enough are back to prove
        the path.
        """
        assert self.frozen is not None
        open_questions = [name for name in self._silent if not accounted(name)]
        explained = len(self._silent) - len(open_questions)
        if len(open_questions) > (members - explained) / 4:
            return False
        together = self.frozen.together
        if together is None:  # fewer are silent than a freeze needs, so some are back
            return len(self._silent) < members / 2
        back = [name for name in together if name not in self._silent and not accounted(name)]
        return len(back) >= FEWEST
