"""What changes by the clock on the wall: windows that open and close, pauses that end.

No verdict waits for this: each one looks at the clock itself. But nobody asks while nothing can be
had, so at the edge whoever waits is called; and people read in the log when acts may start. By
APScheduler, in the leader only.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from defender.limits.stops import scope_of_pause
from defender.limits.windows import next_change, windows_for
from defender.policies import LoadedPolicy
from kubenode.api.v1alpha1 import Operation
from kubenode.runtime.clock import Clock
from kubenode.runtime.process import forever

log = logging.getLogger(__name__)

LOOK = timedelta(minutes=1)
"""Edges are worked out anew: policies change, and so do clocks."""
NEXT = "next edge"


@dataclass(frozen=True, slots=True)
class CalendarEvent:
    """Something that changes at an instant. `what` is a sentence without the time."""

    at: datetime
    policy: str
    what: str


def next_edges(policies: Iterable[LoadedPolicy], now: datetime) -> list[CalendarEvent]:
    """What changes next, all of it that changes at the same instant."""
    found = [edge for policy in policies for edge in _edges(policy, now)]
    soonest = min((edge.at for edge in found), default=None)
    return [edge for edge in found if edge.at == soonest]


def _edges(policy: LoadedPolicy, now: datetime) -> Iterator[CalendarEvent]:
    if policy.spec is None:
        return
    for pause in policy.spec.pauses:
        if pause.until is not None and pause.until > now:
            yield CalendarEvent(
                pause.until, policy.name, f"the pause of {scope_of_pause(pause)} ends"
            )
    for operation in policy.spec.operations if policy.spec.windows else ():
        found = _window(policy, operation, now)
        if found is not None:
            yield found


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
    """A Part. `policies` gives those that hold now, `wake` calls whoever waits."""

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
        self._scheduler.add_job(self._due, IntervalTrigger(seconds=int(LOOK.total_seconds())))
        self._scheduler.start()
        try:
            self.look()
            await forever()
        finally:
            self._scheduler.shutdown(wait=False)
            self._scheduler = None

    async def _due(self) -> None:
        """In the loop: what is no coroutine, APScheduler runs in a thread of its own."""
        self.look()

    def look(self) -> None:
        """Tell of what has come, and plan what comes next; also to be called on new policies."""
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
            # Late is better than never: a loop that was busy must not make it miss the edge.
            self._scheduler.add_job(
                self._due,
                DateTrigger(self._known[0].at),
                id=NEXT,
                replace_existing=True,
                misfire_grace_time=None,
            )
