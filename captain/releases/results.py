"""Records the results of writes, and names the clusters to read before a decision. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from captain.releases.decision import returns_after_end
from captain.releases.forward import list_startable
from captain.releases.model import (
    EVIDENCE_LENGTH,
    ClusterResult,
    replace_cluster,
    replace_stage,
)
from captain.releases.rollback import list_unrestored
from captain.releases.stages import find_stage
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import (
    ClusterPhase,
    ReleaseCluster,
    ReleaseReason,
    ReleaseState,
    ReleaseStatus,
    StagePhase,
)
from kubenode.api.v1alpha1.releasepipeline import OnRepairs


def list_observed(release: Release) -> list[str]:
    """Return the clusters whose objects the next decision reads."""
    status, state = release.status, release.spec.state
    ended = status.phase is not None and status.phase.ended
    if status.snapshot is None or state in (ReleaseState.PAUSE, ReleaseState.ABORT):
        return []
    if state is ReleaseState.ROLLBACK or status.rollback is not None:
        return [] if ended and not returns_after_end(release) else _names(list_unrestored(status))
    return [] if ended or status.stop is not None else _names(_list_forward(status))


def waits_for_repairs(release: Release) -> bool:
    """Return whether the current stage waits while repairs need the budget of a cluster."""
    status = release.status
    stage, snapshot = find_stage(status.stages), status.snapshot
    stages = snapshot.stages if snapshot is not None else ()
    return any(
        stage is not None and each.name == stage.name and each.on_repairs is OnRepairs.WAIT
        for each in stages
    )


def _names(clusters: Iterator[ReleaseCluster]) -> list[str]:
    return [cluster.name for cluster in clusters]


def _list_forward(status: ReleaseStatus) -> Iterator[ReleaseCluster]:
    stage = find_stage(status.stages)
    assert status.snapshot is not None
    if stage is None or stage.phase is StagePhase.AWAITING_APPROVAL:
        return
    settings = next(each for each in status.snapshot.stages if each.name == stage.name)
    startable = {cluster.name for cluster in list_startable(stage, settings)}
    for cluster in stage.clusters:
        changed = cluster.phase in _CHANGED
        if changed or cluster.name in startable:
            yield cluster


_CHANGED = (ClusterPhase.APPLYING, ClusterPhase.VERIFYING, ClusterPhase.SUCCEEDED)


def record_results(
    status: ReleaseStatus, results: Mapping[str, ClusterResult], now: datetime
) -> ReleaseStatus:
    """Return the status with the results of writes, by cluster."""
    for stage in status.stages:
        for cluster in stage.clusters:
            if cluster.name in results:
                stage = replace_cluster(stage, _record(cluster, results[cluster.name], now))
        status = replace_stage(status, stage)
    return status


def _record(cluster: ReleaseCluster, result: ClusterResult, now: datetime) -> ReleaseCluster:
    changes: dict[str, object] = {
        "reason": result.reason,
        "evidence": result.message[:EVIDENCE_LENGTH],
    }
    if result.reason is ReleaseReason.CLUSTER_UNREACHABLE:
        changes["unreachable_since"] = now
    elif result.reason is None and cluster.phase is ClusterPhase.APPLYING:
        changes |= {"phase": ClusterPhase.VERIFYING, "relapsed": result.relapsed}
    elif result.reason is None:
        changes |= {"phase": ClusterPhase.ROLLED_BACK, "drift": []}
    elif result.final and cluster.phase is ClusterPhase.APPLYING:
        changes["phase"] = ClusterPhase.FAILED
    return cluster.model_copy(update=changes)
