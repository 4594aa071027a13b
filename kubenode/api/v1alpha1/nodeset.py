"""NodeSet: a number of nodes of one class in the notation of the kube-node project.

It is converted to a MachineSet of the same name.
Source: https://github.com/kube-node/nodeset, proposal.md and pkg/nodeset/v1alpha1/types.go.
"""

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field, StrictInt, model_validator

from kubenode.api.base import (
    API_VERSION,
    CelRule,
    Model,
    PrinterColumn,
    Resource,
    ResourceInfo,
    ScaleInfo,
)
from kubenode.api.meta import Condition, ObjectMeta
from kubenode.api.share import Share
from kubenode.api.v1alpha1.machineset import LARGEST_SET

LONGEST_LABEL = 63


class NodeSetConditionType(StrEnum):
    """Condition types and their reasons.

    Converted: NodeClassMissing, NameTaken, NameTooLong. Scaled, Healthy: those of the MachineSet.
    """

    CONVERTED = "Converted"
    SCALED = "Scaled"
    HEALTHY = "Healthy"


NONE = ("0", "0%")
UPDATE_HAS_ROOM = CelRule(
    "!has(self.maxSurge) || !has(self.maxUnavailable)"
    " || !(string(self.maxSurge) in ['0', '0%'] && string(self.maxUnavailable) in ['0', '0%'])",
    "0 like maxSurge, so no node could be updated: raise one of both",
    "maxUnavailable",
)


class NodeSetSpec(Model):
    """Desired number of nodes and their class."""

    node_class: str = Field(min_length=1, max_length=LONGEST_LABEL)
    """Name of the NodeClass."""
    replicas: StrictInt = Field(ge=0, le=LARGEST_SET)
    """Desired number of nodes."""
    max_unavailable: Share = 0
    """Maximum number or percentage of nodes that an update takes away before it has created
    others. It counts if `maxSurge` is 0."""
    max_surge: Share = 1
    """Maximum number or percentage of nodes above `replicas` during an update."""

    cel: ClassVar[tuple[CelRule, ...]] = (UPDATE_HAS_ROOM,)

    @model_validator(mode="after")
    def _update_has_room(self) -> "NodeSetSpec":
        if str(self.max_surge) in NONE and str(self.max_unavailable) in NONE:
            raise UPDATE_HAS_ROOM.broken()
        return self


class NodeSetStatus(Model):
    """Observed state of the set."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    replicas: StrictInt = Field(default=0, ge=0)
    """Number of machines."""
    running_replicas: StrictInt = Field(default=0, ge=0)
    """Number of machines that are ready."""
    selector: str = Field(default="", max_length=4096)
    """Selector of the Machines in the text form that autoscalers read."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the set."""


class NodeSet(Resource):
    """Number of nodes of one class in the notation of the kube-node project. Becomes a
    MachineSet."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["NodeSet"] = "NodeSet"
    metadata: ObjectMeta
    spec: NodeSetSpec
    status: NodeSetStatus = Field(default_factory=NodeSetStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="NodeSet",
        plural="nodesets",
        short_name="knns",
        columns=(
            PrinterColumn("Class", ".spec.nodeClass"),
            PrinterColumn("Desired", ".spec.replicas", "integer"),
            PrinterColumn("Running", ".status.runningReplicas", "integer"),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
        scale=ScaleInfo(".spec.replicas", ".status.replicas", ".status.selector"),
    )
