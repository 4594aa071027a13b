"""Events about the progress of a release, one for each change of its stored status."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from captain.releases.reconciler import ReleaseStore
from kubenode.api.names import list_first
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import (
    ClusterPhase,
    ReleasePhase,
    ReleaseReason,
    ReleaseStage,
    ReleaseStatus,
)
from kubenode.runtime.recorder import EventRecorder

STAGE_STARTED = "StageStarted"
SHOWN = 3
"""Clusters that an Event names before the rest is counted."""
ENDED_BADLY = (ClusterPhase.FAILED, ClusterPhase.SKIPPED)


@dataclass(frozen=True, slots=True)
class ReleaseMessage:
    """An Event to emit."""

    reason: str
    text: str
    warns: bool = False


class RecordedReleases:
    """Releases of a store whose changes become Events. Implements ReleaseStore."""

    def __init__(self, store: ReleaseStore, recorder: EventRecorder) -> None:
        self._store, self._recorder = store, recorder

    async def read(self, name: str) -> Release | None:
        return await self._store.read(name)

    async def list_all(self) -> Sequence[Release]:
        return await self._store.list_all()

    async def write_finalizers(self, release: Release, finalizers: Sequence[str]) -> Release:
        return await self._store.write_finalizers(release, finalizers)

    async def write_status(self, release: Release, status: ReleaseStatus) -> Release:
        stored = await self._store.write_status(release, status)
        for message in list_messages(release.status, status):
            type_ = "Warning" if message.warns else "Normal"
            await self._recorder.emit(_regard(release), type_, message.reason, message.text)
        return stored


def list_messages(before: ReleaseStatus, after: ReleaseStatus) -> Iterator[ReleaseMessage]:
    """Yield the messages about what has changed."""
    for stage in after.stages:
        yield from _list_ended(before, stage)
    if after.rollback is not None and before.rollback is None:
        text = f"it returns to what stood there before, because of {after.rollback}"
        warns = after.rollback is not ReleaseReason.USER
        yield ReleaseMessage(ReleaseReason.ROLLING_BACK, text, warns)
    if after.stage and after.stage != before.stage:
        yield ReleaseMessage(STAGE_STARTED, f"stage {after.stage} is current")
    if after.phase is not before.phase and after.reason is not None:
        warns = after.phase is ReleasePhase.FAILED
        warns = warns or (after.phase is ReleasePhase.PAUSED and _stopped_by_itself(after))
        text = f"{after.phase}: {after.message}".rstrip(": ")
        yield ReleaseMessage(after.reason, text, warns)


def _stopped_by_itself(status: ReleaseStatus) -> bool:
    return status.stop is not None or status.reason is not ReleaseReason.USER


def _list_ended(before: ReleaseStatus, stage: ReleaseStage) -> Iterator[ReleaseMessage]:
    """Yield a warning for the clusters of a stage that have failed or were skipped since."""
    known = {
        cluster.name: cluster.phase
        for other in before.stages
        if other.name == stage.name
        for cluster in other.clusters
    }
    for phase in ENDED_BADLY:
        clusters = [
            cluster
            for cluster in stage.clusters
            if cluster.phase is phase and known.get(cluster.name) is not phase
        ]
        if clusters:
            texts = (f"{each.name}: {each.reason}: {each.evidence}" for each in clusters)
            text = f"stage {stage.name}: {phase}: {list_first(texts, SHOWN)}"
            yield ReleaseMessage(f"Cluster{phase}", text, warns=True)


def _regard(release: Release) -> dict[str, str]:
    return {
        "kind": release.kind,
        "api_version": release.api_version,
        "name": release.metadata.name,
        "uid": release.metadata.uid,
    }
