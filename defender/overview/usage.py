"""Use of budgets over time. No object stores it, so it is known only since this process began."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from defender.decision.budgets import LimitBudget
from defender.decision.limits import concurrency
from defender.decision.queue.queue import ZONE
from kubenode.runtime.site.window import PlotWindow

SAMPLE_INTERVAL = timedelta(minutes=15)
RETENTION = timedelta(hours=72)
MOST_SCOPES = 100
ALL_SCOPES = ""
"""Key of the fullest budget of all scopes."""


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """Permits held of the greatest number that a limit allows in a scope."""

    scope: str
    used: int
    limit: int

    @property
    def share(self) -> float:
        """The used part, 1 for a full budget."""
        return min(1.0, self.used / self.limit) if self.limit else 1.0


@dataclass(slots=True)
class UsageSample:
    """The fullest budget of each scope within one interval."""

    start: datetime
    fullest: dict[str, BudgetUse] = field(default_factory=dict)

    def add(self, scope: str, use: BudgetUse) -> None:
        known = self.fullest.get(scope)
        if known is None and len(self.fullest) > MOST_SCOPES:
            return
        if known is None or use.share > known.share:
            self.fullest[scope] = use


class UsageHistory:
    """A bounded record of the fullest budgets: of all scopes, the cluster and each zone.

    since: time of the first record, None before it.
    """

    def __init__(self) -> None:
        self.since: datetime | None = None
        self._samples: deque[UsageSample] = deque(maxlen=RETENTION // SAMPLE_INTERVAL + 1)

    def record(self, now: datetime, budgets: Iterable[LimitBudget]) -> None:
        self.since = self.since or now
        sample = self._sample(now)
        for budget in budgets:
            if budget.kind != concurrency.HANDLER.name or not (budget.limit or budget.used):
                continue
            use = BudgetUse(budget.scope, budget.used, budget.limit)
            sample.add(ALL_SCOPES, use)
            if budget.label in ("cluster", ZONE):
                sample.add(budget.scope, use)

    def _sample(self, now: datetime) -> UsageSample:
        seconds = SAMPLE_INTERVAL.total_seconds()
        start = datetime.fromtimestamp(now.timestamp() // seconds * seconds, UTC)
        if not self._samples or self._samples[-1].start < start:
            self._samples.append(UsageSample(start))
        return self._samples[-1]

    def fullest(self, scope: str, window: PlotWindow) -> tuple[BudgetUse | None, ...]:
        """Return the fullest budget of the scope in each interval, None where it is not known."""
        uses: list[BudgetUse | None] = [None] * window.intervals
        for sample in self._samples:
            index, use = window.place(sample.start), sample.fullest.get(scope)
            if index is None or use is None:
                continue
            known = uses[index]
            if known is None or use.share > known.share:
                uses[index] = use
        return tuple(uses)
