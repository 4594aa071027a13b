"""The format of a labelled case. It is strict: an unknown word is a mistake of the author.

As the names of fields say, times are seconds, sizes are bytes and shares are percent. What a case
does not say in `facts` is unknown, never healthy. docs/reference/rules-report.md explains how cases
are used.
"""

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)


class CaseForm(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RepairClass(StrEnum):
    """What a first job does. LEVELS orders the classes by their possible harm."""

    NONE_OBSERVE = "none_observe"
    NOTIFY_ONLY = "notify_only"
    PARSE_ERROR = "parse_error"
    HOLD_STORM = "hold_storm"
    RESTART_SERVICE = "restart_service"
    DELETE_SANDBOX = "delete_sandbox"
    CLEAN_DISK = "clean_disk"
    TUNE_SYSCTL = "tune_sysctl"
    CORDON_ONLY = "cordon_only"
    CORDON_WAIT_HUMAN = "cordon_wait_human"
    UNCORDON_AFTER_EVENT = "uncordon_after_event"
    EVICT_DRAIN = "evict_drain"
    CORDON_DRAIN_WAIT_HUMAN = "cordon_drain_wait_human"
    APPROVE_EVENT = "approve_event"
    CORDON_DRAIN_REBOOT = "cordon_drain_reboot"
    GPU_RESET = "gpu_reset"
    CORDON_DRAIN_REPLACE = "cordon_drain_replace"
    FENCE_OUT_OF_SERVICE = "fence_out_of_service"

    @property
    def level(self) -> int:
        """Return the possible harm, from 0 (the node is left alone) to 4 (disruptive)."""
        return next(level for level, classes in enumerate(LEVELS) if self in classes)

    @property
    def acts(self) -> bool:
        return self.level >= 1


_R = RepairClass
LEVELS: tuple[frozenset[RepairClass], ...] = (
    frozenset({_R.NONE_OBSERVE, _R.NOTIFY_ONLY, _R.PARSE_ERROR, _R.HOLD_STORM}),
    frozenset({_R.RESTART_SERVICE, _R.DELETE_SANDBOX, _R.CLEAN_DISK, _R.TUNE_SYSCTL}),
    frozenset({_R.CORDON_ONLY, _R.CORDON_WAIT_HUMAN, _R.UNCORDON_AFTER_EVENT}),
    frozenset({_R.EVICT_DRAIN, _R.CORDON_DRAIN_WAIT_HUMAN, _R.APPROVE_EVENT}),
    frozenset(
        {_R.CORDON_DRAIN_REBOOT, _R.GPU_RESET, _R.CORDON_DRAIN_REPLACE, _R.FENCE_OUT_OF_SERVICE}
    ),
)

Ago = Annotated[StrictInt | StrictFloat, Field(le=0)]
"""Seconds relative to `now`."""
Seconds = Annotated[StrictInt | StrictFloat, Field(ge=0)]
Number = Annotated[StrictInt | StrictFloat, Field(ge=0)]
Percent = Annotated[StrictInt | StrictFloat, Field(ge=0, le=100)]
Count = Annotated[StrictInt, Field(ge=0)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=253)]
Word = Annotated[StrictStr, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class ConditionSignal(CaseForm):
    """A condition of a node.

    held_s: how long it has had this status; None for an entry of history.
    heartbeat_age_s: age of its last heartbeat; None if its reporter is alive.
    """

    signal: Literal["condition"]
    node: Name
    at_s: Ago
    type: Name
    status: Literal["True", "False", "Unknown"]
    reason: StrictStr = ""
    message: StrictStr = ""
    held_s: Seconds | None = None
    heartbeat_age_s: Seconds | None = None


class EventSignal(CaseForm):
    """An Event of a node.

    window_s: the time over which it was counted; None for the window of the rule that reads it.
    """

    signal: Literal["event"]
    node: Name
    at_s: Ago
    reason: Name
    message: StrictStr = ""
    count: Annotated[StrictInt, Field(ge=1)]
    window_s: Seconds | None = None


class LogSignal(CaseForm):
    signal: Literal["log"]
    node: Name
    at_s: Ago
    source: Literal[
        "kernel", "kubelet", "containerd", "systemd", "etcd", "smartd", "gpu_reset_tool"
    ]
    text: StrictStr


class AlertSignal(CaseForm):
    signal: Literal["alert"]
    at_s: Ago
    status: Literal["firing", "resolved"]
    labels: dict[str, StrictStr]


class HostEventSignal(CaseForm):
    signal: Literal["host_event"]
    at_s: Ago
    provider: Literal["aws", "azure", "gcp", "alibaba"]
    transport: Name
    payload: Any


Signal = Annotated[
    ConditionSignal | EventSignal | LogSignal | AlertSignal | HostEventSignal,
    Field(discriminator="signal"),
]


class CaseWorkload(CaseForm):
    kind: Name
    gang: StrictBool = False
    checkpoint_age_s: Seconds | None = None


class OpenHostEvent(CaseForm):
    provider: Literal["aws", "azure", "gcp", "alibaba"]
    event_id: StrictStr | None = None
    type: Name
    phase: Name
    duration_s: Number | None = None


class RecentAction(CaseForm):
    """A recent repair of this node by KubeNode."""

    action: Name
    ok: StrictBool
    age_s: Seconds


class UnitRestarts(CaseForm):
    unit: Name
    count: Count
    window_s: Annotated[StrictInt | StrictFloat, Field(gt=0)]


class RunningJob(CaseForm):
    step: Name
    state: Name
    elapsed_s: Seconds


class Pdb(CaseForm):
    name: Name
    disruptions_allowed: Count


class FleetFacts(CaseForm):
    """Facts about the other nodes; `unhealthy` does not include `in_remediation`."""

    nodes: Annotated[StrictInt, Field(ge=1)] | None = None
    unhealthy: Count = 0
    in_remediation: Count = 0
    cordoned_in_window: Count = 0
    window_s: Seconds | None = None
    repairs_last_hour: Count = 0
    pods_affected: Count = 0


Unit = Literal["active", "inactive", "failed"]


class Facts(CaseForm):
    """What a probe, the API server or the job store would answer at `now`; None is unknown."""

    node_roles: list[Literal["control-plane", "etcd", "worker"]] = Field(default_factory=list)
    control_plane_total: Count | None = None
    platform: Literal["vm", "bare_metal"] | None = None
    instance: StrictStr | None = None
    node_of_instance: dict[str, Name] = Field(default_factory=dict)
    node_object: Literal["present", "absent"] | None = None
    cloud_state: Literal["running", "stopped", "absent", "unknown"] | None = None
    agent: Literal["alive", "dead"] | None = None
    kubelet_state: Literal["running", "stopped", "hung"] | None = None
    runtime_state: Literal["ok", "hung", "error", "failed_after_restart"] | None = None
    units: dict[str, Unit] = Field(default_factory=dict)
    write_test: Literal["ok", "erofs"] | None = None
    write_test_path: StrictStr | None = None
    disk_used_pct: Percent | None = None
    inodes_used_pct: Percent | None = None
    disk_space_ok: StrictBool | None = None
    images_unused_bytes: Count | None = None
    clock_synchronized: StrictBool | None = None
    clock_offset_s: StrictInt | StrictFloat | None = None
    boot_clock_wrong: StrictBool | None = None
    d_state_process: StrictBool | None = None
    pid_max: Count | None = None
    pid_top_owner: Literal["workload", "system"] | None = None
    cgroup_count: Count | None = None
    inotify_watches_max: Count | None = None
    netns_count_high: StrictBool | None = None
    device_role: dict[str, Literal["root", "runtime", "data_volume"]] = Field(default_factory=dict)
    pods_stuck_terminating: Count | None = None
    statefulset_pods: StrictBool | None = None
    workloads: list[CaseWorkload] | None = None
    attached_node: Name | None = None
    nfs_server: StrictStr | None = None
    nodes_same_fault: Annotated[StrictInt, Field(ge=1)] | None = None
    recent_change: StrictBool | None = None
    stuck_s: Seconds | None = None
    taints: list[StrictStr] = Field(default_factory=list)
    """`key[:effect]`."""
    annotations: dict[str, StrictStr] = Field(default_factory=dict)
    unschedulable_before: StrictBool | None = None
    cordoned_by: Literal["kubenode", "other"] | None = None
    open_host_events: list[OpenHostEvent] = Field(default_factory=list)
    recent_actions: list[RecentAction] = Field(default_factory=list)
    restarts: list[UnitRestarts] = Field(default_factory=list)
    pool: Name | None = None
    pool_last_repair: Literal["succeeded", "failed"] | None = None
    job: RunningJob | None = None
    pdb: list[Pdb] = Field(default_factory=list)
    eviction_denied_by: Name | None = None
    fleet: FleetFacts | None = None


class Policy(CaseForm):
    """Limits in force for one case. Others have the default of Kube Defender."""

    max_unhealthy_pct: Percent | None = None
    applies_above_nodes: Count | None = None
    max_unhealthy: Count | None = None
    min_healthy: Count | None = None
    max_cordoned_pct: Percent | None = None
    window_s: Seconds | None = None
    max_repairs_per_hour: Annotated[StrictInt, Field(ge=1)] | None = None
    node_cooldown_s: Seconds | None = None
    max_control_plane_in_repair: Annotated[StrictInt, Field(ge=1)] | None = None
    pool_serial: StrictBool | None = None
    stop_pool_on_failure: StrictBool | None = None
    drain_timeout_s: Seconds | None = None


class When(StrEnum):
    """When an action is wrong.

    ALWAYS: at any step before a person approves.
    UNAPPROVED: the same; it is right once approved.
    FIRST: as the first changing step.
    SOLE: as the only changing step.
    REPEAT: more than once.
    UNVERIFIED: without a probe before it.
    MANY: on more than one node at a time.
    """

    ALWAYS = "always"
    UNAPPROVED = "unapproved"
    FIRST = "first"
    SOLE = "sole"
    REPEAT = "repeat"
    UNVERIFIED = "unverified"
    MANY = "many"


class MustNot(CaseForm):
    action: Word
    when: When


class Parsed(CaseForm):
    """How many events of each kind the parser returns."""

    open: Count
    finished: Count


class Expected(CaseForm):
    fault_class: Word
    fault_also_ok: list[Word] = Field(default_factory=list)
    repair_class: RepairClass
    also_ok: list[RepairClass] = Field(default_factory=list)
    escalates_to: RepairClass | None = None
    first_action: Word
    target: Name | None = None
    max_jobs: Count | None = None
    parsed: Parsed | None = None
    must_not: list[MustNot] = Field(default_factory=list)

    @property
    def allowed(self) -> tuple[RepairClass, ...]:
        return (self.repair_class, *self.also_ok)

    @property
    def names_target(self) -> bool:
        """Return whether the case names a target.

        A target of null means that no node may be acted on.
        """
        return "target" in self.model_fields_set


class CaseKind(StrEnum):
    CONDITION = "condition"
    EVENT = "event"
    LOG = "log"
    ALERT = "alert"
    HOST_EVENT = "host_event"
    FLEET = "fleet"
    GUARD = "guard"


class Stage(StrEnum):
    """The part of the product whose answer is judged."""

    PARSE = "parse"
    DECIDE = "decide"
    GATE = "gate"
    JOB = "job"


class Origin(StrEnum):
    """Where the fault of a case was described."""

    THREAD = "thread"
    DOCUMENT = "document"
    OWN = "own"


_THREAD = re.compile(r"#\d+")
"""The number of an issue or pull request, as in kubernetes/kubernetes#43516."""


class Case(CaseForm):
    """A labelled case; `why` and `outcome` are for people and are not used."""

    id: Name
    kind: CaseKind
    stage: Stage
    node: Name
    now: datetime
    signals: list[Signal] = Field(min_length=1)
    facts: Facts = Field(default_factory=Facts)
    policy: Policy = Field(default_factory=Policy)
    expected: Expected
    why: StrictStr = ""
    outcome: StrictStr = ""
    truth: Literal["B", "C"]
    input_truth: Literal["verbatim", "shortened", "assembled"]
    source: StrictStr

    @property
    def origin(self) -> Origin:
        if self.source == Origin.OWN:
            return Origin.OWN
        return Origin.THREAD if _THREAD.search(self.source) else Origin.DOCUMENT

    @field_validator("now")
    @classmethod
    def _has_a_zone(cls, now: datetime) -> datetime:
        if now.tzinfo is None:
            raise ValueError("no time zone: write it as 2026-01-10T10:00:30Z")
        return now

    @model_validator(mode="after")
    def _oldest_first(self) -> "Case":
        ages = [signal.at_s for signal in self.signals]
        if ages != sorted(ages):
            raise ValueError("signals: not in the order of time: write the oldest first")
        return self
