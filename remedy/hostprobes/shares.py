"""Who may ask a host now, where many want to: no zone, rule or mode takes what others need. Pure.

What is open of one zone may be as much as is still free in all: one dead zone takes half of the
room, two take a third each. A zone that has asked little is asked at once, from what is reserved.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

MOST_IN_ALL = 256
"""Open questions: each is an object at the API server and work on a host that may be ill."""
DRY_RUN = "mode/DryRun"
DRY_RUN_DIVISOR = 4
"""Of what is free, questions of rules that only say what they would do may be a fourth."""

RESERVED = 32
"""For zones that have fewer than FEW open."""
FEW = 4
ZONE, RULE = "zone/", "rule/"
RULE_TIMES = 2
"""A rule may have so many times as much open as is free: it may be the only one that matters."""

Shares = frozenset[str]


def shares_of(zone: str, rules: Iterable[str], *, enforced: bool) -> Shares:
    """`rules` need the question; those that act come before those that do not."""
    found = {f"{ZONE}{zone}", *(f"{RULE}{rule}" for rule in rules)}
    return frozenset(found if enforced else found | {DRY_RUN})


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    until: datetime
    shares: Shares = frozenset()


class OpenQuestions:
    """What is asked and not answered, by the name of the question."""

    def __init__(self) -> None:
        self._open: dict[str, OpenQuestion] = {}
        self._of: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, name: str, until: datetime, shares: Shares | None = None) -> None:
        """`shares` None: those that are known of it."""
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
        """How many more questions of all these shares may be asked."""
        free = MOST_IN_ALL - len(self._open)
        zones = [self._of[share] for share in shares if share.startswith(ZONE)]
        if DRY_RUN not in shares and zones and max(zones) < FEW:
            return max(0, min(FEW - max(zones), free))
        free -= RESERVED
        return max(0, min((self._left(share, free) for share in shares), default=free))

    def _left(self, share: str, free: int) -> int:
        """Each one more takes one from what is free, so less than the difference fits."""
        if share == DRY_RUN:
            return (free - DRY_RUN_DIVISOR * self._of[share]) // (1 + DRY_RUN_DIVISOR)
        times = RULE_TIMES if share.startswith(RULE) else 1
        return (times * free - self._of[share]) // (1 + times)
