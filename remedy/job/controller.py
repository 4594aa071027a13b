"""The RemedyOperationJob controller: reconciles one job and returns one Result.

A run has rounds: observe, decide, then either change the status or do one act, until the job can
only wait. Only the next round sees the result of an act; what must be known later is in the status
by then. A crash between any two of these loses nothing.

Changes with no act between them are written together, as late as possible: before an act on the
cluster, at once when somebody is asked for something, and at the end. Requests to Kube Defender may
precede the write, since a repeated request gets the same answer.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from kubenode.api.v1alpha1 import JobPhase
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from remedy.job import traces
from remedy.job.act import Effects, PermitClient, act
from remedy.job.audit import JobAudit
from remedy.job.events import JobEvent, build_event
from remedy.job.metrics import JobMetrics
from remedy.job.model import Act, Job, JobAct, JobActResult, JobObservation
from remedy.job.observe import JobReader, observe
from remedy.job.step import step
from remedy.job.stepaccess import StepAccess
from remedy.job.unsent_requests import Unasked
from remedy.job.wake import requeue_at
from remedy.power.observation import RequestOutcome

log = logging.getLogger(__name__)

ROUNDS = 24
"""More changes than one run of a job can have; the rest waits for the next run."""
AGAIN = Result(requeue_after=timedelta(milliseconds=50))
"""Result of a run that used up its rounds."""
WAIT_FOR_OTHERS = Result(requeue_after=timedelta(milliseconds=250))
"""Result of a new job that waits while other jobs are created."""
UNWRITTEN = frozenset({JobAct.ASK_PERMIT, JobAct.RENEW_PERMIT, JobAct.RELEASE_PERMIT})
"""Acts that may precede the write of the change that led to them."""
LONGEST_WAIT = timedelta(seconds=5)
"""Longest time for which a new job waits for the creation of other jobs."""


class JobRepository(Protocol):
    """Reads and writes jobs."""

    def get(self, key: str) -> Job | None:
        """Return the job; None if it is gone or cannot be read."""
        ...

    async def save(self, before: Job, after: Job) -> Job:
        """Write the difference of the statuses. Raises Conflict if somebody wrote since
        `before`.
        """
        ...

    async def settled(self, job: Job) -> None:
        """Return when `get` returns what we wrote, or something newer."""
        ...


@dataclass(slots=True)
class _Draft:
    """Changes that are not written yet, as pairs of the job before and after."""

    moves: list[tuple[Job, Job]] = field(default_factory=list)


class JobEventRecorder(Protocol):
    async def emit(self, job: Job, event: JobEvent) -> None: ...


def never_busy() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class JobController:
    """Reconciles jobs.

    busy: whether many faults still wait for their jobs. In a storm the first writes of new jobs
        would compete with the creation of other jobs for the API server; every fault gets its job
        first.
    woken: jobs for which Kube Defender reserves a slot at the moment
    """

    jobs: JobRepository
    world: JobReader
    effects: Effects
    steps: StepAccess
    leave: PermitClient
    recorder: JobEventRecorder
    metrics: JobMetrics
    clock: Clock
    fence: Fence
    busy: Callable[[], bool] = never_busy
    woken: set[str] = field(default_factory=set)
    audit: JobAudit = field(default_factory=JobAudit)
    unasked: Unasked = field(default_factory=Unasked)

    async def reconcile(self, key: str) -> Result:
        woken = key in self.woken
        self.woken.discard(key)
        job = self.jobs.get(key)
        if job is None:
            self.unasked.forget(key)
            return DONE
        new = job.phase is JobPhase.PENDING and self.clock.now() - job.created < LONGEST_WAIT
        if new and self.busy():
            return WAIT_FOR_OTHERS
        first, draft, result = job, _Draft(), None
        for _ in range(ROUNDS):
            unasked = self.unasked.holds(job)
            now = self.clock.now()
            observation = await observe(
                job, self.world, self.steps, now, result, woken=woken, unasked=unasked
            )
            after, what = step(job, observation)
            if after != job:
                draft.moves.append((job, after))
                waits = _refused(after, result)
                job, result = after, None
                if waits:
                    break
                if job.in_flight:
                    job = await self.save(job, draft)
            elif what is JobAct.NONE or what is JobAct.DELETE:
                break
            elif draft.moves and what not in UNWRITTEN:
                job = await self.save(job, draft)  # and observe once more, right before the act
            else:
                job, result = await self.do(job, what, observation)
        else:
            job = await self.save(job, draft)
            await self.jobs.settled(job)
            return AGAIN
        job = await self.save(job, draft)
        if what is JobAct.DELETE:
            self.fence.check()
            with self.audit.acting(job, what):
                await self.effects.delete(job)
            return DONE
        if job is not first:
            await self.jobs.settled(job)
        at = requeue_at(job, observation)
        return DONE if at is None else Result(max(at - self.clock.now(), timedelta(0)))

    async def save(self, job: Job, draft: "_Draft") -> Job:
        """Write all changes of the draft in one patch; `job` is the last of them."""
        if not draft.moves:
            return job
        moves, draft.moves = draft.moves, []
        if job == moves[0][0]:
            return job
        self.fence.check()
        self.unasked.written(moves[0][0], job)
        saved = await self.jobs.save(moves[0][0], job)
        for before, after in moves:
            await self._moved(before, after)
        return saved

    async def _moved(self, before: Job, after: Job) -> None:
        self.metrics.changed(before, after)
        self.audit.saved(before, after)
        traces.saved(before, after, self.clock)
        if (event := build_event(before, after)) is not None:
            await self.recorder.emit(after, event)
        if after.phase is not before.phase:
            log.info(
                "job moved",
                extra={
                    "job": after.name,
                    "node": after.spec.node_name,
                    "old": str(before.phase),
                    "new": str(after.phase),
                    "why": after.status.message,
                },
            )

    async def do(
        self, job: Job, what: Act, observation: JobObservation
    ) -> tuple[Job, JobActResult]:
        """Do one act; return the job with its new version and the result."""
        self.fence.check()
        self.metrics.acts.labels(what).inc()
        unasked = self.unasked.holds(job)
        self.unasked.acting(job, what)
        with self.audit.acting(job, what) as acting, traces.acting(job, what, self.clock) as doing:
            job, acting.result = await act(
                job, what, observation, self.effects, self.leave, self.steps
            )
            traces.add_result(doing, acting.result)
        if unasked and acting.result.outcome is RequestOutcome.PREVENTED:
            self.unasked.mark_unsent(job)
        return job, acting.result


def _refused(after: Job, result: JobActResult | None) -> bool:
    """Report whether Kube Defender's refusal has just become a hold: the run can only wait."""
    is_permit_answer = result is not None and result.act is JobAct.ASK_PERMIT
    return (
        is_permit_answer
        and after.phase is JobPhase.AWAITING_PERMIT
        and after.status.hold is not None
    )
