"""Rate limit of one receiver: a number of notifications in a time, then one summary of the rest.
Pure.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import timedelta

from remedy.notify.notice import JobNotice

NODES = 10
"""Most nodes that a summary names."""


@dataclass(slots=True)
class SuppressedNotices:
    """Notices that go into the next summary, since `since` (monotonic seconds)."""

    since: float
    kinds: Counter[str] = field(default_factory=Counter)
    nodes: dict[str, None] = field(default_factory=dict)

    def add(self, notice: JobNotice) -> None:
        self.kinds[notice.kind] += 1
        if len(self.nodes) <= NODES and notice.node:
            self.nodes[notice.node] = None


class NotificationLimit:
    """Allows at most `count` notifications in any `per`, including summaries. Times are monotonic
    seconds.
    """

    def __init__(self, count: int, per: timedelta) -> None:
        self._count, self._per = count, per.total_seconds()
        self._sent: deque[float] = deque()
        self._suppressed: SuppressedNotices | None = None

    def allows(self, now: float) -> bool:
        """Report whether one more notification may be sent now, and count it."""
        self._forget(now)
        if self._suppressed is not None or len(self._sent) >= self._count:
            return False
        self._sent.append(now)
        return True

    def hold(self, notice: JobNotice, now: float) -> None:
        """Put the notice into the next summary."""
        if self._suppressed is None:
            self._suppressed = SuppressedNotices(now)
        self._suppressed.add(notice)

    def summary_at(self) -> float | None:
        """Return when the next summary is due; None: there is nothing to summarize.

        It waits for `per`, at most a minute, after the first suppressed notice, so that later ones
        are included.
        """
        if self._suppressed is None:
            return None
        oldest = self._sent[0] + self._per if len(self._sent) >= self._count else 0.0
        return max(oldest, self._suppressed.since + min(self._per, 60.0))

    def summary(self, now: float) -> SuppressedNotices | None:
        """Return what to summarize now, and count the summary; None: not yet."""
        at = self.summary_at()
        if at is None or now < at:
            return None
        suppressed, self._suppressed = self._suppressed, None
        self._forget(now)
        self._sent.append(now)
        return suppressed

    def _forget(self, now: float) -> None:
        while self._sent and self._sent[0] <= now - self._per:
            self._sent.popleft()
