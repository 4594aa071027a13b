"""RemedyOperationJob: one incident on one node, from the decision to the proof."""

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
from kubenode.api.v1alpha1.noderemedier import Mode, OnGiveUp, Receiver, Severity


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
        """Whether the job is over and the node may have another."""
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
    """What an agent says of a request: Refused was never started, and says why in `output`."""

    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"
    REFUSED = "Refused"


class RemedierReference(Model):
    name: str = Field(min_length=1, max_length=253)
    uid: str = Field(max_length=128)
    generation: StrictInt = Field(ge=0)


class TriggerFact(Model):
    """One leaf as it was read when the rule matched."""

    atom: str = Field(max_length=512)
    value: StrictBool | None = None
    """Absent means unknown."""
    observed: Time | None = None
    source: str = Field(default="", max_length=128)


class Trigger(Model):
    first_true: Time
    facts: list[TriggerFact] = Field(default_factory=list, max_length=64)
    explanation: str = Field(default="", max_length=4096)


class InitialWait(Model):
    """Time for which a job stays in Pending before it begins: it asks nothing of anybody."""

    since: Time
    """When the job was decided on, by the operator's clock."""
    not_before: Time
    reason: Literal["GroupWait", "StartupGrace"]
    """The one of both that ends last."""
    group_wait: Duration = timedelta(0)
    """The rule's as it was: it counts anew when the fault goes and comes back meanwhile."""
    startup_grace: Duration = timedelta(0)
    """The rule's as it was: it counts anew when the node boots meanwhile."""


class Approval(Model):
    required: StrictBool = False
    expires_after: Duration = timedelta(hours=24)


class ApprovalDecision(Model):
    """A person's word; `by` and `at` are set by admission from the caller.

    Approve, Deny  whether a job that waits for approval may go on
    Next, Retry    a job that needs a person goes on: with the next rung, or the same one again
    Close          a job that needs a person ends as Failed
    """

    decision: Literal["Approve", "Deny", "Next", "Retry", "Close"]
    rung: StrictInt | None = Field(default=None, ge=0, le=7)
    """For Next: another rung than the one that follows."""
    by: str = Field(default="", max_length=256)
    at: Time | None = None
    note: str = Field(default="", max_length=1024)


class RemedyOperationJobSpec(Model):
    """What was decided. Immutable but for `approvals` and `cancel`."""

    node_name: str = Field(min_length=1, max_length=253)
    agent: str = Field(min_length=1, max_length=253)
    """Name of the host's agent: its Machine, else the node."""
    node_uid: str = Field(default="", alias="nodeUID", max_length=128)
    remedier: RemedierReference | None = None
    """Absent for a job that a person started."""
    trigger: Trigger
    mode: Mode = Mode.ENFORCE
    priority: StrictInt = Field(default=500, ge=0, le=1000)
    """The rule's as it was: a rule with a higher one may supersede the job."""
    severity: Severity = Severity.WARNING
    fault_class: str = Field(default="unknown", max_length=63)
    deadline: Time | None = None
    """A planned event's time: queue by it."""
    host_events: list[Annotated[str, StringConstraints(max_length=253)]] = Field(
        default_factory=list, max_length=16
    )
    """Names of the HostEvents that are its evidence."""
    previous: str = Field(default="", max_length=253)
    """The job that this one follows after a relapse."""
    supersedes: str = Field(default="", max_length=253)
    """The job of a weaker rule, whose cordon and permit this one takes over."""
    initial_wait: InitialWait | None = None
    """Absent for a job that may begin at once."""
    start_rung: StrictInt = Field(default=0, ge=0, le=7)
    ladder: list[Rung] = Field(min_length=1, max_length=8)
    """The rule's ladder as it was."""
    when: Expression | None = None
    """The rule's evidence as it was."""
    unless: Expression | None = None
    """The rule's guards as they were."""
    on_give_up: OnGiveUp = OnGiveUp.HOLD
    notify: list[Receiver] = Field(default_factory=list, max_length=16)
    approval: Approval = Field(default_factory=Approval)
    approvals: list[ApprovalDecision] = Field(default_factory=list, max_length=16)
    cancel: StrictBool = False
    ttl_after_finished: Duration = timedelta(hours=72)
    """A closed job is deleted after this; NeedsHuman has no TTL."""

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
"""Name of the record of one of a rung's `verify.checks`: it only looks."""
Output = Annotated[str, StringConstraints(max_length=1024)]


class StepStatus(Model):
    """One act as it went. Written before the act, so that it happens at most once."""

    rung: StrictInt = Field(ge=0)
    index: StrictInt = Field(ge=0)
    name: str = Field(max_length=64)
    by: StepBy = StepBy.OPERATOR
    request_id: str = Field(default="", alias="requestID", max_length=64)
    state: StepState = StepState.WAITING
    attempts: StrictInt = Field(default=0, ge=0)
    started_at: Time | None = None
    finished_at: Time | None = None
    asked_at: Time | None = None
    expires_at: Time | None = None
    """After this the executor refuses the request."""
    boot_id: str = Field(default="", alias="bootID", max_length=64)
    """The host's boot ID when the act was asked for; another one refuses it."""
    message: str = Field(default="", max_length=1024)
    output: dict[str, Output] = Field(default_factory=dict, max_length=16)


class AgentRequest(Model):
    """An agent's answer to one request."""

    state: RequestState
    boot_id: str = Field(default="", alias="bootID", max_length=64)
    started_at: Time | None = None
    finished_at: Time | None = None
    code: StrictInt | None = None
    output: str = Field(default="", max_length=4096)


class AgentAnswers(Model):
    requests: dict[str, AgentRequest] = Field(default_factory=dict, max_length=128)


class JobPermitStatus(Model):
    """The Permit under which the job acts."""

    name: str = Field(max_length=253)
    class_: Disruption = Field(alias="class")
    granted_at: Time | None = None
    expires_at: Time | None = None


PermitStatus = JobPermitStatus
"""The name that the job controller imports; a Permit has a status of its own."""


class Hold(Model):
    """Why the job waits and when it looks again."""

    reason: str = Field(max_length=64)
    scope: str = Field(default="", max_length=317)
    message: str = Field(default="", max_length=1024)
    since: Time | None = None
    """When the job began to be held, whatever the reasons were."""
    look_again_at: Time | None = None


class Owned(Model):
    """What we must undo, and proof of a reboot."""

    cordon: StrictBool = False
    scale_down_disabled: StrictBool = False
    """The autoscalers' marks that keep the node, as far as they were not there before."""
    fenced: StrictBool = False
    """The out-of-service taint."""
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
    """Sum of the times that the job was held."""
    pods_unavailable: Duration | None = None
    """Sum over the evicted pods of the time from eviction to a ready replacement."""


class RemedyOperationJobStatus(Model):
    observed_generation: StrictInt = Field(default=0, ge=0)
    phase: JobPhase = JobPhase.PENDING
    message: str = Field(default="", max_length=1024)
    rung: StrictInt = Field(default=0, ge=0)
    """Index into the ladder."""
    step: StrictInt = Field(default=0, ge=0)
    """Index into the rung's steps."""
    steps: list[StepStatus] = Field(default_factory=list, max_length=256)
    agent: AgentAnswers | None = None
    """Written by the agent, and nothing else is."""
    permit: JobPermitStatus | None = None
    hold: Hold | None = None
    owned: Owned = Field(default_factory=Owned)
    also_matched: list[AlsoMatched] = Field(default_factory=list, max_length=64)
    words_heard: StrictInt = Field(default=0, ge=0)
    """How many of `spec.approvals` have been acted on: each is heard once."""
    timeline: Timeline = Field(default_factory=Timeline)
    verifying_since: Time | None = None
    """Since when the steps of the rung have been done: its verification times out from then."""
    evidence_false_since: Time | None = None
    """Since when the evidence has been known false, while verifying."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)


class RemedyOperationJob(Resource):
    """One incident on one node: what was seen, what is done about it, and the proof."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["RemedyOperationJob"] = "RemedyOperationJob"
    metadata: ObjectMeta
    spec: RemedyOperationJobSpec
    status: RemedyOperationJobStatus = Field(default_factory=RemedyOperationJobStatus)

    @property
    def began_irreversible(self) -> bool:
        """Whether a step was begun, in any rung, that cannot be undone."""
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
        """The rung that is being tried."""
        return self.spec.ladder[self.status.rung]
