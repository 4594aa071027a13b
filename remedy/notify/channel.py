"""One receiver: its queue, its retries and its rate limit.

No caller waits for a receiver. A slow or dead receiver delays only its own notifications: each
receiver has its own queue and task.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta

from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.fence import write_seconds
from remedy.notify.limit import NotificationLimit, SuppressedNotices
from remedy.notify.message import NotDelivered, RenderedNotice, Sender
from remedy.notify.metrics import FAILED, SENT, SUPPRESSED, NotificationMetrics
from remedy.notify.notice import SEVERITIES, JobNotice
from remedy.notify.notice import SUPPRESSED as SUMMARY
from remedy.notify.settings import Receiver
from remedy.notify.texts import BadTemplate, NoticeTexts

log = logging.getLogger(__name__)

MOST_WAITING = 200
"""Most notifications in the queue; further ones go into a summary."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two tries: each pause is twice the one before."""

Ended = Callable[[JobNotice, str, str], None]
"""Called with the result of each notice: (notice, receiver, why it was not delivered or "")."""


class Channel:
    """A Part that delivers notices to one receiver.

    name: of the receiver
    sender: sends messages; its creator closes it
    ended: called exactly once for every accepted notice
    """

    def __init__(
        self,
        name: str,
        settings: Receiver,
        texts: NoticeTexts,
        sender: Sender,
        clock: Clock,
        metrics: NotificationMetrics,
        ended: Ended,
        cluster: str = "",
    ) -> None:
        self.receiver, self.settings = name, settings
        self._texts, self._sender, self._clock = texts, sender, clock
        self._metrics, self._ended, self._cluster = metrics, ended, cluster
        limit = settings.limit
        self._limit = NotificationLimit(limit.count, limit.per)
        self._waiting: OrderedDict[str, JobNotice] = OrderedDict()
        self._sending = ""
        self._came = asyncio.Event()
        self._trouble = ""

    @property
    def name(self) -> str:
        return f"notifications to {self.receiver}"

    def put(self, notice: JobNotice) -> None:
        """Accept a notice. One that is queued or being sent already is not accepted again."""
        if notice.id in self._waiting or notice.id == self._sending:
            return
        now = self._clock.monotonic()
        if len(self._waiting) >= MOST_WAITING or not self._limit.allows(now):
            self._limit.hold(notice, now)
            self._metrics.notifications.labels(self.receiver, SUPPRESSED).inc()
            self._ended(notice, self.receiver, "above the receiver's rate: it is in a summary")
        else:
            self._waiting[notice.id] = notice
            self._count()
        self._came.set()

    def has(self, id_: str) -> bool:
        """Report whether the notice is queued or being sent."""
        return id_ in self._waiting or id_ == self._sending

    async def run(self) -> None:
        while True:
            self._came.clear()
            now = self._clock.monotonic()
            if (suppressed := self._limit.summary(now)) is not None:
                await self._send(self._summary(suppressed), reports_end=False)
            if self._waiting:
                _, notice = self._waiting.popitem(last=False)
                self._sending = notice.id
                self._count()
                try:
                    await self._send(notice, reports_end=True)
                finally:
                    self._sending = ""
                self._count()
                continue
            at = self._limit.summary_at()
            await wait(self._clock, self._came, None if at is None else max(at - now, 0.0))

    async def _send(self, notice: JobNotice, *, reports_end: bool) -> None:
        why = await self._delivered(notice)
        self._metrics.notifications.labels(self.receiver, FAILED if why else SENT).inc()
        if why and self._trouble != why:
            extra = {"receiver": self.receiver, "notice": notice.id, "why": why}
            log.warning("notification given up", extra=extra)
        self._trouble = why
        if reports_end:
            self._ended(notice, self.receiver, why)

    async def _delivered(self, notice: JobNotice) -> str:
        """Send the notice with retries; return why it was given up, "" once it was delivered."""
        try:
            title, body = self._texts.of(notice, self._cluster)
        except BadTemplate as error:
            return f"its template {error}"
        message = RenderedNotice(notice, title, body, self._cluster)
        until = self._clock.monotonic() + self.settings.give_up_after.total_seconds()
        pause = FIRST_PAUSE
        while True:
            write_seconds(None)  # raises LeaseLost: the new leader sends what is queued here
            try:
                await self._sender.send(message)
                return ""
            except NotDelivered as error:
                if error.final or self._clock.monotonic() + pause >= until:
                    return str(error)
            self._metrics.tries.labels(self.receiver).inc()
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _summary(self, suppressed: SuppressedNotices) -> JobNotice:
        now, count = self._clock.now(), suppressed.kinds.total()
        since = timedelta(seconds=self._clock.monotonic() - suppressed.since)
        nodes = list(suppressed.nodes)
        return JobNotice(
            id=f"{self.receiver}.{SUMMARY}.{now.timestamp():.0f}",
            kind=SUMMARY,
            at=now,
            severity=SEVERITIES[1],
            node=", ".join(nodes[:10]) + (", …" if len(nodes) > 10 else ""),
            happened=f"{count} more in the last {_spoken(since)}",
            counts=dict(suppressed.kinds),
            commands=("kubenode get jobs",),
        )

    def _count(self) -> None:
        waiting = len(self._waiting) + bool(self._sending)
        self._metrics.waiting.labels(self.receiver).set(waiting)


def _spoken(time: timedelta) -> str:
    seconds = max(round(time.total_seconds()), 1)
    return f"{seconds} s" if seconds < 90 else f"{round(seconds / 60)} min"
