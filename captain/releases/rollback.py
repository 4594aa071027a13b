"""Returns the clusters of a release to what stood there before. Pure.

The last cluster comes first. A cluster that cannot be reached keeps no other one from being
restored, and the release waits for it, whatever `onUnreachable` says. At most `maxConcurrency`
clusters of a stage are written to at once.
"""

from collections.abc import Iterator

from captain.releases.model import ReleaseDecision, ReleaseWorld, replace_cluster, replace_stage
from kubenode.api.share import share_of
from kubenode.api.v1alpha1.release import (
    ClusterPhase,
    ReleaseCluster,
    ReleaseReason,
    ReleaseStage,
    ReleaseStatus,
)


def list_unrestored(status: ReleaseStatus) -> Iterator[ReleaseCluster]:
    """Yield the clusters that a rollback must still restore, the last one first."""
    for stage in reversed(status.stages):
        for cluster in reversed(stage.clusters):
            if is_unrestored(cluster):
                yield cluster


def is_unrestored(cluster: ReleaseCluster) -> bool:
    gone = cluster.reason is ReleaseReason.CLUSTER_REMOVED
    return bool(cluster.previous) and not gone and cluster.phase is not ClusterPhase.ROLLED_BACK


def move_back(status: ReleaseStatus, world: ReleaseWorld) -> ReleaseDecision:
    """Return the next status of a release that rolls back, and the clusters to restore."""
    restores: list[str] = []
    for stage in reversed(status.stages):
        stage = _observe(stage, world)
        chosen = [] if restores else _choose(status, stage)
        for cluster in chosen:
            changes = {"phase": ClusterPhase.ROLLING_BACK}
            stage = replace_cluster(stage, cluster.model_copy(update=changes))
        restores += [cluster.name for cluster in chosen]
        status = replace_stage(status, stage)
    return ReleaseDecision(status, restores=restores)


def _observe(stage: ReleaseStage, world: ReleaseWorld) -> ReleaseStage:
    changes: dict[str, object]
    for cluster in filter(is_unrestored, stage.clusters):
        observation = world.observations.get(cluster.name)
        if cluster.name not in world.labels:
            changes = {
                "phase": ClusterPhase.SKIPPED,
                "reason": ReleaseReason.CLUSTER_REMOVED,
                "evidence": "its MemberCluster was removed before the rollback",
                "unreachable_since": None,
            }
        elif observation is None:
            continue
        elif observation.unreachable:
            changes = {
                "reason": ReleaseReason.CLUSTER_UNREACHABLE,
                "evidence": observation.unreachable,
                "unreachable_since": cluster.unreachable_since or world.now,
            }
        elif cluster.unreachable_since is not None:
            changes = {"unreachable_since": None, "reason": None, "evidence": ""}
        else:
            continue
        stage = replace_cluster(stage, cluster.model_copy(update=changes))
    return stage


def _choose(status: ReleaseStatus, stage: ReleaseStage) -> list[ReleaseCluster]:
    """Return the clusters of the stage to restore now. Those that have begun come first."""
    assert status.snapshot is not None
    settings = next(each for each in status.snapshot.stages if each.name == stage.name)
    slots = max(1, share_of(settings.max_concurrency, len(stage.clusters)))
    reachable = [
        cluster
        for cluster in reversed(stage.clusters)
        if is_unrestored(cluster) and cluster.unreachable_since is None
    ]
    reachable.sort(key=lambda cluster: cluster.phase is not ClusterPhase.ROLLING_BACK)
    return reachable[:slots]
