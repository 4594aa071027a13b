"""Clusters that a person leaves out of a release. Pure.

A skipped cluster is neither proven nor failed. What was written to it stays, and a rollback
restores it. A stage in which all clusters are skipped proves nothing: the release stops there.
"""

from captain.releases.model import EVIDENCE_LENGTH, replace_cluster, replace_stage
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import (
    ClusterPhase,
    ClusterSkip,
    ReleaseCluster,
    ReleaseReason,
    ReleaseStage,
    ReleaseStatus,
    ReleaseStop,
    StagePhase,
)


def apply_skips(release: Release, status: ReleaseStatus) -> ReleaseStatus:
    """Return the status with the skipped clusters of stages that have not succeeded."""
    skips = {skip.cluster: skip for skip in release.spec.skips}
    for stage in status.stages:
        if stage.phase is StagePhase.SUCCEEDED:
            continue
        for cluster in stage.clusters:
            if cluster.name in skips and cluster.phase is not ClusterPhase.SKIPPED:
                stage = replace_cluster(stage, _skip(cluster, skips[cluster.name]))
        status = replace_stage(status, stage)
    return status


def _skip(cluster: ReleaseCluster, skip: ClusterSkip) -> ReleaseCluster:
    at = f" at {format_time(skip.at)}" if skip.at is not None else ""
    return cluster.model_copy(
        update={
            "phase": ClusterPhase.SKIPPED,
            "reason": ReleaseReason.USER,
            "evidence": f"skipped by {skip.by}{at}: {skip.why}"[:EVIDENCE_LENGTH],
            "unreachable_since": None,
            "not_healthy_since": None,
        }
    )


def find_unproven(stage: ReleaseStage) -> ReleaseStop | None:
    """Return the stop of a settled stage in which people skipped all that could prove it."""
    if any(each.phase is not ClusterPhase.SKIPPED for each in stage.clusters):
        return None
    if all(each.reason is not ReleaseReason.USER for each in stage.clusters):
        return None
    message = (
        f"stage {stage.name}: all {len(stage.clusters)} clusters were skipped, so that nothing"
        " shows that the release works"
    )
    return ReleaseStop(reason=ReleaseReason.STAGE_UNPROVEN, message=message)
