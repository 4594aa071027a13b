"""RemedyOperationJob: one incident on one node, from the decision to the verification."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import (
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    field_validator,
    model_validator,
)

from kubenode.api.base import API_VERSION, CelRule, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.duration import Duration
from kubenode.api.meta import Condition, ObjectMeta, Time
from kubenode.api.v1alpha1.ladder import Disruption, Rung
from kubenode.api.v1alpha1.leaves import Expression, shallow
from kubenode.api.v1alpha1.noderemedier import GroupScope, Mode, OnGiveUp, Receiver, Severity
from kubenode.api.v1alpha1.window import TimeWindow


class JobPhase(StrEnum):
    PENDING = "Pending"
    AWAITING_APPROVAL = "AwaitingApproval"
    AWAITING_PERMIT = "AwaitingPermit"
    RUNNING = "Running"
    VERIFYING = "Verifying"
    NEEDS_HUMAN = "NeedsHuman"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    SHADOWED = "Shadowed"

    @property
    def closed(self) -> bool:
        """Return whether the job has ended, so that the node may have another one."""
        return self in (self.SUCCEEDED, self.FAILED, self.CANCELLED, self.SHADOWED)


class StepState(StrEnum):
    WAITING = "Waiting"
    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"
    SKIPPED = "Skipped"
    CANCELLED = "Cancelled"


class StepBy(StrEnum):
    OPERATOR = "Operator"
    AGENT = "Agent"
    PROVIDER = "Provider"


class RequestState(StrEnum):
    """State of an agent request. Refused: not started; `output` has the reason."""

    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"
    REFUSED = "Refused"


class RemedierReference(Model):
    name: str = Field(min_length=1, max_length=253)
    uid: str = Field(max_length=128)
    generation: StrictInt = Field(ge=0)


class TriggerFact(Model):
    """Leaf as evaluated at the match."""

    atom: str = Field(max_length=512)
    value: StrictBool | None = None
    """Value of the leaf. Absent if unknown."""
    observed: Time | None = None
    source: str = Field(default="", max_length=128)


class Trigger(Model):
    first_true: Time
    facts: list[TriggerFact] = Field(default_factory=list, max_length=64)
    explanation: str = Field(default="", max_length=4096)


class InitialWait(Model):
    """Period in which a new job stays in Pending and requests nothing."""

    since: Time
    """Time of the decision."""
    not_before: Time
    reason: Literal["GroupWait", "StartupGrace"]
    """Reason of the wait that ends last."""
    group_wait: Duration = timedelta(0)
    """groupWait of the rule. Restarts if the fault clears and recurs."""
    startup_grace: Duration = timedelta(0)
    """startupGrace of the rule. Restarts if the node boots."""


class Approval(Model):
    required: StrictBool = False
    expires_after: Duration = timedelta(hours=24)


class ApprovalDecision(Model):
    """Decision of a person. Admission sets `by` and `at`.

    Approve, Deny: whether a job that waits for approval continues. Next, Retry: continue a job in
    NeedsHuman with the next or the same rung. Close: end a job in NeedsHuman as Failed.
    """

    decision: Literal["Approve", "Deny", "Next", "Retry", "Close"]
    rung: StrictInt | None = Field(default=None, ge=0, le=7)
    """For Next: index of the rung. Defaults to the following one."""
    by: str = Field(default="", max_length=256)
    at: Time | None = None
    note: str = Field(default="", max_length=1024)


class JobGroup(Model):
    """Group of nodes that the job is for, by `once` of its rule."""

    scope: GroupScope
    """Kind of group."""
    name: str = Field(default="", max_length=253)
    """Value of the group, such as the name of a rack. Empty for the cluster."""


class RemedyOperationJobSpec(Model):
    """Decision. Immutable except `approvals` and `cancel`."""

    node_name: str = Field(min_length=1, max_length=253)
    agent: str = Field(min_length=1, max_length=253)
    """Name of the agent: that of its Machine, else of the node."""
    node_uid: str = Field(default="", alias="nodeUID", max_length=128)
    remedier: RemedierReference | None = None
    """Rule that created the job. Absent for manual jobs."""
    trigger: Trigger
    mode: Mode = Mode.ENFORCE
    priority: StrictInt = Field(default=500, ge=0, le=1000)
    """Priority of the rule. A higher one can supersede the job."""
    severity: Severity = Severity.WARNING
    fault_class: str = Field(default="unknown", max_length=63)
    deadline: Time | None = None
    """Start of the planned event. Orders the queue."""
    host_events: list[Annotated[str, StringConstraints(max_length=253)]] = Field(
        default_factory=list, max_length=16
    )
    """Names of HostEvents in the evidence."""
    previous: str = Field(default="", max_length=253)
    """Job before the relapse."""
    supersedes: str = Field(default="", max_length=253)
    """Superseded job. Its cordon and permit are taken over."""
    initial_wait: InitialWait | None = None
    """Wait before the start. Absent if the job starts at once."""
    window: TimeWindow | None = None
    """Copy of the window of the rule."""
    group: JobGroup | None = None
    """Group that the job is for. Absent if the job is for its node alone."""
    start_rung: StrictInt = Field(default=0, ge=0, le=7)
    """Index of the first rung to run."""
    ladder: list[Rung] = Field(min_length=1, max_length=8)
    """Copy of the ladder of the rule."""
    when: Expression | None = None
    """Copy of the evidence of the rule."""
    unless: Expression | None = None
    """Copy of the guards of the rule."""
    on_give_up: OnGiveUp = OnGiveUp.HOLD
    notify: list[Receiver] = Field(default_factory=list, max_length=16)
    approval: Approval = Field(default_factory=Approval)
    approvals: list[ApprovalDecision] = Field(default_factory=list, max_length=16)
    """Decisions of people."""
    cancel: StrictBool = False
    """Whether to cancel the job."""
    ttl_after_finished: Duration = timedelta(hours=72)
    """Time after which a closed job is deleted. Does not apply to NeedsHuman."""

    mutable: ClassVar[tuple[str, ...] | None] = ("approvals", "cancel")
    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "self.startRung < size(self.ladder)",
            "beyond the ladder: write the index of a rung, the first is 0",
            "startRung",
        ),
    )
    _shallow = field_validator("when", "unless")(shallow())

    @model_validator(mode="after")
    def _starts_on_the_ladder(self) -> "RemedyOperationJobSpec":
        if self.start_rung >= len(self.ladder):
            raise self.cel[0].broken()
        return self


CHECK = "check"
"""Name of the record of a check in `verify.checks`, which only reads."""
EXCERPT = "excerpt"
"""Key in the output of a step `collect`: the most notable lines of the bundle."""
Output = Annotated[str, StringConstraints(max_length=1024)]


class StepStatus(Model):
    """Record of a step, written before its act so that the act runs at most once."""

    rung: StrictInt = Field(ge=0)
    index: StrictInt = Field(ge=0)
    name: str = Field(max_length=64)
    by: StepBy = StepBy.OPERATOR
    """Executor of the step."""
    request_id: str = Field(default="", alias="requestID", max_length=64)
    state: StepState = StepState.WAITING
    attempts: StrictInt = Field(default=0, ge=0)
    started_at: Time | None = None
    finished_at: Time | None = None
    asked_at: Time | None = None
    expires_at: Time | None = None
    """Time after which the request is refused."""
    boot_id: str = Field(default="", alias="bootID", max_length=64)
    """Boot ID at the request. Another boot ID refuses it."""
    message: str = Field(default="", max_length=1024)
    output: dict[str, Output] = Field(default_factory=dict, max_length=16)


class AgentRequest(Model):
    """Answer of the agent to a request."""

    state: RequestState
    boot_id: str = Field(default="", alias="bootID", max_length=64)
    started_at: Time | None = None
    finished_at: Time | None = None
    code: StrictInt | None = None
    output: str = Field(default="", max_length=4096)


class AgentAnswers(Model):
    requests: dict[str, AgentRequest] = Field(default_factory=dict, max_length=128)


class JobPermitStatus(Model):
    """Permit of the job."""

    name: str = Field(max_length=253)
    class_: Disruption = Field(alias="class")
    granted_at: Time | None = None
    expires_at: Time | None = None


PermitStatus = JobPermitStatus
"""Name that the job controller imports. A Permit has a status of its own."""


class Hold(Model):
    """Reason for which the job waits."""

    reason: str = Field(max_length=64)
    scope: str = Field(default="", max_length=317)
    message: str = Field(default="", max_length=1024)
    since: Time | None = None
    """Time since which the job waits, for any reason."""
    look_again_at: Time | None = None
    """Time of the next attempt."""


class Owned(Model):
    """Changes to undo, and the boot ID before a reboot."""

    cordon: StrictBool = False
    scale_down_disabled: StrictBool = False
    """Whether the job set the scale-down annotations of autoscalers."""
    fenced: StrictBool = False
    """Whether the out-of-service taint is set."""
    boot_id: str = Field(default="", alias="bootID", max_length=64)


class AlsoMatched(Model):
    remedier: str = Field(max_length=253)
    why: str = Field(max_length=256)


class Timeline(Model):
    fault_seen: Time | None = None
    job_created: Time | None = None
    permit_granted: Time | None = None
    cordoned: Time | None = None
    drained: Time | None = None
    acted: Time | None = None
    verified: Time | None = None
    closed: Time | None = None
    held: Duration | None = None
    """Total time for which the job waited."""
    pods_unavailable: Duration | None = None
    """Total time from eviction to a ready replacement, over all evicted pods."""


class RemedyOperationJobStatus(Model):
    observed_generation: StrictInt = Field(default=0, ge=0)
    phase: JobPhase = JobPhase.PENDING
    message: str = Field(default="", max_length=1024)
    rung: StrictInt = Field(default=0, ge=0)
    """Index of the current rung in the ladder."""
    step: StrictInt = Field(default=0, ge=0)
    """Index of the current step in the rung."""
    steps: list[StepStatus] = Field(default_factory=list, max_length=256)
    agent: AgentAnswers | None = None
    """Answers of the agent, which writes no other field."""
    permit: JobPermitStatus | None = None
    hold: Hold | None = None
    owned: Owned = Field(default_factory=Owned)
    also_matched: list[AlsoMatched] = Field(default_factory=list, max_length=64)
    words_heard: StrictInt = Field(default=0, ge=0)
    """Number of processed `spec.approvals`."""
    timeline: Timeline = Field(default_factory=Timeline)
    verifying_since: Time | None = None
    """Time at which the steps ended, from which the verification timeout counts."""
    evidence_false_since: Time | None = None
    """Time since which the evidence is false, during verification."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)


class RemedyOperationJob(Resource):
    """Incident on one node: evidence, repair and verification."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["RemedyOperationJob"] = "RemedyOperationJob"
    metadata: ObjectMeta
    spec: RemedyOperationJobSpec
    status: RemedyOperationJobStatus = Field(default_factory=RemedyOperationJobStatus)

    @property
    def began_irreversible(self) -> bool:
        """Return whether an irreversible step of any rung has started."""
        return any(self._irreversible(record) for record in self.status.steps if record.attempts)

    def _irreversible(self, record: StepStatus) -> bool:
        rungs = self.spec.ladder
        if record.name == CHECK:
            return False
        steps = rungs[record.rung].steps if record.rung < len(rungs) else []
        return record.index >= len(steps) or steps[record.index].irreversible

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="RemedyOperationJob",
        plural="remedyoperationjobs",
        short_name="knj",
        columns=(
            PrinterColumn("Node", ".spec.nodeName"),
            PrinterColumn("Remedier", ".spec.remedier.name"),
            PrinterColumn("Phase", ".status.phase"),
            PrinterColumn("Rung", ".status.rung", "integer"),
            PrinterColumn("Hold", ".status.hold.reason"),
            PrinterColumn("Why", ".status.hold.message", priority=1),
            PrinterColumn("Message", ".status.message", priority=1),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
        selectable_fields=(".spec.nodeName", ".spec.agent"),
    )

    @property
    def rung(self) -> Rung:
        """Return the current rung."""
        return self.spec.ladder[self.status.rung]
