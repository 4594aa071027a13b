"""Phase, reason, message and conditions of a release. Pure. A message holds no ticking value."""

from collections.abc import Iterator
from datetime import datetime

from captain.releases.model import explain
from captain.releases.rollback import list_unrestored
from captain.releases.stages import find_stage
from kubenode.api.conditions import ConditionUpdate, set_conditions
from kubenode.api.meta import format_time
from kubenode.api.names import list_first
from kubenode.api.readiness import set_readiness
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import (
    ClusterPhase,
    ReleaseCluster,
    ReleaseConditionType,
    ReleasePhase,
    ReleaseReason,
    ReleaseStage,
    ReleaseStatus,
    StagePhase,
)

SHOWN = 3
"""Clusters that a message names before the rest is counted."""


def describe_stage(release: Release, status: ReleaseStatus, now: datetime) -> ReleaseStatus:
    """Return the status with phase and reason of its current stage."""
    stage = find_stage(status.stages)
    assert stage is not None
    status = status.model_copy(update={"stage": stage.name})
    if stage.phase is StagePhase.AWAITING_APPROVAL:
        message = (
            f"stage {stage.name} waits for a person:"
            f" `kubenode release approve {release.metadata.name} {stage.name}`"
        )
        return explain(
            status, ReleasePhase.AWAITING_APPROVAL, ReleaseReason.AWAITING_APPROVAL, message
        )
    reason, message = _describe_wait(stage)
    if stage.phase is not StagePhase.BAKING:
        return explain(status, ReleasePhase.RUNNING, reason or ReleaseReason.APPLYING, message)
    if stage.bake_until is not None and now < stage.bake_until:
        until = f"stage {stage.name} bakes until {format_time(stage.bake_until)}"
        return explain(status, ReleasePhase.BAKING, ReleaseReason.BAKING, until)
    return explain(status, ReleasePhase.BAKING, reason or ReleaseReason.BAKING, message)


def _describe_wait(stage: ReleaseStage) -> tuple[ReleaseReason | None, str]:
    """Return why the stage waits for its clusters. None: it waits only for writes."""
    total, succeeded = len(stage.clusters), count_phase(stage, ClusterPhase.SUCCEEDED)
    head = f"stage {stage.name}: {succeeded} of {total} clusters succeeded"
    waits = [each for each in stage.clusters if _waits(each)]
    if not waits:
        return None, head
    return waits[0].reason, f"{head}; {_name_waits(waits)}"


def _waits(cluster: ReleaseCluster) -> bool:
    ended = cluster.phase in (ClusterPhase.FAILED, ClusterPhase.SKIPPED, ClusterPhase.ROLLED_BACK)
    return cluster.reason is not None and not ended


def _name_waits(clusters: list[ReleaseCluster]) -> str:
    return list_first((f"{c.name}: {c.reason}: {c.evidence}" for c in clusters), SHOWN)


def count_phase(stage: ReleaseStage, phase: ClusterPhase) -> int:
    return sum(cluster.phase is phase for cluster in stage.clusters)


def describe_rollback(status: ReleaseStatus) -> ReleaseStatus:
    """Return the status of a release that restores what stood there before."""
    remaining = list(list_unrestored(status))
    waits = [cluster for cluster in remaining if cluster.reason is not None]
    message = f"{len(remaining)} clusters are still to be restored"
    if waits:
        message = f"{message}; {_name_waits(waits)}"
    return explain(status, ReleasePhase.ROLLING_BACK, ReleaseReason.ROLLING_BACK, message)


def set_release_conditions(release: Release, status: ReleaseStatus, now: datetime) -> ReleaseStatus:
    """Return the status with conditions and observed generation."""
    generation = release.metadata.generation
    updates = [
        (ReleaseConditionType.PROGRESSING, _progressing(status)),
        (ReleaseConditionType.PAUSED, _paused(status)),
        (ReleaseConditionType.DEGRADED, _degraded(status)),
    ]
    conditions = set_conditions(status.conditions, updates, generation=generation, now=now)
    conditions = set_readiness(Release.__name__, conditions, generation=generation, now=now)
    return status.model_copy(update={"conditions": conditions, "observed_generation": generation})


def _progressing(status: ReleaseStatus) -> ConditionUpdate:
    assert status.phase is not None and status.reason is not None
    return ConditionUpdate.of(not status.phase.ended, status.reason, status.message)


def _paused(status: ReleaseStatus) -> ConditionUpdate:
    paused = status.phase is ReleasePhase.PAUSED
    reason = status.reason if paused and status.reason is not None else "NotPaused"
    return ConditionUpdate.of(paused, reason, status.message if paused else "")


def _degraded(status: ReleaseStatus) -> ConditionUpdate:
    ill = list(_list_ill(status))
    if not ill:
        return ConditionUpdate.of(False, "NoClusterFailed")
    return ConditionUpdate.of(
        True, ill[0].reason or ReleaseReason.CLUSTERS_FAILED, _name_waits(ill)
    )


def _list_ill(status: ReleaseStatus) -> Iterator[ReleaseCluster]:
    for stage in status.stages:
        for cluster in stage.clusters:
            if cluster.drift or cluster.phase in (ClusterPhase.FAILED, ClusterPhase.SKIPPED):
                yield cluster
