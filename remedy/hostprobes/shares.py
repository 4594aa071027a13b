"""Shares of open probes, so that no zone, rule or mode takes what others need. Pure.

A zone may have as many open probes as are still free in total: one dead zone takes half of the
capacity, two take a third each. A zone with few open probes is served at once, from a reserve.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

MOST_IN_ALL = 256
"""Most open probes: each is an object at the API server and work on a host that may be faulty."""
DRY_RUN = "mode/DryRun"
DRY_RUN_DIVISOR = 4
"""Probes that only rules in DryRun need may use this fraction of what is free."""

RESERVED = 32
"""Reserve for zones with fewer than FEW open probes."""
FEW = 4
ZONE, RULE = "zone/", "rule/"
RULE_TIMES = 2
"""A rule may have this many times what is free: it may be the only one that matters."""

Shares = frozenset[str]


def shares_of(zone: str, rules: Iterable[str], *, enforced: bool) -> Shares:
    """Return the shares of a probe. `rules` need it; `enforced`: at least one is in a mode that
    acts.
    """
    shares = {f"{ZONE}{zone}", *(f"{RULE}{rule}" for rule in rules)}
    return frozenset(shares if enforced else shares | {DRY_RUN})


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    until: datetime
    shares: Shares = frozenset()


class OpenQuestions:
    """Open probes by name."""

    def __init__(self) -> None:
        self._open: dict[str, OpenQuestion] = {}
        self._of: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, name: str, until: datetime, shares: Shares | None = None) -> None:
        """Add a probe. `shares` None: keep its known shares."""
        before = self._open.get(name)
        if shares is None:
            shares = before.shares if before is not None else frozenset()
        self.remove(name)
        self._open[name] = OpenQuestion(until, shares)
        self._of.update(shares)

    def remove(self, name: str) -> None:
        if (question := self._open.pop(name, None)) is not None:
            self._of.subtract(question.shares)
            for share in question.shares:
                if not self._of[share]:
                    del self._of[share]

    def expire(self, now: datetime) -> None:
        for name in [n for n, question in self._open.items() if question.until <= now]:
            self.remove(name)

    def room(self, shares: Shares) -> int:
        """Return how many more probes with all these shares may be sent."""
        free = MOST_IN_ALL - len(self._open)
        zones = [self._of[share] for share in shares if share.startswith(ZONE)]
        if DRY_RUN not in shares and zones and max(zones) < FEW:
            return max(0, min(FEW - max(zones), free))
        free -= RESERVED
        return max(0, min((self._count_free(share, free) for share in shares), default=free))

    def _count_free(self, share: str, free: int) -> int:
        """Return how many more fit into one share; each one sent also reduces what is free."""
        if share == DRY_RUN:
            return (free - DRY_RUN_DIVISOR * self._of[share]) // (1 + DRY_RUN_DIVISOR)
        times = RULE_TIMES if share.startswith(RULE) else 1
        return (times * free - self._of[share]) // (1 + times)
