"""MachineSet: N machines of one template, the unhealthy among them replaced."""

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


class MachineSetConditionType(StrEnum):
    """Reasons: Scaled (QuotaExceeded, PreflightFailed, Scaling), Healthy (TooManyUnhealthy, Frozen,
    PermitDenied)."""

    SCALED = "Scaled"
    HEALTHY = "Healthy"


class ScaleInOrder(StrEnum):
    NEWEST = "Newest"
    OLDEST = "Oldest"


class UpdatePolicy(StrEnum):
    """What becomes of machines of an older class hash."""

    ON_DELETE = "OnDelete"
    REPLACE = "Replace"


AnnotationValue = Annotated[str, StringConstraints(max_length=4096)]


class MachineTemplateMetadata(Model):
    labels: dict[str, LabelValue] = Field(default_factory=dict, max_length=64)
    annotations: dict[str, AnnotationValue] = Field(default_factory=dict, max_length=64)


class MachineTemplateSpec(Model):
    """What each machine's spec is made from."""

    class_ref: str = Field(min_length=1, max_length=253)
    min_ready: Duration = timedelta(seconds=30)
    node_template: MachineNode = Field(default_factory=MachineNode)
    deletion: MachineDeletion = Field(default_factory=MachineDeletion)


class MachineTemplate(Model):
    metadata: MachineTemplateMetadata = Field(default_factory=MachineTemplateMetadata)
    spec: MachineTemplateSpec


class ScaleIn(Model):
    order: ScaleInOrder = ScaleInOrder.NEWEST


class UnhealthyCondition(Model):
    """A condition of the Node that has lasted."""

    type: str = Field(min_length=1, max_length=316)
    status: ConditionStatus
    for_: Duration = Field(alias="for")


class Preserve(Model):
    """Failed machines that are kept for people to look at."""

    max: StrictInt = Field(default=1, ge=0, le=100)
    for_: Duration = Field(default=timedelta(hours=24), alias="for")


def _not_ready() -> list[UnhealthyCondition]:
    lasting = timedelta(minutes=10)
    return [
        UnhealthyCondition(type="Ready", status=ConditionStatus.UNKNOWN, for_=lasting),
        UnhealthyCondition(type="Ready", status=ConditionStatus.FALSE, for_=lasting),
    ]


class MachineSetHealth(Model):
    unhealthy_conditions: list[UnhealthyCondition] = Field(
        default_factory=_not_ready, min_length=1, max_length=32
    )
    max_unhealthy: Share = "20%"
    """With more than these unhealthy, none is replaced."""
    max_replacing: StrictInt = Field(default=1, ge=1, le=1000)
    preserve: Preserve = Field(default_factory=Preserve)


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
    replicas: StrictInt = Field(ge=0, le=LARGEST_SET)
    selector: LabelSelector
    template: MachineTemplate
    scale_in: ScaleIn = Field(default_factory=ScaleIn)
    update_policy: UpdatePolicy = UpdatePolicy.ON_DELETE
    max_surge: Share = 1
    """0: a machine is given up before another is made in its place."""
    health: MachineSetHealth = Field(default_factory=MachineSetHealth)

    mutable: ClassVar[tuple[str, ...] | None] = (
        "replicas",
        "template",
        "scaleIn",
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
    observed_generation: StrictInt = Field(default=0, ge=0)
    replicas: StrictInt = Field(default=0, ge=0)
    ready: StrictInt = Field(default=0, ge=0)
    available: StrictInt = Field(default=0, ge=0)
    up_to_date: StrictInt = Field(default=0, ge=0)
    replacing: StrictInt = Field(default=0, ge=0)
    preserved: StrictInt = Field(default=0, ge=0)
    made: StrictInt = Field(default=0, ge=0)
    """The highest number in the name of a machine that it has made: none is used again."""
    selector: str = Field(default="", max_length=4096)
    """The selector as autoscalers read it."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)


class MachineSet(Resource):
    """N machines of one template, the unhealthy among them replaced."""

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
