"""NodeClass: a class of nodes in the notation of the kube-node project.

It is converted to a MachineClass of the same name.
Source: https://github.com/kube-node/nodeset, proposal.md and pkg/nodeset/v1alpha1/types.go.
"""

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field, StrictInt, model_validator

from kubenode.api.base import API_VERSION, CelRule, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.meta import Condition, LabelValue, ObjectMeta
from kubenode.api.v1alpha1.machineclass import ProviderConfig, ProviderName

NODE_CLASS_READY = "Ready"
"""Condition type: that of the MachineClass, or False with reason NameTaken."""


class NodeClassUse(StrEnum):
    """Purpose of a resource.

    USER_DATA: a Secret whose key `userData` is passed to the machine.
    CREDENTIALS: an entry in the providers file of the operator.
    """

    USER_DATA = "userData"
    CREDENTIALS = "credentials"


class NodeClassReference(Model):
    """Name of the referenced object."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the Secret in the namespace kubenode-system, or of the entry in the providers
    file."""


class NodeClassResource(Model):
    """Reference that a machine of the class is created with."""

    type: Literal["Reference"] = "Reference"
    """Type of the resource. Files are components: write a MachineComponent."""
    name: NodeClassUse
    """Purpose of the resource."""
    reference: NodeClassReference
    """Referenced object."""


RESOURCE_ONCE = CelRule(
    "!has(self.resources) || self.resources.all(a, self.resources.exists_one(b, a.name == b.name))",
    "the same name twice: a class has one resource of each name",
    "resources",
)


class NodeClassSpec(Model):
    """Settings of the class. They become those of a MachineClass of the same name."""

    node_controller: ProviderName
    """Provider that creates the machines."""
    config: ProviderConfig
    """Settings in the notation of the provider."""
    resources: list[NodeClassResource] = Field(default_factory=list, max_length=2)
    """References that a machine is created with."""
    node_labels: dict[str, LabelValue] = Field(default_factory=dict, max_length=60)
    """Labels of the Nodes of the class."""

    mutable: ClassVar[tuple[str, ...] | None] = ("config", "resources", "nodeLabels")
    cel: ClassVar[tuple[CelRule, ...]] = (RESOURCE_ONCE,)

    @model_validator(mode="after")
    def _each_resource_once(self) -> "NodeClassSpec":
        names = [resource.name for resource in self.resources]
        if len(set(names)) < len(names):
            raise RESOURCE_ONCE.broken()
        return self

    def find_reference(self, use: NodeClassUse) -> str:
        """Return the name of the object for this purpose, "" for none."""
        return next((r.reference.name for r in self.resources if r.name is use), "")


class NodeClassStatus(Model):
    """Observed state of the class."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    machines: StrictInt = Field(default=0, ge=0)
    """Number of Machines of the class."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the class."""


class NodeClass(Resource):
    """Class of nodes in the notation of the kube-node project. Becomes a MachineClass."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["NodeClass"] = "NodeClass"
    metadata: ObjectMeta
    spec: NodeClassSpec
    status: NodeClassStatus = Field(default_factory=NodeClassStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="NodeClass",
        plural="nodeclasses",
        short_name="knnc",
        columns=(
            PrinterColumn("Controller", ".spec.nodeController"),
            PrinterColumn("Machines", ".status.machines", "integer"),
            PrinterColumn("Ready", ".status.conditions[?(@.type=='Ready')].status"),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
