"""Steps of a repair and their parameters.

The operator runs central steps through the API or a provider. The agent runs agent steps, which
come from a fixed catalogue, on the host.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import (
    Field,
    StrictBool,
    StringConstraints,
    model_validator,
)

from kubenode.api.base import CelRule, Model
from kubenode.api.duration import PATTERN, Duration
from kubenode.api.meta import LabelSelector, not_empty


class OnFailure(StrEnum):
    ESCALATE = "Escalate"
    CONTINUE = "Continue"
    STOP = "Stop"


class OnTimeout(StrEnum):
    YIELD = "Yield"
    ESCALATE = "Escalate"
    STOP = "Stop"
    DELETE = "Delete"


class PowerPath(StrEnum):
    AGENT = "Agent"
    PROVIDER = "Provider"


class ReplacePath(StrEnum):
    MACHINE = "Machine"
    CLUSTER_API = "ClusterAPI"
    KARPENTER = "Karpenter"
    INSTANCE_GROUP = "InstanceGroup"


class AgentAction(StrEnum):
    """Fixed catalogue of repairs on a host. An agent accepts no other actions."""

    RESTART_UNIT = "RestartUnit"
    START_UNIT = "StartUnit"
    STOP_UNIT = "StopUnit"
    RELOAD_UNIT = "ReloadUnit"
    KILL_PROCESS = "KillProcess"
    CLEAN_DISK = "CleanDisk"
    SYNC_TIME = "SyncTime"
    RESTART_NETWORK = "RestartNetwork"
    REMOUNT_FILESYSTEM = "RemountFilesystem"
    LOAD_MODULE = "LoadModule"
    RELOAD_MODULE = "ReloadModule"
    SET_SYSCTL = "SetSysctl"
    DELETE_SANDBOX = "DeleteSandbox"
    RESET_GPU = "ResetGPU"
    RENEW_CERTIFICATE = "RenewCertificate"
    REPAIR_COMPONENT = "RepairComponent"
    RUN_CHECK = "RunCheck"
    RUN_SCRIPT = "RunScript"


Name = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Namespace = Annotated[str, StringConstraints(min_length=1, max_length=63)]
Parameter = Annotated[str, StringConstraints(max_length=1024)]


class StepBody(Model):
    timeout: Duration = timedelta(minutes=5)
    on_failure: OnFailure = OnFailure.ESCALATE


class CordonStep(StepBody):
    """Cordon the node. Leaves a manual cordon unchanged."""


class UncordonStep(StepBody):
    """Remove the cordon of the job."""


BundlePart = Literal[
    "dmesg",
    "journal",
    "runtime",
    "kubelet",
    "network",
    "units",
    "disks",
    "pressure",
    "processes",
    "system",
]


class CollectStep(StepBody):
    """Collect diagnostics from the host."""

    bundle: list[BundlePart] = Field(
        default_factory=lambda: list[BundlePart](("dmesg", "journal", "runtime")),
        min_length=1,
        max_length=10,
    )
    timeout: Duration = timedelta(minutes=2)
    on_failure: OnFailure = OnFailure.CONTINUE


class CheckpointWebhook(Model):
    webhook: str = Field(min_length=1, max_length=128)
    """Name of a receiver in the settings of the operator."""
    timeout: Duration = timedelta(minutes=5)


class Gang(Model):
    """Pods that run together, such as the ranks of a training job."""

    group_by: str = Field(min_length=1, max_length=317)
    """Label whose value identifies the gang."""
    checkpoint: CheckpointWebhook | None = None
    after_gang_ends: StrictBool = False


class PodPolicyMode(StrEnum):
    EVICT = "Evict"
    WAIT_FOR_COMPLETION = "WaitForCompletion"
    DELETE_AFTER = "DeleteAfter"
    NEVER = "Never"
    GANG = "Gang"


class PodVolume(StrEnum):
    """Type of storage in which a pod keeps data on the node."""

    EMPTY_DIR = "EmptyDir"
    HOST_PATH = "HostPath"
    LOCAL = "Local"


class PodPolicy(Model):
    """Handling of matching pods. The first match applies."""

    namespaces: list[Namespace] = Field(default_factory=list, max_length=64)
    """Namespaces. If empty, all except protected ones, which must be listed."""
    selector: LabelSelector | None = None
    """Pod selector. If absent, all pods."""
    owner_kinds: list[Name] = Field(default_factory=list, max_length=16)
    """Kinds of controllers, such as `StatefulSet`; `None` matches pods without one. If empty, any.
    """
    volumes: list[PodVolume] = Field(default_factory=list, max_length=3)
    """Storage types of data on the node. If empty, any."""
    mode: PodPolicyMode
    after: Duration | None = None
    """For DeleteAfter: time to wait for completion."""
    gang: Gang | None = None

    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "(self.mode == 'DeleteAfter') == has(self.after)",
            "mode DeleteAfter needs `after`, and no other mode takes it",
        ),
        CelRule(
            "(self.mode == 'Gang') == has(self.gang)",
            "mode Gang needs `gang`, and no other mode takes it",
        ),
        not_empty("selector", "empty and would mean every pod: write matchLabels or leave it out"),
    )

    @model_validator(mode="after")
    def _mode_has_its_parts(self) -> "PodPolicy":
        after, gang, some_pods = self.cel
        if (self.mode is PodPolicyMode.DELETE_AFTER) != (self.after is not None):
            raise after.broken()
        if (self.mode is PodPolicyMode.GANG) != (self.gang is not None):
            raise gang.broken()
        if self.selector is not None and self.selector.empty:
            raise some_pods.broken()
        return self


GRACE_PATTERN = f"^pod$|{PATTERN}"


class MigrateStep(StepBody):
    """Evict movable pods by policy. Respects PodDisruptionBudgets."""

    timeout: Duration = timedelta(minutes=15)
    grace_period: str = Field(default="pod", pattern=GRACE_PATTERN, max_length=32)
    """Duration, or `pod` for terminationGracePeriodSeconds of each pod."""
    on_timeout: OnTimeout = OnTimeout.YIELD
    pod_policies: list[PodPolicy] = Field(default_factory=list, max_length=32)
    surge: Literal["None", "First"] = "None"


class RebootStep(StepBody):
    """Reboot the host. A new boot ID proves success."""

    via: list[PowerPath] = Field(
        default_factory=lambda: [PowerPath.AGENT, PowerPath.PROVIDER], min_length=1, max_length=2
    )
    timeout: Duration = timedelta(minutes=10)


class PowerStep(StepBody):
    """Switch the power through the provider."""

    timeout: Duration = timedelta(minutes=10)


class FenceStep(StepBody):
    """Set the out-of-service taint if the host is proven off."""


class ReplaceStep(StepBody):
    """Replace the machine of the node."""

    via: list[ReplacePath] = Field(
        default_factory=lambda: list(ReplacePath), min_length=1, max_length=4
    )
    surge: Literal["None", "First"] = "None"
    timeout: Duration = timedelta(minutes=30)


class RollbackComponentStep(StepBody):
    """Roll back a component to its previous revision."""

    component: str = Field(min_length=1, max_length=253)
    timeout: Duration = timedelta(minutes=10)


class NodeKeyStep(StepBody):
    """Change one allowed label or annotation of the Node."""

    key: str = Field(min_length=1, max_length=317)


class LabelStep(NodeKeyStep):
    value: str = Field(default="", max_length=63)


class AnnotateStep(NodeKeyStep):
    value: str = Field(default="", max_length=1024)


class WaitStep(StepBody):
    for_: Duration = Field(alias="for")


class WaitForEventStep(StepBody):
    """Wait for the end of a planned cloud event."""

    until: list[Literal["Completed", "Cancelled", "NewBootID"]] = Field(min_length=1, max_length=3)
    on_cancel: Literal["Release", "Continue"] = "Release"
    timeout: Duration = timedelta(hours=2)


class WaitForApprovalStep(StepBody):
    timeout: Duration = timedelta(hours=24)


class ApproveEventStep(StepBody):
    """Approve the start of a planned cloud event."""


class NotifyStep(StepBody):
    """Send a Node Event and notify the receivers."""

    receivers: list[Name] = Field(default_factory=list, max_length=16)
    message: str = Field(default="", max_length=1024)
    on_failure: OnFailure = OnFailure.CONTINUE


class WebhookStep(StepBody):
    receiver: str = Field(min_length=1, max_length=128)
    """Name of a receiver in the settings of the operator."""


class CreateObjectStep(StepBody):
    """Delegate to another remediator by an object of an allowed kind."""

    template: str = Field(min_length=1, max_length=253)
    """Name of a template in the settings of the operator."""


UNIT_PATTERN = r"^[A-Za-z0-9:_.@\\-]+\.(service|socket|timer|target|mount|path)$"
LISTED_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"""Names in lists of the host: no paths and no shell metacharacters."""
UNIT_ACTIONS = (
    AgentAction.RESTART_UNIT,
    AgentAction.START_UNIT,
    AgentAction.STOP_UNIT,
    AgentAction.RELOAD_UNIT,
)


class AgentStep(StepBody):
    """Run one repair of the fixed catalogue on the host."""

    action: AgentAction
    unit: str | None = Field(default=None, pattern=UNIT_PATTERN, max_length=255)
    """systemd unit with suffix, for RestartUnit, StartUnit, StopUnit and ReloadUnit."""
    check: str | None = Field(default=None, min_length=1, pattern=LISTED_PATTERN, max_length=128)
    """Name of a check on the host, for RunCheck."""
    script: str | None = Field(default=None, min_length=1, pattern=LISTED_PATTERN, max_length=128)
    """Name of a script on the host, for RunScript."""
    params: dict[str, Parameter] = Field(default_factory=dict, max_length=16)
    """Additional parameters."""
    timeout: Duration = timedelta(minutes=2)

    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            f"(self.action in {[str(a) for a in UNIT_ACTIONS]}) == has(self.unit)",
            "RestartUnit, StartUnit, StopUnit and ReloadUnit need `unit`, no other action takes it",
        ),
        CelRule(
            "(self.action == 'RunCheck') == has(self.check)",
            "RunCheck needs `check`, no other action takes it",
        ),
        CelRule(
            "(self.action == 'RunScript') == has(self.script)",
            "RunScript needs `script`, no other action takes it",
        ),
    )

    @model_validator(mode="after")
    def _action_has_its_parts(self) -> "AgentStep":
        unit, check, script = self.cel
        if (self.action in UNIT_ACTIONS) != (self.unit is not None):
            raise unit.broken()
        if (self.action is AgentAction.RUN_CHECK) != (self.check is not None):
            raise check.broken()
        if (self.action is AgentAction.RUN_SCRIPT) != (self.script is not None):
            raise script.broken()
        return self
