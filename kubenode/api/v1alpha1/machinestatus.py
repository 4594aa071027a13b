"""Observed state of a Machine, written by the Machine operator and in two fields by the agent.

An agent can write only `host` and `components` of its own Machine; admission denies the rest.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StrictInt, StringConstraints

from kubenode.api.base import CelRule, Model
from kubenode.api.meta import Condition, Time
from kubenode.api.v1alpha1.machinework import MOST_COMPONENTS, ChangeClass, MachineOperationType

WRITTEN_BY_AGENT = ("host", "components")
"""Status fields that the agent writes, by their JSON names."""


class MachinePhase(StrEnum):
    """Summary for people. The controller derives it from observations and never reads it."""

    PENDING = "Pending"
    PROVISIONING = "Provisioning"
    PROVISIONED = "Provisioned"
    IMPORTING = "Importing"
    INITIALIZING = "Initializing"
    RUNNING = "Running"
    UPDATING = "Updating"
    DEGRADED = "Degraded"
    UNREACHABLE = "Unreachable"
    DELETING = "Deleting"
    FAILED = "Failed"


class MachineConditionType(StrEnum):
    INSTANCE_READY = "InstanceReady"
    AGENT_READY = "AgentReady"
    NODE_READY = "NodeReady"
    NODE_SYNCED = "NodeSynced"
    COMPONENTS_READY = "ComponentsReady"
    UP_TO_DATE = "UpToDate"
    HEALTHY = "Healthy"
    DELETABLE = "Deletable"
    AVAILABLE = "Available"


class NodeReference(Model):
    """Node of the machine."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the Node."""
    uid: str = Field(default="", max_length=128)
    """UID of the Node."""


class MachineProvisioning(Model):
    """Request to the provider. Written before the request is sent, so that it creates one instance
    only."""

    client_token: str = Field(default="", max_length=128)
    """Token that makes the request idempotent."""
    class_hash: str = Field(default="", max_length=32)
    """Class hash that the instance is created from."""
    attempts: StrictInt = Field(default=0, ge=0)
    """Number of attempts."""


class KubeletCertificate(Model):
    """Client certificate of the kubelet for the API server."""

    certificate_expires_at: Time | None = None
    """Expiry of the newest certificate. While a request is being signed, the latest possible
    expiry."""
    request_id: str = Field(default="", alias="requestID", max_length=128)
    """UID of the last CertificateSigningRequest that was approved for a bootstrap token."""
    reissued: str = Field(default="", max_length=64)
    """Value of annotation `kubenode.io/reissue` that was processed last, as for the agent."""


class MachineBootstrap(Model):
    """Identity of the agent of the machine."""

    token_id: str = Field(default="", alias="tokenID", max_length=6, pattern="^([a-z0-9]{6})?$")
    """ID of the bootstrap token that is valid or being created. Empty if none is needed."""
    certificate_expires_at: Time | None = None
    """Expiry of the newest certificate of the agent. While a request is being signed, the latest
    possible expiry."""
    request_id: str = Field(default="", alias="requestID", max_length=128)
    """UID of the last CertificateSigningRequest that was approved for a bootstrap token."""
    reissued: str = Field(default="", max_length=64)
    """Value of annotation `kubenode.io/reissue` that was processed last. Each value counts once."""
    kubelet: KubeletCertificate | None = None
    """Client certificate of the kubelet."""


class OperationState(StrEnum):
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class LastOperation(Model):
    """Last operation that a job requested from the provider."""

    id: str = Field(min_length=1, max_length=253)
    """Name of the RemedyOperationJob."""
    type: MachineOperationType
    """Type of the operation."""
    state: OperationState
    """State of the operation."""
    code: str = Field(default="", max_length=64)
    """Result code of the provider, such as `OK` or `RESOURCE_EXHAUSTED`."""
    at: Time | None = None
    """Time of the last change of state."""


class MachineHost(Model):
    """Host as observed by its agent."""

    boot_id: str = Field(default="", alias="bootID", max_length=64)
    """Boot ID of the host."""
    os: str = Field(default="", max_length=64)
    """ID and version from os-release, such as `debian-12`."""
    kernel: str = Field(default="", max_length=128)
    """Version of the kernel."""
    arch: str = Field(default="", max_length=32)
    """Architecture in the notation of Go, such as `amd64` or `arm64`."""
    agent: str = Field(default="", max_length=64)
    """Version of the agent."""


class RunState(StrEnum):
    RUNNING = "Running"
    STOPPED = "Stopped"
    FAILED = "Failed"
    ABSENT = "Absent"
    UNKNOWN = "Unknown"


class ComponentState(StrEnum):
    """State of one revision on one machine."""

    PENDING = "Pending"
    BLOCKED = "Blocked"
    STAGING = "Staging"
    STAGED = "Staged"
    APPLYING = "Applying"
    VERIFYING = "Verifying"
    HEALTHY = "Healthy"
    UNDOING = "Undoing"
    ROLLED_BACK = "RolledBack"
    FAILED = "Failed"
    UNHEALTHY = "Unhealthy"
    DRIFTED = "Drifted"
    DRIFT_FIGHT = "DriftFight"
    REMOVING = "Removing"
    ABSENT = "Absent"


class DriftKind(StrEnum):
    VERSION = "Version"
    FILE = "File"
    UNIT = "Unit"
    RUN_STATE = "RunState"
    HOLD = "Hold"


class Drift(Model):
    """Difference between the assigned and the actual state of the host."""

    kind: DriftKind
    """Kind of the difference."""
    path: str = Field(default="", max_length=1024)
    """Path or name of the object that differs."""
    count: StrictInt = Field(default=1, ge=1)
    """Number of recent corrections of the difference, at least 1."""
    since: Time | None = None
    """Time at which the difference was first found."""


class PreviousComponent(Model):
    """Component that the machine had before."""

    component: str = Field(max_length=253)
    """Name of the MachineComponent."""
    config_hash: str = Field(default="", max_length=32)
    """Hash of its configuration."""


class ComponentStatus(Model):
    """Component as observed by the agent."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    """Family of the component."""
    revision: str = Field(default="", max_length=32)
    """Revision of the assignment that the status describes."""
    attempt: StrictInt = Field(default=0, ge=0)
    """Attempt of the assignment that the status describes."""
    version: str = Field(default="", max_length=128)
    """Installed version."""
    config_hash: str = Field(default="", max_length=32)
    """Hash of the configuration on disk."""
    run_state: RunState = RunState.UNKNOWN
    """Whether the component runs."""
    state: ComponentState = ComponentState.PENDING
    """State of the revision on the machine."""
    previous: PreviousComponent | None = None
    """Component that the machine had before."""
    staged_at: Time | None = None
    """Time at which the download completed."""
    needs: ChangeClass | None = None
    """Disruption class of a change that waits for a permit."""
    drift: list[Drift] = Field(default_factory=list, max_length=10)
    """Differences between the assigned and the actual state."""
    reason: str = Field(default="", max_length=64)
    """Reason of the state in CamelCase."""
    message: str = Field(default="", max_length=1024)
    """Human-readable explanation of the state."""


class MachineStatus(Model):
    """Observed state of the machine."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    phase: MachinePhase | None = None
    """Summary of the state."""
    node_ref: NodeReference | None = None
    """Node of the machine."""
    initialized_at: Time | None = None
    """Time at which the machine was first initialized."""
    deletion_stage_since: Time | None = None
    """Time at which the deletion entered the stage that the reason of condition Deletable names."""
    provisioning: MachineProvisioning | None = None
    """Request to the provider."""
    bootstrap: MachineBootstrap | None = None
    """Identity of the agent of the machine."""
    last_operation: LastOperation | None = None
    """Last operation that a job requested from the provider."""
    host: MachineHost | None = None
    """Host as observed by its agent, which writes this field."""
    components: list[ComponentStatus] = Field(default_factory=list, max_length=MOST_COMPONENTS)
    """Components as observed by the agent, which writes this field."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the machine."""

    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!has(oldSelf.initializedAt) || has(self.initializedAt)"
            " && self.initializedAt == oldSelf.initializedAt",
            "stays as it was first written",
            "initializedAt",
        ),
    )

    def condition(self, type_: str) -> Condition | None:
        return next((c for c in self.conditions if c.type == type_), None)
