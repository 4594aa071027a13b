"""MemberCluster: a cluster to which Captain releases."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictBool, StrictInt, StringConstraints

from kubenode.api.base import API_VERSION, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.meta import Condition, ObjectMeta, Time
from kubenode.api.v1alpha1.release import PayloadKind

MEMBER_REACHABLE = "Reachable"
"""Condition type: whether the last probe was answered."""
MEMBER_INSTALLED = "Installed"
"""Condition type: whether the member serves every kind that Captain may release."""
KUBECONFIG_SECRET_TYPE = "kubenode.io/kubeconfig"
"""Type of the Secrets that Captain reads. It reads no other Secret of its namespace."""
KUBECONFIG_KEY = "kubeconfig"
PAYLOAD_KINDS = tuple(kind.value for kind in PayloadKind)
"""Kinds that Captain reads and writes in a member."""


class MemberPhase(StrEnum):
    """Phase of a member. Pending: no probe has ended yet."""

    PENDING = "Pending"
    CONNECTED = "Connected"
    UNREACHABLE = "Unreachable"
    PAUSED = "Paused"


class MemberReason(StrEnum):
    """Reason of the condition Reachable, and of a call that a member did not answer."""

    CONNECTED = "Connected"
    PAUSED = "Paused"
    SECRET_MISSING = "SecretMissing"
    INVALID_KUBECONFIG = "InvalidKubeconfig"
    TIMEOUT = "Timeout"
    REFUSED = "Refused"
    UNTRUSTED_CERTIFICATE = "UntrustedCertificate"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    SERVER_ERROR = "ServerError"


class InstalledReason(StrEnum):
    """Reason of the condition Installed."""

    INSTALLED = "Installed"
    KINDS_MISSING = "KindsMissing"


class MemberClusterSpec(Model):
    """Connection of the member. Its labels are those of the MemberCluster."""

    kubeconfig_ref: str = Field(min_length=1, max_length=253)
    """Name of a Secret of type kubenode.io/kubeconfig in the namespace of Captain. Its key
    `kubeconfig` holds a kubeconfig with embedded credentials."""
    paused: StrictBool = False
    """Stops probes and writes. Releases wait for the member as for one that is unreachable."""


class MemberClusterStatus(Model):
    """Observed state of the member."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    phase: MemberPhase | None = None
    """Phase of the member."""
    last_contact: Time | None = None
    """Time of an answered probe. Renewed every five minutes while nothing else changes."""
    version: str = Field(default="", max_length=64)
    """Version of Kubernetes."""
    kinds: list[Annotated[str, StringConstraints(max_length=63)]] = Field(
        default_factory=list, max_length=16
    )
    """Kinds that Captain may release and that the member serves."""
    machines: StrictInt | None = Field(default=None, ge=0)
    """Number of Machines. Absent if unknown."""
    credentials_expire_at: Time | None = None
    """Time at which the token or client certificate expires. Absent if it names none."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the member."""


class MemberCluster(Resource):
    """Cluster to which Captain releases."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["MemberCluster"] = "MemberCluster"
    metadata: ObjectMeta
    spec: MemberClusterSpec
    status: MemberClusterStatus = Field(default_factory=MemberClusterStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="MemberCluster",
        plural="memberclusters",
        short_name="knmb",
        columns=(
            PrinterColumn("Reachable", ".status.conditions[?(@.type=='Reachable')].status"),
            PrinterColumn("Version", ".status.version"),
            PrinterColumn("Machines", ".status.machines", "integer"),
            PrinterColumn("Expires", ".status.credentialsExpireAt", "date", priority=1),
            PrinterColumn(
                "Reason", ".status.conditions[?(@.type=='Reachable')].reason", priority=1
            ),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
