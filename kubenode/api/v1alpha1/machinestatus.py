"""What is seen of a Machine: by the Machine operator, and, in two fields, by its agent.

An agent writes `host` and `components` of its own Machine and nothing else: see admission.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StrictInt, StringConstraints

from kubenode.api.base import CelRule, Model
from kubenode.api.meta import Condition, Time
from kubenode.api.v1alpha1.machinework import MOST_COMPONENTS, ChangeClass, MachineOperationType

WRITTEN_BY_AGENT = ("host", "components")
"""Fields of the status that are the agent's, by their names on the wire."""


class MachinePhase(StrEnum):
    """For people only: it is computed anew from what is seen."""

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
    name: str = Field(min_length=1, max_length=253)
    uid: str = Field(default="", max_length=128)


class MachineProvisioning(Model):
    """Written before the provider is asked, so that a machine is made once."""

    client_token: str = Field(default="", max_length=128)
    class_hash: str = Field(default="", max_length=32)
    attempts: StrictInt = Field(default=0, ge=0)


class KubeletCertificate(Model):
    """What was granted to its kubelet, for the API server; not for serving."""

    certificate_expires_at: Time | None = None
    """End of the newest certificate; while one is being signed, the latest it can be."""
    request_id: str = Field(default="", alias="requestID", max_length=128)
    """UID of the CertificateSigningRequest that was last granted to a token."""
    reissued: str = Field(default="", max_length=64)
    """As the agent's: a word for the one is one for the other."""


class MachineBootstrap(Model):
    """How its agent gets, and has, an identity."""

    token_id: str = Field(default="", alias="tokenID", max_length=6, pattern="^([a-z0-9]{6})?$")
    """Public half of the bootstrap token that is live, or being made; empty: none is wanted."""
    certificate_expires_at: Time | None = None
    """End of the agent's newest certificate; while one is being signed, the latest it can be."""
    request_id: str = Field(default="", alias="requestID", max_length=128)
    """UID of the CertificateSigningRequest that was last granted to a token."""
    reissued: str = Field(default="", max_length=64)
    """The value of annotation `kubenode.io/reissue` that has been honoured: each counts once."""
    kubelet: KubeletCertificate | None = None


class OperationState(StrEnum):
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class LastOperation(Model):
    id: str = Field(min_length=1, max_length=253)
    type: MachineOperationType
    state: OperationState
    code: str = Field(default="", max_length=64)
    """The provider's answer in our words, such as `OK` or `RESOURCE_EXHAUSTED`."""
    at: Time | None = None


class MachineHost(Model):
    """The host as its agent sees it."""

    boot_id: str = Field(default="", alias="bootID", max_length=64)
    os: str = Field(default="", max_length=64)
    """ID and version of os-release, such as `debian-12`."""
    kernel: str = Field(default="", max_length=128)
    arch: str = Field(default="", max_length=32)
    """As Go and Kubernetes name it: `amd64`, `arm64`."""
    agent: str = Field(default="", max_length=64)
    """Version of the agent."""


class RunState(StrEnum):
    RUNNING = "Running"
    STOPPED = "Stopped"
    FAILED = "Failed"
    ABSENT = "Absent"
    UNKNOWN = "Unknown"


class ComponentState(StrEnum):
    """The way of one revision on one machine."""

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
    """One thing on the host that is not as it was written."""

    kind: DriftKind
    path: str = Field(default="", max_length=1024)
    count: StrictInt = Field(default=1, ge=1)
    since: Time | None = None


class PreviousComponent(Model):
    component: str = Field(max_length=253)
    config_hash: str = Field(default="", max_length=32)


class ComponentStatus(Model):
    """One component as the agent finds it on the host."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    revision: str = Field(default="", max_length=32)
    """Echo of the spec that the rest speaks of."""
    attempt: StrictInt = Field(default=0, ge=0)
    """Likewise."""
    version: str = Field(default="", max_length=128)
    """What is installed."""
    config_hash: str = Field(default="", max_length=32)
    """What is on disk."""
    run_state: RunState = RunState.UNKNOWN
    state: ComponentState = ComponentState.PENDING
    previous: PreviousComponent | None = None
    staged_at: Time | None = None
    needs: ChangeClass | None = None
    """The class of change that waits for a permit."""
    drift: list[Drift] = Field(default_factory=list, max_length=10)
    reason: str = Field(default="", max_length=64)
    message: str = Field(default="", max_length=1024)


class MachineStatus(Model):
    observed_generation: StrictInt = Field(default=0, ge=0)
    phase: MachinePhase | None = None
    node_ref: NodeReference | None = None
    initialized_at: Time | None = None
    deletion_stage_since: Time | None = None
    """Since when the deletion has been in the stage that the reason of condition Deletable names.
    """
    provisioning: MachineProvisioning | None = None
    bootstrap: MachineBootstrap | None = None
    last_operation: LastOperation | None = None
    host: MachineHost | None = None
    """Written by the agent."""
    components: list[ComponentStatus] = Field(default_factory=list, max_length=MOST_COMPONENTS)
    """Written by the agent."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)

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
