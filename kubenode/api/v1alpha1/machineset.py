"""MachineSet: keeps a number of machines of one template and replaces unhealthy ones."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictInt, StringConstraints, model_validator

from kubenode.api.base import (
    API_VERSION,
    CelRule,
    Model,
    PrinterColumn,
    Resource,
    ResourceInfo,
    ScaleInfo,
)
from kubenode.api.duration import Duration
from kubenode.api.meta import (
    Condition,
    ConditionStatus,
    LabelSelector,
    LabelValue,
    ObjectMeta,
    not_empty,
)
from kubenode.api.share import Share
from kubenode.api.v1alpha1.machine import MachineDeletion, MachineNode

LARGEST_SET = 10_000
LEAVING = "kubenode.io/leaving"
"""Annotation of a Machine that its set has chosen for removal: ScaleIn or Replace.

The Machine itself holds its disruption, so that the deletion continues with the same permit and
cordon.
"""


class MachineSetConditionType(StrEnum):
    """Condition types and their reasons.

    Scaled: QuotaExceeded, PreflightFailed, Scaling. Healthy: TooManyUnhealthy, Frozen,
    PermitDenied.
    """

    SCALED = "Scaled"
    HEALTHY = "Healthy"


MIN_AT_MOST_MAX = CelRule(
    "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
    "greater than maxReplicas: raise maxReplicas, or lower minReplicas",
    "minReplicas",
)


class ScaleInOrder(StrEnum):
    NEWEST = "Newest"
    OLDEST = "Oldest"


class UpdatePolicy(StrEnum):
    """Whether machines of an older class hash are replaced."""

    ON_DELETE = "OnDelete"
    REPLACE = "Replace"


AnnotationValue = Annotated[str, StringConstraints(max_length=4096)]


class MachineTemplateMetadata(Model):
    """Metadata of the created objects."""

    labels: dict[str, LabelValue] = Field(default_factory=dict, max_length=64)
    """Labels of the created objects."""
    annotations: dict[str, AnnotationValue] = Field(default_factory=dict, max_length=64)
    """Annotations of the created objects."""


class MachineTemplateSpec(Model):
    """Spec of the created Machines."""

    class_ref: str = Field(min_length=1, max_length=253)
    """Name of the MachineClass."""
    node: Literal["Expected", "Join", "None"] = "Expected"
    """Whether a machine has a Node, and whether a component of it installs the kubelet (Join)."""
    min_ready: Duration = timedelta(seconds=30)
    """Minimum time for which a machine must be healthy to count as available."""
    node_template: MachineNode = Field(default_factory=MachineNode)
    """Labels and taints of the Node."""
    deletion: MachineDeletion = Field(default_factory=MachineDeletion)
    """Settings for the deletion of a machine."""


class MachineTemplate(Model):
    """Template of the created Machines."""

    metadata: MachineTemplateMetadata = Field(default_factory=MachineTemplateMetadata)
    """Metadata of the created Machines."""
    spec: MachineTemplateSpec
    """Spec of the created Machines."""


MachineName = Annotated[str, StringConstraints(min_length=1, max_length=253)]


class ScaleIn(Model):
    """Removal of machines when the set shrinks."""

    order: ScaleInOrder = ScaleInOrder.NEWEST
    """Whether to remove the newest or the oldest machines first, if nothing else decides."""
    machines: list[MachineName] = Field(default_factory=list, max_length=1000)
    """Names of Machines to remove. They do not count for `replicas`, and the choice is final. Names
    without a Machine have no effect."""


class SetAutoscaling(Model):
    """Limits within which an autoscaler changes `replicas`."""

    min_replicas: StrictInt = Field(default=0, ge=0, le=LARGEST_SET)
    """Minimum number of machines."""
    max_replicas: StrictInt = Field(ge=0, le=LARGEST_SET)
    """Maximum number of machines."""

    cel: ClassVar[tuple[CelRule, ...]] = (MIN_AT_MOST_MAX,)

    @model_validator(mode="after")
    def _min_at_most_max(self) -> "SetAutoscaling":
        if self.min_replicas > self.max_replicas:
            raise MIN_AT_MOST_MAX.broken()
        return self


class UnhealthyCondition(Model):
    """Condition of the Node that marks its machine as unhealthy."""

    type: str = Field(min_length=1, max_length=316)
    """Type of the condition."""
    status: ConditionStatus
    """Status of the condition."""
    for_: Duration = Field(alias="for")
    """Minimum time for which the condition must have had this status."""


class Preserve(Model):
    """Failed machines that the set keeps for inspection."""

    max: StrictInt = Field(default=1, ge=0, le=100)
    """Maximum number of machines kept."""
    for_: Duration = Field(default=timedelta(hours=24), alias="for")
    """Maximum time for which a machine is kept."""


def _not_ready() -> list[UnhealthyCondition]:
    lasting = timedelta(minutes=10)
    return [
        UnhealthyCondition(type="Ready", status=ConditionStatus.UNKNOWN, for_=lasting),
        UnhealthyCondition(type="Ready", status=ConditionStatus.FALSE, for_=lasting),
    ]


class MachineSetHealth(Model):
    """Detection and replacement of unhealthy machines."""

    unhealthy_conditions: list[UnhealthyCondition] = Field(
        default_factory=_not_ready, min_length=1, max_length=32
    )
    """Conditions of the Node that mark a machine as unhealthy. Defaults to Ready False or Unknown
    for 10 minutes."""
    max_unhealthy: Share = "20%"
    """Maximum number or percentage of unhealthy machines. Above it, none is replaced."""
    max_replacing: StrictInt = Field(default=1, ge=1, le=1000)
    """Maximum number of machines replaced at once."""
    preserve: Preserve = Field(default_factory=Preserve)
    """Failed machines that the set keeps for inspection."""


SELECTS_ITS_OWN = CelRule(
    "!has(self.selector.matchLabels) || self.selector.matchLabels.all(k,"
    " has(self.template.metadata) && has(self.template.metadata.labels)"
    " && k in self.template.metadata.labels"
    " && self.template.metadata.labels[k] == self.selector.matchLabels[k])",
    "does not match the template's labels: the set would not know the machines that it makes",
    "selector",
)
NOT_EVERY_MACHINE = not_empty("selector", "empty and would mean every machine: write matchLabels")


class MachineSetSpec(Model):
    """Desired number of machines, their template and their replacement."""

    replicas: StrictInt = Field(ge=0, le=LARGEST_SET)
    """Desired number of machines."""
    selector: LabelSelector
    """Label selector of the machines of the set."""
    template: MachineTemplate
    """Template of the created Machines."""
    scale_in: ScaleIn = Field(default_factory=ScaleIn)
    """Removal of machines when the set shrinks."""
    autoscaling: SetAutoscaling | None = None
    """Limits for `kubenode run autoscaler-provider`. Without them no autoscaler sees the set."""
    update_policy: UpdatePolicy = UpdatePolicy.ON_DELETE
    """Whether machines of an older class hash are replaced."""
    max_surge: Share = 1
    """Maximum number or percentage of machines above `replicas` during a replacement. 0: the old
    machine is removed before the new one is created."""
    health: MachineSetHealth = Field(default_factory=MachineSetHealth)
    """Detection and replacement of unhealthy machines."""

    mutable: ClassVar[tuple[str, ...] | None] = (
        "replicas",
        "template",
        "scaleIn",
        "autoscaling",
        "updatePolicy",
        "maxSurge",
        "health",
    )
    cel: ClassVar[tuple[CelRule, ...]] = (NOT_EVERY_MACHINE, SELECTS_ITS_OWN)

    @model_validator(mode="after")
    def _selects_its_own(self) -> "MachineSetSpec":
        if self.selector.empty:
            raise NOT_EVERY_MACHINE.broken()
        labels = self.template.metadata.labels
        if any(labels.get(k) != v for k, v in self.selector.match_labels.items()):
            raise SELECTS_ITS_OWN.broken()
        return self


class MachineSetStatus(Model):
    """Observed state of the set."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    replicas: StrictInt = Field(default=0, ge=0)
    """Number of machines."""
    ready: StrictInt = Field(default=0, ge=0)
    """Number of ready machines."""
    available: StrictInt = Field(default=0, ge=0)
    """Number of available machines."""
    up_to_date: StrictInt = Field(default=0, ge=0)
    """Number of machines with the current class hash."""
    replacing: StrictInt = Field(default=0, ge=0)
    """Number of machines that are being replaced."""
    preserved: StrictInt = Field(default=0, ge=0)
    """Number of failed machines that are kept for inspection."""
    made: StrictInt = Field(default=0, ge=0)
    """Highest number used in the name of a machine. Numbers are not reused."""
    selector: str = Field(default="", max_length=4096)
    """Selector of the Machines in the text form that autoscalers read."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the set."""


class MachineSet(Resource):
    """Controller of a number of machines of one template. Replaces unhealthy machines."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["MachineSet"] = "MachineSet"
    metadata: ObjectMeta
    spec: MachineSetSpec
    status: MachineSetStatus = Field(default_factory=MachineSetStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="MachineSet",
        plural="machinesets",
        short_name="knms",
        columns=(
            PrinterColumn("Desired", ".spec.replicas", "integer"),
            PrinterColumn("Ready", ".status.ready", "integer"),
            PrinterColumn("Available", ".status.available", "integer"),
            PrinterColumn("UpToDate", ".status.upToDate", "integer"),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
        scale=ScaleInfo(".spec.replicas", ".status.replicas", ".status.selector"),
    )
