"""MachineComponentSet: assigns one component to selected machines and rolls it out in batches."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictBool, StrictInt, StringConstraints, model_validator

from kubenode.api.base import (
    API_VERSION,
    CelRule,
    Model,
    PrinterColumn,
    Resource,
    ResourceInfo,
)
from kubenode.api.duration import Duration
from kubenode.api.meta import Condition, LabelSelector, ObjectMeta, Time, not_empty
from kubenode.api.share import Share
from kubenode.api.v1alpha1.componentsource import ConditionWanted
from kubenode.api.v1alpha1.machinework import LARGEST_VALUES, DesiredState, Value
from kubenode.api.v1alpha1.window import TimeWindow


class OnUnselect(StrEnum):
    """Whether a machine that the set no longer selects keeps the component or loses it."""

    ORPHAN = "Orphan"
    UNINSTALL = "Uninstall"


class FailurePolicy(StrEnum):
    """Reaction to a failed batch: stop, return all machines to the previous revision, or go on."""

    PAUSE = "Pause"
    ROLLBACK = "Rollback"
    CONTINUE = "Continue"


class Spread(Model):
    """Limit on unavailable machines with the same value of a label."""

    topology_key: str = Field(min_length=1, max_length=317)
    """Label of the Machines, or `zone` for their failureDomain."""
    max_unavailable: Share
    """Maximum number or percentage of unavailable machines with the same value."""


class AutoPause(Model):
    """Threshold for a failed batch."""

    max_failures: Share = Field(default=1)
    """Number or percentage of failed machines in a batch at which `failurePolicy` applies."""


class InspectionType(StrEnum):
    NODE_CONDITION = "NodeCondition"
    PROMQL = "PromQL"
    JOB = "Job"


class OnEmpty(StrEnum):
    INCONCLUSIVE = "Inconclusive"
    SUCCESS = "Success"
    FAILURE = "Failure"


class PromQLCheck(Model):
    """Prometheus query."""

    query: str = Field(min_length=1, max_length=4096)
    """PromQL expression. `${nodes}` expands to a regular expression that matches the nodes of the
    batch."""
    success: str = Field(pattern=r"^(>=|<=|>|<|==|!=) ?-?[0-9]+(\.[0-9]+)?$", max_length=32)
    """Comparison that every value of the result must satisfy, such as `> 0.99`."""
    on_empty: OnEmpty = OnEmpty.INCONCLUSIVE
    """Result of the check if the query returns no value."""


class JobCheck(Model):
    """Kubernetes Job."""

    config_map_ref: str = Field(min_length=1, max_length=253)
    """Name of a ConfigMap in the namespace kubenode-components. Its key `job.yaml` contains a
    batch/v1 Job."""
    timeout: Duration = timedelta(minutes=5)
    """Maximum duration of the Job."""


_INSPECTION_RULE = CelRule(
    "(self.type == 'NodeCondition') == has(self.nodeCondition)"
    " && (self.type == 'PromQL') == has(self.promQL) && (self.type == 'Job') == has(self.job)",
    "type says one check and the fields another: fill in nodeCondition, promQL or job, as the type",
)


class InspectionCheck(Model):
    """Check of a batch."""

    name: str = Field(min_length=1, max_length=63)
    """Name of the check."""
    type: InspectionType
    """Type of the check."""
    node_condition: ConditionWanted | None = None
    """Required condition of each Node, for type NodeCondition."""
    prom_ql: PromQLCheck | None = Field(default=None, alias="promQL")
    """Prometheus query, for type PromQL."""
    job: JobCheck | None = None
    """Kubernetes Job, for type Job."""

    cel: ClassVar[tuple[CelRule, ...]] = (_INSPECTION_RULE,)

    @model_validator(mode="after")
    def _check_type(self) -> "InspectionCheck":
        given = {
            InspectionType.NODE_CONDITION: self.node_condition,
            InspectionType.PROMQL: self.prom_ql,
            InspectionType.JOB: self.job,
        }
        if any((self.type is t) != (value is not None) for t, value in given.items()):
            raise _INSPECTION_RULE.broken()
        return self


class Inspection(Model):
    """Checks of a batch before and after its bake time."""

    interval: Duration = timedelta(minutes=1)
    """Time between two inspections."""
    inconclusive_limit: StrictInt = Field(default=3, ge=1, le=1000)
    """Number of consecutive inconclusive results at which the set pauses."""
    checks: list[InspectionCheck] = Field(default_factory=list, max_length=16)
    """Checks, all of which must pass."""


def _growing() -> list[int | str]:
    return [1, 5, 10, 50, 100]


class UpdateStrategy(Model):
    """Strategy of a rollout."""

    batches: list[Share] = Field(default_factory=_growing, min_length=1, max_length=64)
    """Size of each batch. The last size repeats. Percentages round down to at least 1."""
    canary: LabelSelector | None = None
    """Machines that a rollout changes first."""
    partition: Share = 0
    """Number or percentage of machines that stay at the previous revision. Percentages round up."""
    max_unavailable: Share = "10%"
    """Maximum number or percentage of machines that are unavailable for any reason."""
    spread: list[Spread] = Field(default_factory=list, max_length=8)
    """Limits on unavailable machines with the same value of a label."""
    ignore_unresponsive: Share = 0
    """Maximum number or percentage of machines without agent heartbeat that are excluded from the
    counts."""
    pre_stage: StrictBool = True
    """Whether the next batch downloads the component in advance."""
    bake_time: Duration = timedelta(minutes=10)
    """Minimum time for which a batch must stay healthy before the next one starts."""
    machine_timeout: Duration = timedelta(minutes=15)
    """Maximum time for the change of one machine, from its permit on."""
    max_attempts: StrictInt = Field(default=2, ge=1, le=10)
    """Maximum number of attempts per machine."""
    progress_deadline: Duration = timedelta(hours=2)
    """Maximum time in which a batch must complete. Pauses, holds, closed windows and waits for
    permits do not count."""
    auto_pause: AutoPause = Field(default_factory=AutoPause)
    """Threshold at which `failurePolicy` applies."""
    failure_policy: FailurePolicy = FailurePolicy.PAUSE
    """Reaction to a failed batch."""
    inspection: Inspection = Field(default_factory=Inspection)
    """Checks of a batch."""
    window: TimeWindow | None = None
    """Time window in which changes may start. If absent, changes may start at any time."""


NOT_EVERY_MACHINE = not_empty("selector", "empty and would mean every machine: write matchLabels")
VALUES_ARE_SMALL = CelRule(
    "!has(self.values)"
    f" || self.values.map(k, size(k) + size(self.values[k])).sum() <= {LARGEST_VALUES}",
    f"longer than {LARGEST_VALUES} characters together: put large texts into a file",
    "values",
)


class MachineComponentSetSpec(Model):
    """Component to assign, the machines to assign it to, and the strategy of its rollout."""

    selector: LabelSelector
    """Label selector of Machines. Must not be empty."""
    component: str = Field(min_length=1, max_length=253)
    """Name of the MachineComponent."""
    values: dict[str, Value] = Field(default_factory=dict, max_length=64)
    """Values for `${values.NAME}` in files of the component."""
    desired_state: DesiredState = DesiredState.RUNNING
    """Desired state of the component on the machines."""
    paused: StrictBool = False
    """Whether no batch starts. New machines and drift are still handled."""
    frozen: StrictBool = False
    """Whether the set changes nothing on its machines. Only certificates are renewed."""
    on_unselect: OnUnselect = OnUnselect.ORPHAN
    """Handling of the component on a machine that is no longer selected, or if the set is deleted.
    """
    update_strategy: UpdateStrategy = Field(default_factory=UpdateStrategy)
    """Strategy of a rollout."""

    cel: ClassVar[tuple[CelRule, ...]] = (NOT_EVERY_MACHINE, VALUES_ARE_SMALL)

    @model_validator(mode="after")
    def _selects_some(self) -> "MachineComponentSetSpec":
        if self.selector.empty:
            raise NOT_EVERY_MACHINE.broken()
        if sum(len(k) + len(v) for k, v in self.values.items()) > LARGEST_VALUES:
            raise VALUES_ARE_SMALL.broken()
        return self


class RolloutPhase(StrEnum):
    """Summary of a rollout for people. The controller derives it from observations and never reads
    it."""

    IDLE = "Idle"
    STAGING = "Staging"
    UPDATING = "Updating"
    INSPECTING = "Inspecting"
    BAKING = "Baking"
    PAUSED = "Paused"
    ROLLING_BACK = "RollingBack"
    COMPLETED = "Completed"


class ComponentSetConditionType(StrEnum):
    """Condition types and their reasons.

    Progressing: the phases, WaitingForPermit, WindowClosed, PartitionReached, DeadlineExceeded,
    AgentsUnknown. Paused: User, AutoPaused, InspectionFailed, Inconclusive, Frozen, Meltdown.
    Degraded: MachinesFailed, RolledBack, Conflict, VersionSkew, MissingComponent.
    """

    PROGRESSING = "Progressing"
    PAUSED = "Paused"
    DEGRADED = "Degraded"


class MemberCounts(Model):
    """Number of machines by state."""

    machines: StrictInt = Field(default=0, ge=0)
    """Number of selected machines."""
    updated: StrictInt = Field(default=0, ge=0)
    """Number of machines at the update revision."""
    healthy: StrictInt = Field(default=0, ge=0)
    """Number of healthy machines."""
    unavailable: StrictInt = Field(default=0, ge=0)
    """Number of unavailable machines."""
    held: StrictInt = Field(default=0, ge=0)
    """Number of machines that a RemedyOperationJob holds."""
    excluded: StrictInt = Field(default=0, ge=0)
    """Number of machines that `ignoreUnresponsive` excludes from the counts."""


class VersionCount(Model):
    """Number of machines with one version of the component."""

    version: str = Field(max_length=128)
    """Version of the component."""
    ready: StrictInt = Field(default=0, ge=0)
    """Number of machines on which it is healthy."""
    unready: StrictInt = Field(default=0, ge=0)
    """Number of machines on which it is not healthy."""


MachineName = Annotated[str, StringConstraints(min_length=1, max_length=253)]


class BatchStatus(Model):
    """Current or last batch."""

    index: StrictInt = Field(default=0, ge=0)
    """Number of the batch, starting at 1."""
    size: StrictInt = Field(default=0, ge=0)
    """Number of machines in the batch."""
    started_at: Time | None = None
    """Start of the batch."""
    succeeded_at: Time | None = None
    """Time at which its last machine became healthy at this revision."""
    bake_until: Time | None = None
    """End of the bake time."""
    failed: list[MachineName] = Field(default_factory=list, max_length=32)
    """Names of failed machines."""
    inconclusive: StrictInt = Field(default=0, ge=0)
    """Number of consecutive inconclusive inspections."""
    inspected_at: Time | None = None
    """Time of the last inspection."""
    active_since: Time | None = None
    """Time since which the batch can progress. Absent while it is paused, held or waits for
    permits."""
    active_before: Duration = timedelta(0)
    """Time in which the batch could progress before `activeSince`."""
    ended_at: Time | None = None
    """End of the batch."""


class SetRevision(Model):
    """Content of a revision, kept for a rollback."""

    name: str = Field(min_length=1, max_length=32)
    """Name of the revision."""
    number: StrictInt = Field(default=1, ge=1)
    """Sequence number of the revision."""
    component: str = Field(max_length=253)
    """Name of the MachineComponent."""
    values: dict[str, Value] = Field(default_factory=dict, max_length=64)
    """Values of the revision."""
    desired_state: DesiredState = DesiredState.RUNNING
    """Desired state of the component."""
    created_at: Time | None = None
    """Time at which the revision was created."""


class MachineComponentSetStatus(Model):
    """Observed state of the set."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    phase: RolloutPhase | None = None
    """Summary of the rollout."""
    current_revision: str = Field(default="", max_length=32)
    """Last revision whose rollout completed."""
    update_revision: str = Field(default="", max_length=32)
    """Revision that the rollout assigns."""
    rejected_revision: str = Field(default="", max_length=32)
    """Revision that was rolled back and is not tried again."""
    counts: MemberCounts = Field(default_factory=MemberCounts)
    """Number of machines by state."""
    versions: list[VersionCount] = Field(default_factory=list, max_length=32)
    """Number of machines by version."""
    batch: BatchStatus | None = None
    """Current or last batch."""
    revisions: list[SetRevision] = Field(default_factory=list, max_length=64)
    """Last 10 revisions, and all revisions in use."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the set."""


class MachineComponentSet(Resource):
    """Assignment of one component to selected machines, rolled out in batches."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["MachineComponentSet"] = "MachineComponentSet"
    metadata: ObjectMeta
    spec: MachineComponentSetSpec
    status: MachineComponentSetStatus = Field(default_factory=MachineComponentSetStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="MachineComponentSet",
        plural="machinecomponentsets",
        short_name="kncs",
        columns=(
            PrinterColumn("Component", ".spec.component"),
            PrinterColumn("Machines", ".status.counts.machines", "integer"),
            PrinterColumn("Updated", ".status.counts.updated", "integer"),
            PrinterColumn("Healthy", ".status.counts.healthy", "integer"),
            PrinterColumn("Batch", ".status.batch.index", "integer"),
            PrinterColumn("Phase", ".status.phase"),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
