"""MachineClass: settings with which a provider creates machines."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictInt, StringConstraints, WithJsonSchema

from kubenode.api.base import API_VERSION, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.duration import Duration
from kubenode.api.freeform import bounded_value
from kubenode.api.meta import Condition, LabelValue, ObjectMeta

MACHINE_CLASS_READY = "Ready"
"""Condition type: whether machines can be created (reasons ConfigInvalid, CredentialsInvalid)."""


class ProviderName(StrEnum):
    """Provider that creates machines. GCP and BMCs are missing because they only switch power."""

    LOCAL = "local"
    AWS = "aws"
    AZURE = "azure"
    ALIBABA = "alibaba"


CONFIG_DEPTH = 4
"""Levels of objects and arrays below a field of `config`. A list of disks with tags has three."""
CONFIG_MEMBERS = 128
CONFIG_TEXT = 4096

ProviderConfig = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": CONFIG_MEMBERS,
            "additionalProperties": bounded_value(CONFIG_DEPTH, CONFIG_MEMBERS, CONFIG_TEXT),
        }
    ),
]
"""Settings in the notation of the provider (docs/providers.md)."""


class MachineClassLimits(Model):
    """Limits on the machines of the class."""

    creates_per_minute: StrictInt = Field(default=10, ge=1, le=1000)
    """Maximum number of machines created per minute."""
    max_instances: StrictInt = Field(default=500, ge=0, le=100_000)
    """Maximum number of machines of the class."""


Quantity = Annotated[
    str,
    StringConstraints(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?(m|k|[MGTPE]|[KMGTPE]i)?$"),
]
"""Amount of a resource as in Kubernetes: `4`, `500m`, `16Gi`."""


class MachineClassNode(Model):
    """Node of a machine of the class. An autoscaler needs it while no machine of a set exists."""

    labels: dict[str, LabelValue] = Field(default_factory=dict, max_length=64)
    """Labels that the kubelet or the cloud sets, such as `node.kubernetes.io/instance-type`."""
    capacity: dict[str, Quantity] = Field(max_length=64)
    """Resources of the Node, such as `cpu` and `memory`. `pods` defaults to 110."""
    allocatable: dict[str, Quantity] = Field(default_factory=dict, max_length=64)
    """Resources for pods. A resource that is missing here is allocatable as a whole."""


class MachineClassSpec(Model):
    """Settings of the class. The class hash covers `provider`, `failureDomain`, `config` and
    `userDataRef`."""

    provider: ProviderName
    """Provider that creates the machines."""
    failure_domain: str = Field(default="", max_length=63)
    """Zone or other failure domain of the machines."""
    config: ProviderConfig
    """Settings in the notation of the provider."""
    user_data_ref: str = Field(default="", max_length=253)
    """Name of a Secret in the namespace kubenode-system. Its key `userData` is passed to the
    machine together with the bootstrap of the agent."""
    credentials_ref: str = Field(default="", max_length=253)
    """Name of an entry in the providers file of the operator. Defaults to the entry of the same
    type."""
    create_timeout: Duration = timedelta(minutes=15)
    """Maximum time until the provider has created the instance."""
    node_startup_timeout: Duration = timedelta(minutes=20)
    """Maximum time for the host to join."""
    limits: MachineClassLimits = Field(default_factory=MachineClassLimits)
    """Limits on the machines of the class."""
    node: MachineClassNode | None = None
    """Node of a machine of the class, for autoscalers."""

    mutable: ClassVar[tuple[str, ...] | None] = (
        "failureDomain",
        "config",
        "userDataRef",
        "credentialsRef",
        "createTimeout",
        "nodeStartupTimeout",
        "limits",
        "node",
    )


class MachineClassStatus(Model):
    """Observed state of the class."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    class_hash: str = Field(default="", max_length=32)
    """Hash of the settings that a machine is created from."""
    machines: StrictInt = Field(default=0, ge=0)
    """Number of Machines of the class."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the class."""


class MachineClass(Resource):
    """Settings with which a provider creates machines."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["MachineClass"] = "MachineClass"
    metadata: ObjectMeta
    spec: MachineClassSpec
    status: MachineClassStatus = Field(default_factory=MachineClassStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="MachineClass",
        plural="machineclasses",
        short_name="kncl",
        columns=(
            PrinterColumn("Provider", ".spec.provider"),
            PrinterColumn("Machines", ".status.machines", "integer"),
            PrinterColumn("Ready", ".status.conditions[?(@.type=='Ready')].status"),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
