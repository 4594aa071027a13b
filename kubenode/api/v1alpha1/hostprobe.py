"""HostProbe: a question to a host, answered by its agent or by its provider."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictInt, StringConstraints

from kubenode.api.base import API_VERSION, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.meta import Condition, ObjectMeta, Time
from kubenode.api.v1alpha1.leaves import Scalar


class ProbeName(StrEnum):
    HOST = "host"
    POWER = "power"
    WRITE = "write"
    DISK = "disk"
    CLOCK = "clock"
    MOUNT = "mount"
    PEERS = "peers"
    READY = "ready"
    DIAGNOSTICS = "diagnostics"
    """A bundle for a person; no fact, so no rule can ask for it."""


Argument = Annotated[str, StringConstraints(max_length=1024)]


class HostProbeSpec(Model):
    """The question. Immutable."""

    agent: str = Field(min_length=1, max_length=253)
    node_name: str = Field(default="", max_length=253)
    name: ProbeName
    args: dict[str, Argument] = Field(default_factory=dict, max_length=16)
    expires_at: Time

    mutable: ClassVar[tuple[str, ...] | None] = ()


class HostProbeStatus(Model):
    observed_generation: StrictInt = Field(default=0, ge=0)
    answer: dict[str, Scalar] = Field(default_factory=dict, max_length=64)
    """Fields and units as the reference of probes says, such as `images_unused_bytes`."""
    answered_at: Time | None = None
    error: str = Field(default="", max_length=1024)
    conditions: list[Condition] = Field(default_factory=list, max_length=16)


class HostProbe(Resource):
    """A question to a host: what is true there now."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["HostProbe"] = "HostProbe"
    metadata: ObjectMeta
    spec: HostProbeSpec
    status: HostProbeStatus = Field(default_factory=HostProbeStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="HostProbe",
        plural="hostprobes",
        short_name="knhp",
        columns=(
            PrinterColumn("Node", ".spec.nodeName"),
            PrinterColumn("Probe", ".spec.name"),
            PrinterColumn("Answered", ".status.answeredAt", "date"),
            PrinterColumn("Error", ".status.error", priority=1),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
        selectable_fields=(".spec.nodeName", ".spec.agent"),
    )
