"""Permit: a granted verdict of Kube Defender, with the request and response behind it."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictBool, StrictInt, StringConstraints

from kubenode.api.base import API_VERSION, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.meta import Condition, ObjectMeta, Time
from kubenode.api.v1alpha1.ladder import Disruption
from kubenode.api.v1alpha1.noderemedier import Severity


class Operation(StrEnum):
    REPAIR = "Repair"
    EVACUATE = "Evacuate"
    REPLACE = "Replace"
    ROLLOUT = "Rollout"
    SCALE_IN = "ScaleIn"
    DELETE = "Delete"


class Reason(StrEnum):
    """Reason of a verdict of Kube Defender."""

    GRANTED = "Granted"
    CONCURRENCY_LIMIT = "ConcurrencyLimit"
    RATE_LIMIT = "RateLimit"
    MIN_HEALTHY = "MinHealthy"
    CLIENT_LIMIT = "ClientLimit"
    PER_NODE = "PerNode"
    BREAKER_OPEN = "BreakerOpen"
    COMMON_CAUSE = "CommonCause"
    WINDOW_CLOSED = "WindowClosed"
    PAUSED = "Paused"
    EXCLUDED = "Excluded"
    DISPLACED_PODS = "DisplacedPods"
    STALE_DATA = "StaleData"
    UNKNOWN = "Unknown"
    STORE_UNAVAILABLE = "StoreUnavailable"
    NODE_BUSY = "NodeBusy"
    FOREIGN_OWNER = "ForeignOwner"
    POLICY_INVALID = "PolicyInvalid"


class HoldReason(StrEnum):
    """Reason for which a job waits, other than a verdict of Kube Defender."""

    DEFENDER_UNREACHABLE = "DefenderUnreachable"
    ENGINES_DISAGREE = "EnginesDisagree"
    GROUP_WAIT = "GroupWait"
    STARTUP_GRACE = "StartupGrace"
    COOLDOWN = "Cooldown"
    GUARD_TRUE = "GuardTrue"
    FAULT_UNKNOWN = "FaultUnknown"
    PDB_BLOCKED = "PDBBlocked"
    PERMIT_LOST = "PermitLost"
    PROVIDER_UNREACHABLE = "ProviderUnreachable"
    RECEIVER_UNREACHABLE = "ReceiverUnreachable"
    ACT_REFUSED = "ActRefused"


class Holder(Model):
    """Object that holds a permit."""

    kind: str = Field(min_length=1, max_length=63)
    """Kind of the object."""
    name: str = Field(min_length=1, max_length=253)
    """Name of the object."""
    uid: str = Field(min_length=1, max_length=128)
    """UID of the object."""
    user: str | None = Field(default=None, max_length=512)
    """User name of the requester, as authenticated by Kube Defender, which overwrites any value in
    the request. Absent if the request was not authenticated: it came from the same process or from
    an earlier version.
    """
    user_uid: str | None = Field(default=None, max_length=128)
    """UID of the user, if the API server provides one. Informational: only the name is
    authoritative."""


class Grant(Model):
    """Grant of one disruption class. Rates count grants by their time."""

    class_: Disruption = Field(alias="class")
    """Granted disruption class."""
    at: Time
    """Time of the grant."""


class PermitSpec(Model):
    """Permitted operation, its node and its holder."""

    operation: Operation
    """Permitted operation."""
    class_: Disruption = Field(alias="class")
    """Permitted disruption class."""
    node_name: str = Field(min_length=1, max_length=253)
    """Name of the node."""
    holder: Holder
    """Object that holds the permit."""
    policy_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the first policy that applied. 0 if none did."""
    grants: list[Grant] = Field(default_factory=list, max_length=8)
    """Grants, oldest first. The last one equals `class`, which is written together with it."""


class PermitState(StrEnum):
    GRANTED = "Granted"
    RELEASED = "Released"
    REVOKED = "Revoked"
    OVERDUE = "Overdue"


ScopeName = Annotated[str, StringConstraints(min_length=1, max_length=640)]


class Displaced(Model):
    """Pods of one controller that ran on the node."""

    controller: str = Field(min_length=1, max_length=128)
    """UID of the controller. Replacement pods have new names and the same controller."""
    pods: StrictInt = Field(ge=1)
    """Number of pods."""


class PermitStatus(Model):
    """Observed state of the permit."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    state: PermitState | None = None
    """State of the permit."""
    granted_at: Time | None = None
    """Time of the grant."""
    expires_at: Time | None = None
    """Time at which Kube Defender reads the holder from the API server to decide on expiry."""
    renewed_at: Time | None = None
    """Time of the last renewal."""
    released_at: Time | None = None
    """Time of the release."""
    scopes: list[ScopeName] = Field(default_factory=list, max_length=64)
    """Scopes that count the permit, such as `cluster`, `topology.kubernetes.io/zone=b`, and
    `policy:NAME` for each policy if any besides `default` applies. If empty, every scope counts it.
    """
    displaced: list[Displaced] | None = Field(default=None, max_length=256)
    """Pods that the act displaces, by controller. Pending replacements count as displaced. Absent
    until recorded."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the permit."""


class Permit(Resource):
    """Permission to disrupt one node, held until it is released or expires."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["Permit"] = "Permit"
    metadata: ObjectMeta
    spec: PermitSpec
    status: PermitStatus = Field(default_factory=PermitStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="Permit",
        plural="permits",
        short_name="knp",
        columns=(
            PrinterColumn("Node", ".spec.nodeName"),
            PrinterColumn("Operation", ".spec.operation"),
            PrinterColumn("Class", ".spec.class"),
            PrinterColumn("Holder", ".spec.holder.name"),
            PrinterColumn("State", ".status.state"),
            PrinterColumn("Granted", ".status.grantedAt", "date"),
            PrinterColumn("Expires", ".status.expiresAt", "date", 1),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
        selectable_fields=(".spec.nodeName",),
    )


class Ask(Model):
    """Request for permission to disrupt a node. Body of `POST /v1/permits`."""

    operation: Operation
    """Requested operation."""
    class_: Disruption = Field(alias="class")
    """Requested disruption class."""
    node: str = Field(min_length=1, max_length=253)
    """Name of the node."""
    holder: Holder
    """Object that will hold the permit."""
    severity: Severity = Severity.WARNING
    """Severity of the fault. Decides the place in the queue."""
    fault_class: str = Field(default="unknown", max_length=63)
    """Class of the fault."""
    evidence: list[str] = Field(default_factory=list, max_length=64)
    """Sources of the evidence, such as `NPD` or `Provider`."""
    deadline: Time | None = None
    """Time of the planned event. Decides the place in the queue."""
    inevitable: StrictBool = False
    successor_of: str = Field(default="", max_length=253)
    """Name of the job that the holder replaces on the node. Its permit does not block the request.
    """
    dry_run: StrictBool = False
    """Whether to evaluate the request without creating a permit."""


class Verdict(Model):
    """Response of Kube Defender. A denial contains the reason, the scope and the time to retry."""

    allowed: StrictBool
    """Whether the request is granted."""
    reason: Reason
    """Reason of the verdict."""
    message: str = ""
    """Human-readable explanation."""
    permit: str = ""
    """Name of the Permit. Empty if the request was denied or a dry run."""
    class_: Disruption | None = Field(default=None, alias="class")
    """Granted disruption class."""
    granted_at: Time | None = None
    expires_at: Time | None = None
    scope: str = ""
    """Scope that denied the request."""
    used: StrictInt | None = None
    limit: StrictInt | None = None
    look_again_at: Time | None = None
    """Time at which to retry."""
