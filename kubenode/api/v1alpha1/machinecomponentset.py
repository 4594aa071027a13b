"""MachineComponentSet: one component on selected machines, moved in batches."""

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
    """What becomes of the component on a machine that the set no longer selects."""

    ORPHAN = "Orphan"
    UNINSTALL = "Uninstall"


class FailurePolicy(StrEnum):
    PAUSE = "Pause"
    ROLLBACK = "Rollback"
    CONTINUE = "Continue"


class Spread(Model):
    topology_key: str = Field(min_length=1, max_length=317)
    """A label of the Machines, or `zone` for their failureDomain."""
    max_unavailable: Share


class AutoPause(Model):
    max_failures: Share = Field(default=1)
    """A batch with this many failed machines stops the set."""


class InspectionType(StrEnum):
    NODE_CONDITION = "NodeCondition"
    PROMQL = "PromQL"
    JOB = "Job"


class OnEmpty(StrEnum):
    INCONCLUSIVE = "Inconclusive"
    SUCCESS = "Success"
    FAILURE = "Failure"


class PromQLCheck(Model):
    query: str = Field(min_length=1, max_length=4096)
    """`${nodes}` stands for the batch's nodes as an alternation of a regular expression."""
    success: str = Field(pattern=r"^(>=|<=|>|<|==|!=) ?-?[0-9]+(\.[0-9]+)?$", max_length=32)
    """Must hold for every value of the answer: `> 0.99`."""
    on_empty: OnEmpty = OnEmpty.INCONCLUSIVE


class JobCheck(Model):
    config_map_ref: str = Field(min_length=1, max_length=253)
    """ConfigMap of namespace kubenode-components whose key `job.yaml` is a batch/v1 Job."""
    timeout: Duration = timedelta(minutes=5)


_INSPECTION_RULE = CelRule(
    "(self.type == 'NodeCondition') == has(self.nodeCondition)"
    " && (self.type == 'PromQL') == has(self.promQL) && (self.type == 'Job') == has(self.job)",
    "type says one check and the fields another: fill in nodeCondition, promQL or job, as the type",
)


class InspectionCheck(Model):
    name: str = Field(min_length=1, max_length=63)
    type: InspectionType
    node_condition: ConditionWanted | None = None
    prom_ql: PromQLCheck | None = Field(default=None, alias="promQL")
    job: JobCheck | None = None

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
    interval: Duration = timedelta(minutes=1)
    inconclusive_limit: StrictInt = Field(default=3, ge=1, le=1000)
    """So many answers in a row that say nothing pause the set."""
    checks: list[InspectionCheck] = Field(default_factory=list, max_length=16)


def _growing() -> list[int | str]:
    return [1, 5, 10, 50, 100]


class UpdateStrategy(Model):
    batches: list[Share] = Field(default_factory=_growing, min_length=1, max_length=64)
    """Size of each batch; the last repeats."""
    canary: LabelSelector | None = None
    """Machines that go first."""
    partition: Share = 0
    """So many machines, rounded up, stay at the revision before."""
    max_unavailable: Share = "10%"
    """Machines that may be down, for whatever reason."""
    spread: list[Spread] = Field(default_factory=list, max_length=8)
    ignore_unresponsive: Share = 0
    """So many members that do not answer are left out of the counts."""
    pre_stage: StrictBool = True
    """Whether the next batch downloads ahead."""
    bake_time: Duration = timedelta(minutes=10)
    machine_timeout: Duration = timedelta(minutes=15)
    max_attempts: StrictInt = Field(default=2, ge=1, le=10)
    progress_deadline: Duration = timedelta(hours=2)
    auto_pause: AutoPause = Field(default_factory=AutoPause)
    failure_policy: FailurePolicy = FailurePolicy.PAUSE
    inspection: Inspection = Field(default_factory=Inspection)
    window: TimeWindow | None = None
    """Nothing starts outside of it."""


NOT_EVERY_MACHINE = not_empty("selector", "empty and would mean every machine: write matchLabels")
VALUES_ARE_SMALL = CelRule(
    "!has(self.values)"
    f" || self.values.map(k, size(k) + size(self.values[k])).sum() <= {LARGEST_VALUES}",
    f"longer than {LARGEST_VALUES} characters together: put large texts into a file",
    "values",
)


class MachineComponentSetSpec(Model):
    selector: LabelSelector
    """Labels of Machines."""
    component: str = Field(min_length=1, max_length=253)
    """Name of the MachineComponent."""
    values: dict[str, Value] = Field(default_factory=dict, max_length=64)
    desired_state: DesiredState = DesiredState.RUNNING
    paused: StrictBool = False
    """No batch starts; joiners and drift are still served."""
    frozen: StrictBool = False
    """Nothing is done but certificates."""
    on_unselect: OnUnselect = OnUnselect.ORPHAN
    """Also when the set is deleted."""
    update_strategy: UpdateStrategy = Field(default_factory=UpdateStrategy)

    cel: ClassVar[tuple[CelRule, ...]] = (NOT_EVERY_MACHINE, VALUES_ARE_SMALL)

    @model_validator(mode="after")
    def _selects_some(self) -> "MachineComponentSetSpec":
        if self.selector.empty:
            raise NOT_EVERY_MACHINE.broken()
        if sum(len(k) + len(v) for k, v in self.values.items()) > LARGEST_VALUES:
            raise VALUES_ARE_SMALL.broken()
        return self


class RolloutPhase(StrEnum):
    """For people only: it is computed anew from what is seen."""

    IDLE = "Idle"
    STAGING = "Staging"
    UPDATING = "Updating"
    INSPECTING = "Inspecting"
    BAKING = "Baking"
    PAUSED = "Paused"
    ROLLING_BACK = "RollingBack"
    COMPLETED = "Completed"


class ComponentSetConditionType(StrEnum):
    """Reasons: Progressing (the phases, WaitingForPermit, WindowClosed, PartitionReached,
    DeadlineExceeded, AgentsUnknown), Paused (User, AutoPaused, InspectionFailed, Inconclusive,
    Frozen, Meltdown), Degraded (MachinesFailed, RolledBack, Conflict, VersionSkew,
    MissingComponent)."""

    PROGRESSING = "Progressing"
    PAUSED = "Paused"
    DEGRADED = "Degraded"


class MemberCounts(Model):
    machines: StrictInt = Field(default=0, ge=0)
    updated: StrictInt = Field(default=0, ge=0)
    healthy: StrictInt = Field(default=0, ge=0)
    unavailable: StrictInt = Field(default=0, ge=0)
    held: StrictInt = Field(default=0, ge=0)
    excluded: StrictInt = Field(default=0, ge=0)


class VersionCount(Model):
    version: str = Field(max_length=128)
    ready: StrictInt = Field(default=0, ge=0)
    unready: StrictInt = Field(default=0, ge=0)


MachineName = Annotated[str, StringConstraints(min_length=1, max_length=253)]


class BatchStatus(Model):
    """The batch under way, or the last one."""

    index: StrictInt = Field(default=0, ge=0)
    """From 1."""
    size: StrictInt = Field(default=0, ge=0)
    started_at: Time | None = None
    succeeded_at: Time | None = None
    """When the last of its machines was well at this revision."""
    bake_until: Time | None = None
    failed: list[MachineName] = Field(default_factory=list, max_length=32)
    inconclusive: StrictInt = Field(default=0, ge=0)
    """Inspections in a row that said nothing."""
    inspected_at: Time | None = None
    active_since: Time | None = None
    """Since when it could go on; empty while it is paused, held, or waits for permits."""
    active_before: Duration = timedelta(0)
    """How long it could go on before that."""
    ended_at: Time | None = None


class SetRevision(Model):
    """What a revision is made of, so that it can be gone back to."""

    name: str = Field(min_length=1, max_length=32)
    number: StrictInt = Field(default=1, ge=1)
    component: str = Field(max_length=253)
    values: dict[str, Value] = Field(default_factory=dict, max_length=64)
    desired_state: DesiredState = DesiredState.RUNNING
    created_at: Time | None = None


class MachineComponentSetStatus(Model):
    observed_generation: StrictInt = Field(default=0, ge=0)
    phase: RolloutPhase | None = None
    current_revision: str = Field(default="", max_length=32)
    """The last that was completed."""
    update_revision: str = Field(default="", max_length=32)
    rejected_revision: str = Field(default="", max_length=32)
    """Rolled back; not tried again."""
    counts: MemberCounts = Field(default_factory=MemberCounts)
    versions: list[VersionCount] = Field(default_factory=list, max_length=32)
    batch: BatchStatus | None = None
    revisions: list[SetRevision] = Field(default_factory=list, max_length=64)
    """The last 10, and all that are in use."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)


class MachineComponentSet(Resource):
    """One component on selected machines, moved in batches."""

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
