"""The clusters of a pipeline's stages, their order, and the snapshot of a release. Pure."""

from collections.abc import Sequence

from captain.releases.model import Labels
from kubenode.api.names import list_first
from kubenode.api.v1alpha1 import ReleasePipeline
from kubenode.api.v1alpha1.release import (
    ReleaseCluster,
    ReleaseSnapshot,
    ReleaseStage,
    ReleaseStatus,
    StagePhase,
)
from kubenode.api.v1alpha1.releasepipeline import PipelineReason, PipelineStage

SHOWN = 5
"""Clusters that a message names before the rest is counted."""


def list_clusters(stage: PipelineStage, labels: Labels) -> list[str]:
    """Return the clusters that the stage selects, in its order."""
    selected = (name for name, own in labels.items() if stage.selector.matches(own))
    return sorted(selected, key=lambda name: (_rank(labels[name].get(stage.sort_by, "")), name))


def _rank(value: str) -> tuple[bool, int, str]:
    """Return a sort key: whole numbers by value, then texts, then "" for a missing label."""
    if value.isascii() and value.isdigit():
        return (False, int(value), "")
    return (True, not value, value)


def find_problem(pipeline: ReleasePipeline, labels: Labels) -> tuple[PipelineReason, str]:
    """Return reason and message of the condition Valid."""
    stages = [(stage.name, list_clusters(stage, labels)) for stage in pipeline.spec.stages]
    if empty := [name for name, clusters in stages if not clusters]:
        message = f"no MemberCluster matches the selector of stage {empty[0]}: label one"
        return PipelineReason.EMPTY_STAGE, message
    owners: dict[str, str] = {}
    for name, clusters in stages:
        if twice := [cluster for cluster in clusters if cluster in owners]:
            message = (
                f"{list_first(twice, SHOWN)}: in stage {owners[twice[0]]} and in stage {name}:"
                " change the selectors so that they exclude each other"
            )
            return PipelineReason.CLUSTER_IN_TWO_STAGES, message
        owners |= dict.fromkeys(clusters, name)
    return PipelineReason.VALID, ""


def count_clusters(pipeline: ReleasePipeline, labels: Labels) -> int:
    """Return the number of clusters that a stage selects."""
    return len({name for stage in pipeline.spec.stages for name in list_clusters(stage, labels)})


def take_snapshot(pipeline: ReleasePipeline, digest: str) -> ReleaseSnapshot:
    spec = pipeline.spec
    return ReleaseSnapshot(
        digest=digest,
        failure_policy=spec.failure_policy,
        windows=list(spec.windows),
        stages=list(spec.stages),
    )


def build_stages(pipeline: ReleasePipeline, labels: Labels) -> list[ReleaseStage]:
    """Return the stages of a new release, with all clusters Pending."""
    return [
        ReleaseStage(
            name=stage.name,
            clusters=[ReleaseCluster(name=name) for name in list_clusters(stage, labels)],
        )
        for stage in pipeline.spec.stages
    ]


def update_snapshot(status: ReleaseStatus, labels: Labels) -> ReleaseStatus:
    """Return the status with the clusters that came or went since the start."""
    snapshot = status.snapshot
    if snapshot is None:
        return status
    members = {cluster.name for stage in status.stages for cluster in stage.clusters}
    selected = {name for stage in snapshot.stages for name in list_clusters(stage, labels)}
    changes = {"joined": sorted(selected - members), "departed": sorted(members - selected)}
    return status.model_copy(update={"snapshot": snapshot.model_copy(update=changes)})


def find_stage(stages: Sequence[ReleaseStage]) -> ReleaseStage | None:
    """Return the current stage: the first that has not succeeded. None if all have."""
    return next((stage for stage in stages if stage.phase is not StagePhase.SUCCEEDED), None)
