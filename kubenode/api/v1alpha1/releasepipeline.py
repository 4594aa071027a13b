"""ReleasePipeline: stages of clusters through which releases go in order."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictInt, StringConstraints, model_validator

from kubenode.api.base import API_VERSION, CelRule, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.duration import Duration
from kubenode.api.meta import Condition, LabelSelector, ObjectMeta, not_empty
from kubenode.api.share import Share

PIPELINE_VALID = "Valid"
"""Condition type, with the reasons of PipelineReason."""
StageName = Annotated[
    str, StringConstraints(max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
]


class PipelineReason(StrEnum):
    """Reasons of the condition Valid."""

    VALID = "Valid"
    EMPTY_STAGE = "EmptyStage"
    CLUSTER_IN_TWO_STAGES = "ClusterInTwoStages"


class StageApproval(StrEnum):
    """Whether a person must approve a stage before it starts."""

    NONE = "None"
    BEFORE = "Before"


class OnUnreachable(StrEnum):
    """Handling of a cluster that cannot be reached: wait for it, skip it, or count it as failed."""

    WAIT = "Wait"
    SKIP = "Skip"
    FAIL = "Fail"


class OnRepairs(StrEnum):
    """Handling of a cluster that has an open circuit breaker: start it all the same, or wait."""

    IGNORE = "Ignore"
    WAIT = "Wait"


class EnforceApproval(StrEnum):
    """Whether a person must approve that rules act in a stage.

    IfNotFired: only in clusters in which a rule has not fired, so that nothing speaks for it.
    """

    NONE = "None"
    IF_NOT_FIRED = "IfNotFired"
    ALWAYS = "Always"


class ReleaseFailurePolicy(StrEnum):
    """Reaction to failed clusters: stop, or return all clusters to what they had before."""

    PAUSE = "Pause"
    ROLLBACK = "Rollback"


class StageRules(Model):
    """Evidence that a rule of mode Enforce needs in each cluster before it acts there."""

    dry_run_first: Duration
    """Minimum time for which each cluster evaluates the rule in DryRun first."""
    max_firings: StrictInt = Field(default=1, ge=0, le=1000)
    """Maximum number of firings per 1000 selected nodes and hour, rounded up to whole firings."""
    max_recovered_alone: StrictInt = Field(default=0, ge=0, le=100_000)
    """Maximum number of nodes that recover alone after the rule has fired."""
    max_conflicts: StrictInt = Field(default=0, ge=0, le=100_000)
    """Maximum number of nodes that another rule would disturb at the same time."""
    approval: EnforceApproval = EnforceApproval.IF_NOT_FIRED
    """Whether a person must approve Enforce in the stage once the evidence is complete."""


_SELECTS_CLUSTERS = not_empty("selector", "empty and would mean every cluster: write matchLabels")


class PipelineStage(Model):
    """Clusters that get a release together."""

    name: StageName
    """Name of the stage."""
    selector: LabelSelector
    """Label selector of MemberClusters. Must not be empty."""
    sort_by: str = Field(default="", max_length=317)
    """Label of the MemberClusters whose value orders them; whole numbers order by value. Clusters
    with the same value, or if empty all clusters, are ordered by name."""
    max_concurrency: Share = 1
    """Maximum number or percentage of clusters that change at once. Percentages round down to at
    least 1."""
    max_failures: Share = 1
    """Number or percentage of failed clusters at which `failurePolicy` applies. Percentages round
    down to at least 1."""
    approval: StageApproval = StageApproval.NONE
    """Whether a person must approve the stage before it starts."""
    on_unreachable: OnUnreachable = OnUnreachable.WAIT
    """Handling of a cluster that has been unreachable for two minutes."""
    on_repairs: OnRepairs = OnRepairs.IGNORE
    """Whether the next cluster waits while a breaker of Kube Defender is not closed, in it or in a
    cluster of the stage that has the release."""
    bake_time: Duration = timedelta(0)
    """Minimum time for which the clusters must stay healthy before the next stage starts."""

    rules: StageRules | None = None
    """Evidence that rules of mode Enforce need in each cluster. If absent, they act at once."""

    cel: ClassVar[tuple[CelRule, ...]] = (_SELECTS_CLUSTERS,)

    @model_validator(mode="after")
    def _selects_clusters(self) -> "PipelineStage":
        if self.selector.empty:
            raise _SELECTS_CLUSTERS.broken()
        return self


_STAGES_ONCE = CelRule(
    "self.stages.all(a, self.stages.exists_one(b, a.name == b.name))",
    "the same name twice: give each stage a name of its own",
    "stages",
)


class ReleasePipelineSpec(Model):
    """Stages, and the reaction to failures."""

    stages: list[PipelineStage] = Field(min_length=1, max_length=16)
    """Stages in the order in which a release goes through them."""
    failure_policy: ReleaseFailurePolicy = ReleaseFailurePolicy.PAUSE
    """Reaction to `maxFailures` failed clusters in a stage."""

    cel: ClassVar[tuple[CelRule, ...]] = (_STAGES_ONCE,)

    @model_validator(mode="after")
    def _each_stage_once(self) -> "ReleasePipelineSpec":
        if len({stage.name for stage in self.stages}) < len(self.stages):
            raise _STAGES_ONCE.broken()
        return self


class ReleasePipelineStatus(Model):
    """Observed state of the pipeline."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    clusters: StrictInt = Field(default=0, ge=0)
    """Number of MemberClusters that a stage selects."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the pipeline."""


class ReleasePipeline(Resource):
    """Order of clusters through which releases go, stage by stage."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["ReleasePipeline"] = "ReleasePipeline"
    metadata: ObjectMeta
    spec: ReleasePipelineSpec
    status: ReleasePipelineStatus = Field(default_factory=ReleasePipelineStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="ReleasePipeline",
        plural="releasepipelines",
        short_name="knpl",
        columns=(
            PrinterColumn("Clusters", ".status.clusters", "integer"),
            PrinterColumn("Valid", ".status.conditions[?(@.type=='Valid')].status"),
            PrinterColumn("Reason", ".status.conditions[?(@.type=='Valid')].reason", priority=1),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
