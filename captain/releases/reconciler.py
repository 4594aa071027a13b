"""Reconciles releases: reads, decides, stores the decision, then writes to clusters.

Before its start, and before the rollback of a release that has ended, a release must be alone with
its objects. That is decided from a live list under a lock, so that no two releases start at once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from captain.releases.clusters import ReleaseClusters
from captain.releases.conflicts import find_blocker
from captain.releases.decision import decide, returns_after_end
from captain.releases.model import Labels, ReleaseDecision, ReleaseWorld
from captain.releases.results import list_observed, record_results, waits_for_repairs
from kubenode.api.v1alpha1 import Release, ReleasePipeline
from kubenode.api.v1alpha1.release import ReleasePhase, ReleaseReason, ReleaseStatus
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.result import DONE, Result

POLL_SECONDS = 3.0
"""Interval of reads while clusters change."""
SLOW_POLL_SECONDS = 20.0
"""Interval of reads while a release bakes, or waits for others or for evidence."""

SLOW_REASONS = (
    ReleaseReason.EVIDENCE_MISSING,
    ReleaseReason.AWAITING_APPROVAL,
    ReleaseReason.REPAIRS_NEED_BUDGET,
)
"""Reasons that last for minutes to days."""


class ReleaseStore(Protocol):
    """The Releases of the API server."""

    async def read(self, name: str) -> Release | None: ...

    async def list_all(self) -> Sequence[Release]: ...

    async def write_status(self, release: Release, status: ReleaseStatus) -> Release:
        """Store the status and return the release. Raises Conflict if it has changed since."""
        ...


class ReleaseReconciler:
    """Reconciler of Releases.

    labels: returns the labels of all MemberClusters.
    find_pipeline: returns the pipeline of this name, None if there is none.
    """

    def __init__(
        self,
        store: ReleaseStore,
        clusters: ReleaseClusters,
        clock: Clock,
        labels: Callable[[], Labels],
        find_pipeline: Callable[[str], ReleasePipeline | None],
    ) -> None:
        self._store, self._clusters, self._clock = store, clusters, clock
        self._labels, self._find_pipeline = labels, find_pipeline
        self._starts = asyncio.Lock()

    async def reconcile(self, name: str) -> Result:
        release = await self._store.read(name)
        if release is None:
            return DONE
        async with self._alone(release):
            decision = await self._decide(release)
            # Also without a change: the write fails if a person has changed the release since.
            if decision.applies or decision.restores or decision.status != release.status:
                release = await self._store.write_status(release, decision.status)
        if decision.applies or decision.restores:
            release = await self._write(release, decision)
        return find_requeue(release.status, self._clock.now())

    @contextlib.asynccontextmanager
    async def _alone(self, release: Release) -> AsyncIterator[None]:
        if not needs_start(release):
            yield
            return
        async with self._starts:
            yield

    async def _decide(self, release: Release) -> ReleaseDecision:
        others = await self._store.list_all() if needs_start(release) else ()
        observations = await self._clusters.observe(
            release.spec.payload, list_observed(release), breakers=waits_for_repairs(release)
        )
        world = ReleaseWorld(
            labels=self._labels(),
            pipeline=self._find_pipeline(release.spec.pipeline_ref),
            observations=observations,
            blocker=find_blocker(release, others),
            now=self._clock.now(),
        )
        return decide(release, world)

    async def _write(self, release: Release, decision: ReleaseDecision) -> Release:
        results = {
            **await self._clusters.apply(release, decision.applies),
            **await self._clusters.restore(release, decision.status, decision.restores),
        }
        recorded = record_results(release.status, results, self._clock.now())
        return await self._store.write_status(release, recorded)


def needs_start(release: Release) -> bool:
    """Return whether the release must be alone with its objects to go on."""
    ended = release.status.phase is not None and release.status.phase.ended
    return returns_after_end(release) if ended else release.status.snapshot is None


def find_requeue(status: ReleaseStatus, now: datetime) -> Result:
    """Return when to reconcile again if nothing changes."""
    waits = status.reason is ReleaseReason.PAYLOAD_CONFLICT
    if status.phase is None or status.phase is ReleasePhase.PAUSED:
        return DONE
    if status.phase.ended and not waits:
        return DONE
    runs = status.phase in (ReleasePhase.RUNNING, ReleasePhase.ROLLING_BACK)
    if runs and status.reason not in SLOW_REASONS:
        return Result(timedelta(seconds=POLL_SECONDS))
    seconds = SLOW_POLL_SECONDS
    if status.phase is ReleasePhase.BAKING:
        ends = [stage.bake_until for stage in status.stages if stage.name == status.stage]
        remaining = [(end - now).total_seconds() for end in ends if end is not None]
        seconds = max(POLL_SECONDS, min([seconds, *remaining]))
    return Result(timedelta(seconds=seconds))
