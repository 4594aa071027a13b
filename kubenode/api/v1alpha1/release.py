"""Release: a payload of objects on its way through the stages of a pipeline."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictInt, StringConstraints, WithJsonSchema, model_validator

from kubenode.api.base import API_VERSION, CelRule, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.freeform import UNKNOWN
from kubenode.api.meta import Condition, LabelValue, ObjectMeta, Time
from kubenode.api.v1alpha1.noderemedier import MOST_EVIDENCE_NODES
from kubenode.api.v1alpha1.releasepipeline import (
    PipelineStage,
    ReleaseFailurePolicy,
    StageName,
)

DIGEST = r"^sha256:[0-9a-f]{64}$"
MOST_CLUSTERS = 1024
"""Clusters of one stage."""
PREVIOUS_LENGTH = 262144
"""Characters of one previous content."""
ObjectName = Annotated[
    str,
    StringConstraints(
        max_length=253, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$"
    ),
]


AnnotationValue = Annotated[str, StringConstraints(max_length=16384)]


class PayloadKind(StrEnum):
    """Kinds that a release may contain."""

    NODE_REMEDIER = "NodeRemedier"
    MACHINE_COMPONENT = "MachineComponent"
    MACHINE_COMPONENT_SET = "MachineComponentSet"
    DEFENDER_POLICY = "DefenderPolicy"


class PayloadMeta(Model):
    """Name, labels and annotations of an object of the payload."""

    name: ObjectName
    """Name of the object."""
    labels: dict[str, LabelValue] = Field(default_factory=dict, max_length=64)
    """Labels of the object."""
    annotations: dict[str, AnnotationValue] = Field(default_factory=dict, max_length=64)
    """Annotations of the object."""


class PayloadObject(Model):
    """Object that the release applies in each cluster."""

    api_version: Literal["kubenode.io/v1alpha1"]
    """API version of the object."""
    kind: PayloadKind
    """Kind of the object."""
    metadata: PayloadMeta
    """Name, labels and annotations of the object."""
    spec: Annotated[dict[str, Any], WithJsonSchema({"type": "object", UNKNOWN: True})]
    """Spec of the object, as its kind defines it."""

    @property
    def key(self) -> str:
        """Return KIND/NAME."""
        return f"{self.kind}/{self.metadata.name}"


class ReleaseState(StrEnum):
    """What a release shall do. Rollback restores what stood there before."""

    RUN = "Run"
    PAUSE = "Pause"
    ROLLBACK = "Rollback"
    ABORT = "Abort"


class OnConflict(StrEnum):
    """Handling of a field that another field manager owns in a cluster: wait, or take it."""

    WAIT = "Wait"
    FORCE = "Force"


class ApprovalSubject(StrEnum):
    """Subject of an approval: that a stage starts, or that rules in DryRun act in its clusters."""

    START = "Start"
    ENFORCE = "Enforce"


class StageApprovalEntry(Model):
    """Approval of a stage. Admission proves the author."""

    stage: StageName
    """Name of the approved stage."""
    subject: ApprovalSubject = ApprovalSubject.START
    """What the person approved."""
    by: str = Field(min_length=1, max_length=256)
    """User who approved, as the API server authenticated it."""
    at: Time | None = None
    """Time of the approval, as its author wrote it."""


_PAYLOAD_ONCE = CelRule(
    "self.payload.all(a, self.payload.exists_one(b, a.kind == b.kind"
    " && a.metadata.name == b.metadata.name))",
    "the same object twice: a release gives an object one content",
    "payload",
)


class ReleaseSpec(Model):
    """Payload, pipeline, and what the release shall do."""

    pipeline_ref: ObjectName
    """Name of the ReleasePipeline."""
    payload: list[PayloadObject] = Field(min_length=1, max_length=32)
    """Objects, applied in this order."""
    digest: str = Field(max_length=71, pattern=DIGEST)
    """SHA-256 of the payload as canonical JSON. `kubenode release start` computes it."""
    state: ReleaseState = ReleaseState.RUN
    """What the release shall do."""
    on_conflict: OnConflict = OnConflict.WAIT
    """Handling of a field that another field manager owns in a cluster."""
    approvals: list[StageApprovalEntry] = Field(default_factory=list, max_length=32)
    """Approvals of stages."""

    mutable: ClassVar[tuple[str, ...] | None] = ("state", "onConflict", "approvals")
    cel: ClassVar[tuple[CelRule, ...]] = (_PAYLOAD_ONCE,)

    @model_validator(mode="after")
    def _each_object_once(self) -> "ReleaseSpec":
        if len({each.key for each in self.payload}) < len(self.payload):
            raise _PAYLOAD_ONCE.broken()
        return self


class ReleasePhase(StrEnum):
    """Summary of a release."""

    PENDING = "Pending"
    RUNNING = "Running"
    BAKING = "Baking"
    AWAITING_APPROVAL = "AwaitingApproval"
    PAUSED = "Paused"
    ROLLING_BACK = "RollingBack"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ABORTED = "Aborted"
    ROLLED_BACK = "RolledBack"

    @property
    def ended(self) -> bool:
        """Return whether the release writes nothing more, unless it is rolled back."""
        return self in (self.SUCCEEDED, self.FAILED, self.ABORTED, self.ROLLED_BACK)


class StagePhase(StrEnum):
    """Phase of a stage."""

    PENDING = "Pending"
    AWAITING_APPROVAL = "AwaitingApproval"
    RUNNING = "Running"
    BAKING = "Baking"
    SUCCEEDED = "Succeeded"


class ClusterPhase(StrEnum):
    """Phase of a cluster. Applying and RollingBack are stored before the first write to it."""

    PENDING = "Pending"
    APPLYING = "Applying"
    VERIFYING = "Verifying"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SKIPPED = "Skipped"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"

    @property
    def settled(self) -> bool:
        """Return whether a stage waits no longer for the cluster."""
        return self in (self.SUCCEEDED, self.FAILED, self.SKIPPED)


class ReleaseReason(StrEnum):
    """Reasons why a release, a stage or a cluster waits, stopped or ended."""

    PIPELINE_MISSING = "PipelineMissing"
    PIPELINE_INVALID = "PipelineInvalid"
    PAYLOAD_INVALID = "PayloadInvalid"
    DIGEST_MISMATCH = "DigestMismatch"
    PAYLOAD_CONFLICT = "PayloadConflict"
    PREVIOUS_TOO_LARGE = "PreviousTooLarge"
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    CLUSTER_REMOVED = "ClusterRemoved"
    APPLY_CONFLICT = "ApplyConflict"
    WRITE_REFUSED = "WriteRefused"
    CLUSTERS_FAILED = "ClustersFailed"
    DRIFTED = "Drifted"
    UNHEALTHY = "Unhealthy"
    HARMFUL = "Harmful"
    NOT_HEALTHY_YET = "NotHealthyYet"
    EVIDENCE_MISSING = "EvidenceMissing"
    EVIDENCE_AGAINST = "EvidenceAgainst"
    REPAIRS_NEED_BUDGET = "RepairsNeedBudget"
    AWAITING_APPROVAL = "AwaitingApproval"
    BAKING = "Baking"
    APPLYING = "Applying"
    USER = "User"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    ABORTED = "Aborted"
    SUCCEEDED = "Succeeded"


class ReleaseConditionType(StrEnum):
    """Condition types. Their reasons are those of ReleaseReason.

    Progressing: True until the release has ended, with the reason why it waits. Paused: a person or
    failed clusters stopped it. Degraded: clusters failed or were skipped, or an object drifted.
    """

    PROGRESSING = "Progressing"
    PAUSED = "Paused"
    DEGRADED = "Degraded"


class ClusterEvidence(Model):
    """Evidence of all rules of the payload that are in DryRun in a cluster first."""

    since: Time
    """Time since which the youngest of them has been evaluated."""
    firings: StrictInt = Field(default=0, ge=0)
    """Number of repairs that they would have started."""
    nodes: StrictInt = Field(default=0, ge=0)
    """Number of nodes on which they would have started one, counted for each rule."""
    recovered_alone: StrictInt = Field(default=0, ge=0)
    """Number of these nodes that recovered although nobody acted on them."""
    conflicts: StrictInt = Field(default=0, ge=0)
    """Number of these nodes that another rule would have disturbed too."""
    node_names: list[Annotated[str, StringConstraints(max_length=253)]] = Field(
        default_factory=list, max_length=MOST_EVIDENCE_NODES
    )
    """Names of nodes that recovered alone or have conflicts."""


class ReleaseCluster(Model):
    """Progress of one cluster."""

    name: str = Field(max_length=253)
    """Name of the MemberCluster."""
    phase: ClusterPhase = ClusterPhase.PENDING
    """Phase of the cluster."""
    reason: ReleaseReason | None = None
    """Why the cluster waits, failed or was skipped."""
    evidence: str = Field(default="", max_length=512)
    """What was observed, for people."""
    unreachable_since: Time | None = None
    """Time since which the cluster cannot be reached."""
    previous: str = Field(default="", max_length=71)
    """Digest of what stood there before the release, in `status.previous`. Stored before the first
    write."""
    relapsed: StrictInt = Field(default=0, ge=0)
    """Number of jobs for a relapse that the rules of the payload counted when they were applied."""
    dry_run: ClusterEvidence | None = None
    """Evidence of the rules that are in DryRun first."""
    enforced_at: Time | None = None
    """Time at which this evidence was complete. Stored before the rules are written in their own
    mode. Absent: they are in DryRun."""
    drift: list[Annotated[str, StringConstraints(max_length=512)]] = Field(
        default_factory=list, max_length=32
    )
    """Objects that others changed or deleted since."""


class ReleaseStage(Model):
    """Progress of one stage."""

    name: str = Field(max_length=63)
    """Name of the stage."""
    phase: StagePhase = StagePhase.PENDING
    """Phase of the stage."""
    bake_until: Time | None = None
    """End of the bake time."""
    clusters: list[ReleaseCluster] = Field(default_factory=list, max_length=MOST_CLUSTERS)
    """Clusters of the stage, in their order, as they were when the release started."""


ClusterName = Annotated[str, StringConstraints(max_length=253)]


class ReleaseSnapshot(Model):
    """The pipeline as it was when the release started, and clusters that came or went since."""

    digest: str = Field(default="", max_length=71)
    """Digest of the payload."""
    failure_policy: ReleaseFailurePolicy = ReleaseFailurePolicy.PAUSE
    """Reaction to failed clusters."""
    stages: list[PipelineStage] = Field(default_factory=list, max_length=16)
    """The stages."""
    joined: list[ClusterName] = Field(default_factory=list, max_length=MOST_CLUSTERS)
    """Clusters that a stage selects now but did not. This release does not change them."""
    departed: list[ClusterName] = Field(
        default_factory=list, max_length=MOST_CLUSTERS, alias="left"
    )
    """Clusters that no stage selects any more, or that were removed."""


class PreviousContent(Model):
    """Content that a rollback restores. Equal contents of several clusters are stored once."""

    digest: str = Field(max_length=71)
    """SHA-256 of the content."""
    content: str = Field(max_length=PREVIOUS_LENGTH)
    """Labels, annotations and spec of each object of the payload by KIND/NAME, as canonical JSON.
    null for an object that did not exist."""


class ReleaseStop(Model):
    """Stop of the release by itself, which a person ends by pausing and resuming it."""

    reason: ReleaseReason
    """Why the release stopped."""
    message: str = Field(default="", max_length=2048)
    """What was observed, for people."""


class ReleaseStatus(Model):
    """Observed state of the release."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    phase: ReleasePhase | None = None
    """Summary of the release."""
    stage: str = Field(default="", max_length=63)
    """Name of the current stage."""
    reason: ReleaseReason | None = None
    """Why the release waits, or why it ended."""
    message: str = Field(default="", max_length=2048)
    """The same for people."""
    started_at: Time | None = None
    """Time at which the snapshot was taken."""
    ended_at: Time | None = None
    """Time at which the release ended."""
    stop: ReleaseStop | None = None
    """Stop of the release by itself."""
    rollback: ReleaseReason | None = None
    """Why the release returns to what stood there before. It does not run again."""
    snapshot: ReleaseSnapshot | None = None
    """The pipeline as it was when the release started."""
    stages: list[ReleaseStage] = Field(default_factory=list, max_length=16)
    """Progress of the stages."""
    previous: list[PreviousContent] = Field(default_factory=list, max_length=64)
    """What a rollback restores."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the release."""


class Release(Resource):
    """Payload of objects on its way through the stages of a pipeline."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["Release"] = "Release"
    metadata: ObjectMeta
    spec: ReleaseSpec
    status: ReleaseStatus = Field(default_factory=ReleaseStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="Release",
        plural="releases",
        short_name="knrl",
        columns=(
            PrinterColumn("Pipeline", ".spec.pipelineRef"),
            PrinterColumn("Stage", ".status.stage"),
            PrinterColumn("Phase", ".status.phase"),
            PrinterColumn("Reason", ".status.reason"),
            PrinterColumn("Message", ".status.message", priority=1),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
