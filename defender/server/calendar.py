"""Changes at known times: windows that open or close, and pauses that end.

Verdicts do not depend on this part, because each reads the time itself. But holders do not ask
while nothing is allowed, so this part wakes them when that changes, and logs the change. It uses
APScheduler and runs in the leader only.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from defender.decision.limits.stops import scope_of_pause
from defender.decision.limits.windows import windows_for
from defender.decision.policies import LoadedPolicy
from kubenode.api.recurrence import next_change
from kubenode.api.v1alpha1 import Operation
from kubenode.runtime.clock import Clock
from kubenode.runtime.process import forever

log = logging.getLogger(__name__)

RECOMPUTE_INTERVAL = timedelta(minutes=1)
"""Interval at which the times are computed again, because policies and clocks change."""
NEXT = "next edge"
"""ID of the scheduler's job for the next change."""


@dataclass(frozen=True, slots=True)
class CalendarEvent:
    """A change at a known time. `what` is a sentence without the time."""

    at: datetime
    policy: str
    what: str


def next_edges(policies: Iterable[LoadedPolicy], now: datetime) -> list[CalendarEvent]:
    """Return the next changes, all that happen at the same time."""
    edges = [edge for policy in policies for edge in _edges(policy, now)]
    soonest = min((edge.at for edge in edges), default=None)
    return [edge for edge in edges if edge.at == soonest]


def _edges(policy: LoadedPolicy, now: datetime) -> Iterator[CalendarEvent]:
    if policy.spec is None:
        return
    for pause in policy.spec.pauses:
        if pause.until is not None and pause.until > now:
            yield CalendarEvent(
                pause.until, policy.name, f"the pause of {scope_of_pause(pause)} ends"
            )
    for operation in policy.spec.operations if policy.spec.windows else ():
        edge = _window(policy, operation, now)
        if edge is not None:
            yield edge


def _window(policy: LoadedPolicy, operation: Operation, now: datetime) -> CalendarEvent | None:
    assert policy.spec is not None
    change = next_change(windows_for(policy.spec.windows, operation), now)
    if change is None:
        return None
    at, opens = change
    return CalendarEvent(
        at, policy.name, f"the window for {operation} {'opens' if opens else 'closes'}"
    )


class Calendar:
    """A part. `policies` returns the policies in force, `wake` wakes the holders that wait."""

    name = "defender calendar"

    def __init__(
        self, clock: Clock, policies: Callable[[], Iterable[LoadedPolicy]], wake: Callable[[], None]
    ) -> None:
        self._clock, self._policies, self._wake = clock, policies, wake
        self._scheduler: AsyncIOScheduler | None = None
        self._known: list[CalendarEvent] = []

    async def run(self) -> None:
        logging.getLogger("apscheduler").setLevel(logging.WARNING)
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._scheduler.add_job(
            self._due, IntervalTrigger(seconds=int(RECOMPUTE_INTERVAL.total_seconds()))
        )
        self._scheduler.start()
        try:
            self.reschedule()
            await forever()
        finally:
            self._scheduler.shutdown(wait=False)
            self._scheduler = None

    async def _due(self) -> None:
        """Run `look` in the event loop. APScheduler runs plain functions in a thread."""
        self.reschedule()

    def reschedule(self) -> None:
        """Log the changes that have happened and schedule the next one. Also called when policies
        change.
        """
        if self._scheduler is None:
            return
        now = self._clock.now()
        come = [edge for edge in self._known if edge.at <= now]
        for edge in come:
            log.info(edge.what, extra={"policy": edge.policy})
        self._known = next_edges(self._policies(), now)
        if come:
            self._wake()
        if self._known:
            # Without a grace time, a busy event loop would make it skip the change.
            self._scheduler.add_job(
                self._due,
                DateTrigger(self._known[0].at),
                id=NEXT,
                replace_existing=True,
                misfire_grace_time=None,
            )
