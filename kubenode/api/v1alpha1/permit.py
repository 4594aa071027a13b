"""Permit: a granted verdict of Kube Defender, and the question and answer it comes from."""

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
    """Why Kube Defender said yes or no."""

    GRANTED = "Granted"
    CONCURRENCY_LIMIT = "ConcurrencyLimit"
    RATE_LIMIT = "RateLimit"
    MIN_HEALTHY = "MinHealthy"
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
    """Why a job waits for something else than Kube Defender's verdict."""

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
    """The object on whose behalf a permit is held."""

    kind: str = Field(min_length=1, max_length=63)
    name: str = Field(min_length=1, max_length=253)
    uid: str = Field(min_length=1, max_length=128)
    user: str | None = Field(default=None, max_length=512)
    """Who asked, by name, as Kube Defender authenticated them; what a caller says here is replaced.
    Absent: asked without authentication, in Kube Defender's own process or of an earlier version.
    """
    user_uid: str | None = Field(default=None, max_length=128)
    """Their UID, where the API server has one. For people: the name decides, as in RBAC."""


class Grant(Model):
    """Leave for one class, and since when: what rates are counted by."""

    class_: Disruption = Field(alias="class")
    at: Time


class PermitSpec(Model):
    """What may be done to which node, and for whom."""

    operation: Operation
    class_: Disruption = Field(alias="class")
    node_name: str = Field(min_length=1, max_length=253)
    holder: Holder
    policy_generation: StrictInt = Field(default=0, ge=0)
    grants: list[Grant] = Field(default_factory=list, max_length=8)
    """Oldest first; the last one is `class`. Written together with it, so neither is ever alone."""


class PermitState(StrEnum):
    GRANTED = "Granted"
    RELEASED = "Released"
    REVOKED = "Revoked"
    OVERDUE = "Overdue"


ScopeName = Annotated[str, StringConstraints(min_length=1, max_length=640)]


class Displaced(Model):
    """Pods of one controller that were on the node."""

    controller: str = Field(min_length=1, max_length=128)
    """UID of the controller: the pods that follow have new names, and the same controller."""
    pods: StrictInt = Field(ge=1)


class PermitStatus(Model):
    observed_generation: StrictInt = Field(default=0, ge=0)
    state: PermitState | None = None
    granted_at: Time | None = None
    expires_at: Time | None = None
    """When Defender looks at the holder, live."""
    renewed_at: Time | None = None
    released_at: Time | None = None
    scopes: list[ScopeName] = Field(default_factory=list, max_length=64)
    """Scopes that the permit counts in, such as `cluster` and `topology.kubernetes.io/zone=b`, and
    `policy:NAME` for each policy where not only `default` rules. Empty: it counts in each.
    """
    displaced: list[Displaced] | None = Field(default=None, max_length=256)
    """Whose pods the act displaces; absent: not recorded yet. Pending ones count as displaced."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)


class Permit(Resource):
    """Leave to disrupt one node, held until it is released."""

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
    """May this holder disrupt this node now? The body of `POST /v1/permits`."""

    operation: Operation
    class_: Disruption = Field(alias="class")
    node: str = Field(min_length=1, max_length=253)
    holder: Holder
    severity: Severity = Severity.WARNING
    fault_class: str = Field(default="unknown", max_length=63)
    evidence: list[str] = Field(default_factory=list, max_length=64)
    """Sources of the evidence, such as `NPD` or `Provider`."""
    deadline: Time | None = None
    inevitable: StrictBool = False
    successor_of: str = Field(default="", max_length=253)
    """The job whose place on the node the holder takes: its permit is not in the way."""
    dry_run: StrictBool = False


class Verdict(Model):
    """Kube Defender's answer. A refusal names its reason, the scope and when to ask again."""

    allowed: StrictBool
    reason: Reason
    message: str = ""
    permit: str = ""
    """Name of the Permit; empty when refused or on a dry run."""
    class_: Disruption | None = Field(default=None, alias="class")
    granted_at: Time | None = None
    expires_at: Time | None = None
    scope: str = ""
    used: StrictInt | None = None
    limit: StrictInt | None = None
    look_again_at: Time | None = None
