"""What a release is decided from, and what is decided. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from captain.releases.content import Raw
from kubenode.api.v1alpha1 import ReleasePipeline
from kubenode.api.v1alpha1.release import (
    ReleaseCluster,
    ReleasePhase,
    ReleaseReason,
    ReleaseStage,
    ReleaseStatus,
)

Labels = Mapping[str, Mapping[str, str]]
"""Labels of MemberClusters by name."""
MESSAGE_LENGTH = 2048
"""Characters of a message in the status."""
EVIDENCE_LENGTH = 512
"""Characters of the evidence of a cluster."""


@dataclass(frozen=True, slots=True)
class MemberObservation:
    """A read of the payload's objects in one cluster.

    unreachable: why the cluster cannot be read; "" if it was read.
    objects: the objects by KIND/NAME; None for one that does not exist.
    breakers: breakers of Kube Defender that are not closed, as texts. Read if the stage waits for
        repairs.
    """

    unreachable: str = ""
    objects: Mapping[str, Raw | None] = field(default_factory=dict)
    breakers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ReleaseWorld:
    """Everything outside of the release.

    pipeline: None if it does not exist.
    observations: by cluster, of the clusters that `list_observed` names.
    blocker: why another release goes first, "" if none does.
    """

    labels: Labels
    pipeline: ReleasePipeline | None
    observations: Mapping[str, MemberObservation]
    blocker: str
    now: datetime


@dataclass(frozen=True, slots=True)
class ReleaseDecision:
    """The next status, and what to write to clusters once that status is stored.

    applies: objects to apply, by cluster.
    restores: clusters in which the previous objects are restored.
    """

    status: ReleaseStatus
    applies: Mapping[str, Sequence[Raw]] = field(default_factory=dict)
    restores: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ClusterResult:
    """Result of the writes to one cluster.

    relapsed: number of jobs for a relapse that the applied rules count.
    reason: why they did not all succeed; None if they did.
    final: whether a retry cannot help.
    """

    relapsed: int = 0
    reason: ReleaseReason | None = None
    message: str = ""
    final: bool = False


def replace_cluster(stage: ReleaseStage, cluster: ReleaseCluster) -> ReleaseStage:
    """Return the stage with its cluster of the same name replaced."""
    clusters = [cluster if each.name == cluster.name else each for each in stage.clusters]
    return stage.model_copy(update={"clusters": clusters})


def replace_stage(status: ReleaseStatus, stage: ReleaseStage) -> ReleaseStatus:
    """Return the status with its stage of the same name replaced."""
    stages = [stage if each.name == stage.name else each for each in status.stages]
    return status.model_copy(update={"stages": stages})


def explain(
    status: ReleaseStatus, phase: ReleasePhase, reason: ReleaseReason, message: str
) -> ReleaseStatus:
    """Return the status with phase, and with the reason in words."""
    changes = {"phase": phase, "reason": reason, "message": message[:MESSAGE_LENGTH]}
    return status.model_copy(update=changes)
