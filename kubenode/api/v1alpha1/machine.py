"""Machine: the desired and observed state of one host. A Machine outlives its Node."""

from datetime import timedelta
from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, model_validator

from kubenode.api.base import (
    API_VERSION,
    CelRule,
    Model,
    PrinterColumn,
    Resource,
    ResourceInfo,
)
from kubenode.api.duration import Duration
from kubenode.api.meta import LabelValue, ObjectMeta
from kubenode.api.v1alpha1.machinestatus import MachineStatus
from kubenode.api.v1alpha1.machinework import (
    MOST_COMPONENTS,
    AssignedComponent,
    MachineOperation,
    MachinePermit,
)

REISSUE = "kubenode.io/reissue"
"""Annotation: a new value allows the agent of this Machine to request a first certificate again."""
NODE_NAME = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$"
LABEL_KEY = r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"


class MachineOrigin(StrEnum):
    IMPORT = "Import"
    PROVISION = "Provision"


class MachineMode(StrEnum):
    MANAGE = "Manage"
    OBSERVE = "Observe"


class Propagation(StrEnum):
    ALWAYS = "Always"
    ON_INITIALIZATION = "OnInitialization"


class MachineTaint(Model):
    """Taint of the Node."""

    key: str = Field(min_length=1, max_length=317, pattern=LABEL_KEY)
    """Key of the taint."""
    value: str = Field(default="", max_length=63)
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    """Effect of the taint on pods that do not tolerate it."""
    propagation: Propagation = Propagation.ALWAYS
    """Always: restored if removed. OnInitialization: set once; others may remove it."""


class MachineNode(Model):
    """Metadata that the Machine operator adds to the Node. Other metadata stays."""

    labels: dict[str, LabelValue] = Field(default_factory=dict, max_length=64)
    """Labels of the Node."""
    taints: list[MachineTaint] = Field(default_factory=list, max_length=32)
    """Taints of the Node."""

    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!has(self.taints) || self.taints.all(a,"
            " self.taints.exists_one(b, a.key == b.key && a.effect == b.effect))",
            "the same key and effect twice: a node has each taint once",
            "taints",
        ),
    )

    @model_validator(mode="after")
    def _each_taint_once(self) -> "MachineNode":
        kinds = [(taint.key, taint.effect) for taint in self.taints]
        if len(set(kinds)) < len(kinds):
            raise self.cel[0].broken()
        return self


class MachineDeletion(Model):
    """Settings for the deletion of a machine."""

    drain_timeout: Duration = timedelta(minutes=30)
    """Maximum duration of the drain."""
    volume_detach_timeout: Duration = timedelta(minutes=6)
    """Maximum time to wait until volumes are detached."""
    imported: Literal["Release", "Uninstall"] = "Release"
    """For an imported machine: whether to leave its components (Release) or to remove them
    (Uninstall)."""


Address = Annotated[str, StringConstraints(min_length=2, max_length=45)]

ADDRESSES_ARE_IP = CelRule(
    "!has(self.addresses) || self.addresses.all(a, isIP(a))",
    "not all IP addresses: write them like 10.2.7.113 or fd00::7",
    "addresses",
)
IMPORT_HAS_ADDRESSES = CelRule(
    "self.origin != 'Import' || (has(self.addresses) && size(self.addresses) > 0)",
    "origin Import needs the host's addresses: its certificates are checked against them",
    "addresses",
)
PROVISION_HAS_A_CLASS = CelRule(
    "(self.origin == 'Provision') == (has(self.classRef) && self.classRef != '')",
    "origin Provision needs the MachineClass it is made by, and Import has none",
    "classRef",
)
PROVIDER_ID_ONCE = CelRule(
    "!has(oldSelf.providerID) || oldSelf.providerID == ''"
    " || (has(self.providerID) && self.providerID == oldSelf.providerID)",
    "stays as it was first written",
    "providerID",
)
COMPONENT_ONCE = CelRule(
    "!has(self.components) || self.components.all(a,"
    " self.components.exists_one(b, a.name == b.name))",
    "the same component twice: a machine has one of each name",
    "components",
)


class MachineSpec(Model):
    """Desired state of a host.

    Controllers set `components`, `permit`, `operation` and `providerID`. `providerID` cannot change
    once it is set.
    """

    origin: MachineOrigin = MachineOrigin.IMPORT
    """Whether the host exists already (Import) or a provider creates it (Provision)."""
    node: Literal["Expected", "Join", "None"] = "Expected"
    """Whether the host has a Node. Expected: its kubelet joins by itself, or has joined. Join: a
    component of the Machine installs the kubelet, which joins with the Machine's bootstrap token.
    None: a host outside Kubernetes."""
    class_ref: str = Field(default="", max_length=253)
    """Name of the MachineClass, for origin Provision."""
    node_name: str = Field(default="", max_length=253, pattern=f"{NODE_NAME}|^$")
    """Name of the Node. Defaults to the name of the Machine."""
    addresses: list[Address] = Field(default_factory=list, max_length=16)
    """IP addresses of the host. Serving certificates are issued for these addresses only."""
    provider_id: str = Field(default="", alias="providerID", max_length=512)
    """Provider ID of the instance, as in `spec.providerID` of the Node."""
    failure_domain: str = Field(default="", max_length=63)
    """Zone or other failure domain of the host."""
    mode: MachineMode = MachineMode.MANAGE
    """Whether to manage the host, or to report only (Observe)."""
    min_ready: Duration = timedelta(seconds=30)
    """Minimum time for which the machine must be healthy to count as available."""
    node_template: MachineNode = Field(default_factory=MachineNode)
    """Labels and taints of the Node."""
    deletion: MachineDeletion = Field(default_factory=MachineDeletion)
    """Settings for the deletion of the machine."""
    components: list[AssignedComponent] = Field(default_factory=list, max_length=MOST_COMPONENTS)
    """Components that are assigned to the machine."""
    permit: MachinePermit | None = None
    """Permission to change components."""
    operation: MachineOperation | None = None
    """Operation that a job requests from the provider."""

    mutable: ClassVar[tuple[str, ...] | None] = (
        "node",
        "nodeName",
        "addresses",
        "providerID",
        "failureDomain",
        "mode",
        "minReady",
        "nodeTemplate",
        "deletion",
        "components",
        "permit",
        "operation",
    )
    cel: ClassVar[tuple[CelRule, ...]] = (
        ADDRESSES_ARE_IP,
        IMPORT_HAS_ADDRESSES,
        PROVISION_HAS_A_CLASS,
        COMPONENT_ONCE,
        PROVIDER_ID_ONCE,
    )

    @model_validator(mode="after")
    def _holds_together(self) -> "MachineSpec":
        if not all(is_address(address) for address in self.addresses):
            raise ADDRESSES_ARE_IP.broken()
        if self.origin is MachineOrigin.IMPORT and not self.addresses:
            raise IMPORT_HAS_ADDRESSES.broken()
        if (self.origin is MachineOrigin.PROVISION) != bool(self.class_ref):
            raise PROVISION_HAS_A_CLASS.broken()
        names = [component.name for component in self.components]
        if len(set(names)) < len(names):
            raise COMPONENT_ONCE.broken()
        return self


def is_address(text: str) -> bool:
    """Return whether `text` is an IPv4 or IPv6 address without a zone."""
    try:
        return "%" not in text and bool(ip_address(text))
    except ValueError:
        return False


def _status_of(condition: str) -> str:
    return f".status.conditions[?(@.type=='{condition}')].status"


class Machine(Resource):
    """Desired and observed state of one host. A Machine outlives its Node."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["Machine"] = "Machine"
    metadata: ObjectMeta
    spec: MachineSpec
    status: MachineStatus = Field(default_factory=MachineStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="Machine",
        plural="machines",
        short_name="knm",
        columns=(
            PrinterColumn("Phase", ".status.phase"),
            PrinterColumn("Node", ".status.nodeRef.name"),
            PrinterColumn("Agent", _status_of("AgentReady")),
            PrinterColumn("Available", _status_of("Available")),
            PrinterColumn("UpToDate", _status_of("UpToDate")),
            PrinterColumn("Zone", ".spec.failureDomain", priority=1),
            PrinterColumn("Cert", ".status.bootstrap.certificateExpiresAt", priority=1),
            PrinterColumn("Last-Op", ".status.lastOperation.type", priority=1),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
        selectable_fields=(".spec.nodeName",),
    )

    @property
    def node_name(self) -> str:
        return self.spec.node_name or self.metadata.name

    @property
    def expects_node(self) -> bool:
        """Return whether the Machine has a Node, or will have one."""
        return self.spec.node != "None"

    @property
    def joins_by_token(self) -> bool:
        """Return whether a component installs the kubelet, which joins with the Machine's token."""
        return self.spec.node == "Join"

    @property
    def starts_empty(self) -> bool:
        """Return whether no workload runs on the host before the Machine is initialized."""
        return self.joins_by_token or self.spec.origin is MachineOrigin.PROVISION
