"""Reconciles a job: delivers notifications that receivers have not got yet.

An annotation of the job records deliveries, written after them: a crash in between sends the
notification once more, with the same ID (at least once). Phases that a job passed between two
reconciles are not sent afterwards; its current one is.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from kubenode.api.v1alpha1 import JobPhase, RemedyOperationJob
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from remedy.job.initialwait import never_began
from remedy.job.model import Job
from remedy.job.store import PLURAL
from remedy.notify.notice import JobNotice, level, of_phase, severe
from remedy.notify.notifications import Telling
from remedy.notify.notifier import DeliveryEnd
from remedy.notify.settings import Receiver

NOTIFIED = "kubenode.io/told"
"""Annotation on a job: the state that was notified about, and the receivers that got it."""
OLD = timedelta(hours=1)
"""A new receiver gets no notification about a job that closed longer ago than this."""


class JobLookup(Protocol):
    """The informer of the jobs."""

    def get(self, key: str) -> RemedyOperationJob | None: ...


class NotificationController:
    """Reconciles notifications of jobs. `attach` sets the queue that feeds `reconcile`."""

    def __init__(
        self,
        kube: Kube,
        jobs: JobLookup,
        telling: Telling,
        clock: Clock,
        fence: Fence,
    ) -> None:
        self._kube, self._jobs = kube, jobs
        self._telling, self._notifier = telling, telling.notifier
        self._receivers, self._clock, self._fence = telling.receivers, clock, fence
        self._queue: WorkQueue[str] | None = None

    def attach(self, queue: WorkQueue[str]) -> None:
        self._queue = queue
        self._notifier.on_end.append(self._ended)

    def noticed(
        self, key: str, old: RemedyOperationJob | None, new: RemedyOperationJob | None
    ) -> Iterable[str]:
        """Map a change of a job to the keys to reconcile."""
        if new is None or not (
            new.spec.notify or any(r.all_rules for r in self._receivers.values())
        ):
            return ()
        if old is not None and old is not new and _same(old, new):
            return ()
        return (key,)

    async def reconcile(self, name: str) -> Result:
        obj = self._jobs.get(name)
        if obj is None:
            return DONE
        job, now = Job.of(obj), self._clock.now()
        self._telling.meet(job, job.spec.notify)
        notified = read_notified(obj.metadata.annotations.get(NOTIFIED, ""), level(job))
        due = [r for r in hearers(job, self._receivers, now) if r not in notified]
        if not due:
            return DONE
        notice = of_phase(job, now)
        ended = [r for r in due if self._notifier.end(notice.id, r) is not None]
        if ended:
            await self._write(job, sorted({*notified, *ended}))
        self._notifier.put(notice, [r for r in due if r not in ended])
        return DONE

    async def _write(self, job: Job, notified: Sequence[str]) -> None:
        self._fence.check()
        body = {"metadata": {"annotations": {NOTIFIED: f"{level(job)} {','.join(notified)}"}}}
        try:
            await self._kube.patch(paths.custom(PLURAL, job.name), body)
        except NotFound:
            return

    def _ended(self, notice: JobNotice, end: DeliveryEnd) -> None:
        if self._queue is not None and notice.job:
            self._queue.add(notice.job)


def hearers(job: Job, receivers: Mapping[str, Receiver], now: datetime) -> list[str]:
    """Return the receivers of the job's current state, as its rule and the settings say. Pure.

    The end of a job that never began is sent only to receivers that want jobs in Pending.
    """
    closed = job.status.timeline.closed
    if job.phase.closed and (closed is None or now - closed > OLD):
        return []
    return [
        name
        for name, receiver in receivers.items()
        if (receiver.all_rules or name in job.spec.notify)
        and job.phase in receiver.on
        and (JobPhase.PENDING in receiver.on or not never_began(job))
        and severe(job.spec.severity, receiver.min_severity)
    ]


def read_notified(annotation: str, now_at: str) -> frozenset[str]:
    """Return the receivers that already got the state `now_at`."""
    state, _, names = annotation.partition(" ")
    return frozenset(names.split(",")) if state == now_at and names else frozenset()


def _same(old: RemedyOperationJob, new: RemedyOperationJob) -> bool:
    """Report whether nothing changed that notifications are about."""
    a, b = old.status, new.status
    return (a.phase, a.rung, a.words_heard) == (b.phase, b.rung, b.words_heard)
