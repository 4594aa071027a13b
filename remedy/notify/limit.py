"""How much one receiver is told: so many in a time, then one sum of what was left out. Pure."""

from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import timedelta

from remedy.notify.notice import JobNotice

NODES = 10
"""Named in a summary at most."""


@dataclass(slots=True)
class SuppressedNotices:
    """What was not told one by one, since `since` (seconds of a monotonic clock)."""

    since: float
    kinds: Counter[str] = field(default_factory=Counter)
    nodes: dict[str, None] = field(default_factory=dict)

    def add(self, notice: JobNotice) -> None:
        self.kinds[notice.kind] += 1
        if len(self.nodes) <= NODES and notice.node:
            self.nodes[notice.node] = None


class NotificationLimit:
    """At most `count` in any `per`, summaries included. Times are seconds of a monotonic clock."""

    def __init__(self, count: int, per: timedelta) -> None:
        self._count, self._per = count, per.total_seconds()
        self._sent: deque[float] = deque()
        self._held: SuppressedNotices | None = None

    def allows(self, now: float) -> bool:
        """Whether one more may be told now; then it counts."""
        self._forget(now)
        if self._held is not None or len(self._sent) >= self._count:
            return False
        self._sent.append(now)
        return True

    def hold(self, notice: JobNotice, now: float) -> None:
        """Not to be told: it goes into the next summary."""
        if self._held is None:
            self._held = SuppressedNotices(now)
        self._held.add(notice)

    def summary_at(self) -> float | None:
        """When what was held is to be summed up; None: nothing was.

        Not before the time has gone round once: what else comes until then is in it too.
        """
        if self._held is None:
            return None
        oldest = self._sent[0] + self._per if len(self._sent) >= self._count else 0.0
        return max(oldest, self._held.since + min(self._per, 60.0))

    def summary(self, now: float) -> SuppressedNotices | None:
        """What to sum up now; then it is told and counts. None: not yet."""
        at = self.summary_at()
        if at is None or now < at:
            return None
        held, self._held = self._held, None
        self._forget(now)
        self._sent.append(now)
        return held

    def _forget(self, now: float) -> None:
        while self._sent and self._sent[0] <= now - self._per:
            self._sent.popleft()
