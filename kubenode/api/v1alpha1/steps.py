"""The steps of a repair: what each act is told.

Central steps are done by the operator through the API or a provider; an agent step is one of a
fixed catalogue, done on the host.
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
    """The fixed catalogue of repairs on a host. Nothing else can be asked of an agent."""

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
    """Mark the node unschedulable, under our annotation; a person's cordon stays theirs."""


class UncordonStep(StepBody):
    """Take off our own cordon."""


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
    """Collect evidence from the host."""

    bundle: list[BundlePart] = Field(
        default_factory=lambda: list[BundlePart](("dmesg", "journal", "runtime")),
        min_length=1,
        max_length=10,
    )
    timeout: Duration = timedelta(minutes=2)
    on_failure: OnFailure = OnFailure.CONTINUE


class CheckpointWebhook(Model):
    webhook: str = Field(min_length=1, max_length=128)
    """Name of a receiver in the operator's settings."""
    timeout: Duration = timedelta(minutes=5)


class Gang(Model):
    """Pods that live and die together, such as the ranks of one training job."""

    group_by: str = Field(min_length=1, max_length=317)
    """Label whose value names the gang."""
    checkpoint: CheckpointWebhook | None = None
    after_gang_ends: StrictBool = False


class PodPolicyMode(StrEnum):
    EVICT = "Evict"
    WAIT_FOR_COMPLETION = "WaitForCompletion"
    DELETE_AFTER = "DeleteAfter"
    NEVER = "Never"
    GANG = "Gang"


class PodVolume(StrEnum):
    """Where a pod keeps data that stay on the node when it leaves."""

    EMPTY_DIR = "EmptyDir"
    HOST_PATH = "HostPath"
    LOCAL = "Local"


class PodPolicy(Model):
    """How the pods that fit are moved; the first policy that fits a pod rules."""

    namespaces: list[Namespace] = Field(default_factory=list, max_length=64)
    """Empty: every namespace but the protected ones, which have to be named."""
    selector: LabelSelector | None = None
    """Absent: every pod."""
    owner_kinds: list[Name] = Field(default_factory=list, max_length=16)
    """Kinds of the pods' controllers, such as `StatefulSet`; `None` for pods without a controller.
    Empty: every owner."""
    volumes: list[PodVolume] = Field(default_factory=list, max_length=3)
    """Pods that keep data on the node in one of these ways. Empty: whatever they keep."""
    mode: PodPolicyMode
    after: Duration | None = None
    """For DeleteAfter: how long to wait for completion first."""
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
    """Evict by policy until no movable pod is left, PodDisruptionBudgets respected."""

    timeout: Duration = timedelta(minutes=15)
    grace_period: str = Field(default="pod", pattern=GRACE_PATTERN, max_length=32)
    """`pod` takes each pod's own terminationGracePeriodSeconds, or a duration."""
    on_timeout: OnTimeout = OnTimeout.YIELD
    pod_policies: list[PodPolicy] = Field(default_factory=list, max_length=32)
    surge: Literal["None", "First"] = "None"


class RebootStep(StepBody):
    """Boot the host again; the new boot ID is the proof."""

    via: list[PowerPath] = Field(
        default_factory=lambda: [PowerPath.AGENT, PowerPath.PROVIDER], min_length=1, max_length=2
    )
    timeout: Duration = timedelta(minutes=10)


class PowerStep(StepBody):
    """Switch the machine's power through its provider."""

    timeout: Duration = timedelta(minutes=10)


class FenceStep(StepBody):
    """Set the out-of-service taint, only with proof that the host is off."""


class ReplaceStep(StepBody):
    """Give the node's machine back and get another."""

    via: list[ReplacePath] = Field(
        default_factory=lambda: list(ReplacePath), min_length=1, max_length=4
    )
    surge: Literal["None", "First"] = "None"
    timeout: Duration = timedelta(minutes=30)


class RollbackComponentStep(StepBody):
    """Bring a component of the Machine back to its previous revision."""

    component: str = Field(min_length=1, max_length=253)
    timeout: Duration = timedelta(minutes=10)


class NodeKeyStep(StepBody):
    """Change one label or annotation of the Node that rules may set."""

    key: str = Field(min_length=1, max_length=317)


class LabelStep(NodeKeyStep):
    value: str = Field(default="", max_length=63)


class AnnotateStep(NodeKeyStep):
    value: str = Field(default="", max_length=1024)


class WaitStep(StepBody):
    for_: Duration = Field(alias="for")


class WaitForEventStep(StepBody):
    """Wait for a planned cloud event to be over."""

    until: list[Literal["Completed", "Cancelled", "NewBootID"]] = Field(min_length=1, max_length=3)
    on_cancel: Literal["Release", "Continue"] = "Release"
    timeout: Duration = timedelta(hours=2)


class WaitForApprovalStep(StepBody):
    timeout: Duration = timedelta(hours=24)


class ApproveEventStep(StepBody):
    """Tell the cloud that its planned act may start."""


class NotifyStep(StepBody):
    """Tell people: a Kubernetes Event on the Node, and the named receivers."""

    receivers: list[Name] = Field(default_factory=list, max_length=16)
    message: str = Field(default="", max_length=1024)
    on_failure: OnFailure = OnFailure.CONTINUE


class WebhookStep(StepBody):
    receiver: str = Field(min_length=1, max_length=128)
    """Name of a receiver in the operator's settings."""


class CreateObjectStep(StepBody):
    """Hand over to another remediator by creating an object of an allowed kind."""

    template: str = Field(min_length=1, max_length=253)
    """Name of a template in the operator's settings."""


UNIT_PATTERN = r"^[A-Za-z0-9:_.@\\-]+\.(service|socket|timer|target|mount|path)$"
LISTED_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"""Names in the host's own lists: no paths, and nothing that a shell reads."""
UNIT_ACTIONS = (
    AgentAction.RESTART_UNIT,
    AgentAction.START_UNIT,
    AgentAction.STOP_UNIT,
    AgentAction.RELOAD_UNIT,
)


class AgentStep(StepBody):
    """One repair of the fixed catalogue, done by the agent on the host."""

    action: AgentAction
    unit: str | None = Field(default=None, pattern=UNIT_PATTERN, max_length=255)
    """For RestartUnit, StartUnit, StopUnit, ReloadUnit: the systemd unit with its suffix."""
    check: str | None = Field(default=None, min_length=1, pattern=LISTED_PATTERN, max_length=128)
    """For RunCheck: name of a check installed on the host."""
    script: str | None = Field(default=None, min_length=1, pattern=LISTED_PATTERN, max_length=128)
    """For RunScript: name of a script installed on the host."""
    params: dict[str, Parameter] = Field(default_factory=dict, max_length=16)
    """Further parameters of the action."""
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
