"""HostProbe: a request for the current state of a host, answered by its agent or provider."""

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
    """Diagnostics bundle for people. It is not a fact, so rules cannot request it."""


Argument = Annotated[str, StringConstraints(max_length=1024)]


class HostProbeSpec(Model):
    """Request to the host. Immutable."""

    agent: str = Field(min_length=1, max_length=253)
    """Name of the agent that answers the probe."""
    node_name: str = Field(default="", max_length=253)
    """Name of the node that the probe is about."""
    name: ProbeName
    """Name of the probe."""
    args: dict[str, Argument] = Field(default_factory=dict, max_length=16)
    """Arguments of the probe."""
    expires_at: Time
    """Time after which the agent must not answer."""

    mutable: ClassVar[tuple[str, ...] | None] = ()


class HostProbeStatus(Model):
    """Answer to the probe."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    answer: dict[str, Scalar] = Field(default_factory=dict, max_length=64)
    """Fields of the answer, such as `images_unused_bytes`. The reference of probes lists names and
    units."""
    answered_at: Time | None = None
    """Time of the answer."""
    error: str = Field(default="", max_length=1024)
    """Error message if the probe failed."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the probe."""


class HostProbe(Resource):
    """Request for the current state of a host."""

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
