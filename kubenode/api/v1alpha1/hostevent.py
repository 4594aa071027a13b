"""HostEvent: an external event about a host. Host Doctor updates it while the source reports it."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictInt, StringConstraints

from kubenode.api.base import API_VERSION, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.meta import Condition, ObjectMeta, Time
from kubenode.api.v1alpha1.noderemedier import Severity


class HostEventSource(StrEnum):
    ALIBABA_CLOUD = "AlibabaCloud"
    AWS = "AWS"
    AZURE = "Azure"
    GCP = "GCP"
    ALERTMANAGER = "Alertmanager"
    WEBHOOK = "Webhook"
    AGENT = "Agent"
    CLUSTER_API = "ClusterAPI"


class HostEventClass(StrEnum):
    REBOOT = "Reboot"
    STOP = "Stop"
    RETIRE = "Retire"
    REDEPLOY = "Redeploy"
    MAINTENANCE = "Maintenance"
    FREEZE = "Freeze"
    SPOT_INTERRUPTION = "SpotInterruption"
    REBALANCE = "Rebalance"
    BILLING = "Billing"
    HARDWARE_FAULT = "HardwareFault"
    DISK_FAULT = "DiskFault"
    NETWORK_FAULT = "NetworkFault"
    GPU_FAULT = "GPUFault"
    UNHEALTHY = "Unhealthy"
    ALERT = "Alert"
    LOG = "Log"
    OTHER = "Other"


class HostEventPhase(StrEnum):
    SCHEDULED = "Scheduled"
    AWAITING_APPROVAL = "AwaitingApproval"
    ACTIVE = "Active"
    COMPLETED = "Completed"
    CANCELLED = "Cancelled"
    EXPIRED = "Expired"

    @property
    def open(self) -> bool:
        return self in (self.SCHEDULED, self.AWAITING_APPROVAL, self.ACTIVE)


class HostEventNode(Model):
    """Node that the event is about. `name` is empty until the node is resolved."""

    name: str = Field(default="", max_length=253)
    """Name of the node."""
    provider_id: str = Field(default="", alias="providerID", max_length=512)
    """Provider ID of the instance, as in `spec.providerID` of the Node."""
    uid: str = Field(default="", max_length=128)
    """UID of the node."""


class HostEventSpec(Model):
    """Event as reported by its source."""

    source: HostEventSource
    """System that reports the event."""
    external_id: str = Field(alias="externalID", min_length=1, max_length=512)
    """Identifier of the event in the source."""
    class_: HostEventClass = Field(alias="class")
    """Class of the event."""
    severity: Severity = Severity.WARNING
    """Severity of the event."""
    node: HostEventNode
    """Node that the event is about."""
    not_before: Time | None = None
    """Scheduled start. Absent if the event has already started or the start is unknown."""
    not_after: Time | None = None
    """Scheduled end."""
    attributes: dict[str, Annotated[str, StringConstraints(max_length=1024)]] = Field(
        default_factory=dict, max_length=32
    )
    """Further attributes from the source."""
    message: str = Field(default="", max_length=4096)
    """Human-readable description from the source."""


class HostEventStatus(Model):
    """Observed state of the event."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    phase: HostEventPhase | None = None
    """Phase of the event."""
    first_seen: Time | None = None
    """Time of the first report."""
    last_seen: Time | None = None
    """Time of the last recorded report."""
    seen: StrictInt = Field(default=0, ge=0)
    """Number of occurrences of the event."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the event."""


class HostEvent(Resource):
    """External event about a host, such as cloud maintenance, an alert or a hardware fault."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["HostEvent"] = "HostEvent"
    metadata: ObjectMeta
    spec: HostEventSpec
    status: HostEventStatus = Field(default_factory=HostEventStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="HostEvent",
        plural="hostevents",
        short_name="knhe",
        columns=(
            PrinterColumn("Source", ".spec.source"),
            PrinterColumn("Class", ".spec.class"),
            PrinterColumn("Node", ".spec.node.name"),
            PrinterColumn("Phase", ".status.phase"),
            PrinterColumn("NotBefore", ".spec.notBefore", "date"),
            PrinterColumn("Message", ".spec.message", priority=1),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
        selectable_fields=(".spec.node.name",),
    )
