"""MachineClass: how a provider makes a machine."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictInt, WithJsonSchema

from kubenode.api.base import API_VERSION, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.duration import Duration
from kubenode.api.freeform import bounded_value
from kubenode.api.meta import Condition, ObjectMeta

MACHINE_CLASS_READY = "Ready"
"""The condition: whether machines can be made (reasons ConfigInvalid, CredentialsInvalid)."""


class ProviderName(StrEnum):
    """Whose machines are made. GCP and BMCs switch power only."""

    LOCAL = "local"
    AWS = "aws"
    AZURE = "azure"
    ALIBABA = "alibaba"


CONFIG_DEPTH = 4
"""Levels of objects and arrays below a field of `config`: a list of disks with tags has three."""
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
"""In the words of the provider; it says what it knows (docs/providers.md)."""


class MachineClassLimits(Model):
    creates_per_minute: StrictInt = Field(default=10, ge=1, le=1000)
    max_instances: StrictInt = Field(default=500, ge=0, le=100_000)


class MachineClassSpec(Model):
    """`provider`, `failureDomain`, `config` and `userDataRef` form the class hash."""

    provider: ProviderName
    failure_domain: str = Field(default="", max_length=63)
    config: ProviderConfig
    user_data_ref: str = Field(default="", max_length=253)
    """Secret of namespace kubenode-system whose key `userData` is given to the machine; the agent's
    bootstrap is added."""
    credentials_ref: str = Field(default="", max_length=253)
    """Name of the provider in the operator's providers file; empty: the one of this type."""
    create_timeout: Duration = timedelta(minutes=15)
    node_startup_timeout: Duration = timedelta(minutes=20)
    limits: MachineClassLimits = Field(default_factory=MachineClassLimits)

    mutable: ClassVar[tuple[str, ...] | None] = (
        "failureDomain",
        "config",
        "userDataRef",
        "credentialsRef",
        "createTimeout",
        "nodeStartupTimeout",
        "limits",
    )


class MachineClassStatus(Model):
    observed_generation: StrictInt = Field(default=0, ge=0)
    class_hash: str = Field(default="", max_length=32)
    machines: StrictInt = Field(default=0, ge=0)
    conditions: list[Condition] = Field(default_factory=list, max_length=16)


class MachineClass(Resource):
    """How a provider makes a machine."""

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
