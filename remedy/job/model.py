"""Data model of one job's decision: what is stored (Job), what is observed (JobObservation) and
what may be done (JobAct).

Nothing here decides and nothing here does I/O. Job holds the spec and status models of the API as
they are; they are never changed in place, only copied with changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from kubenode.api.decisions import CANCELLED_BY, STARTED_BY
from kubenode.api.meta import Condition, ConditionStatus, format_time
from kubenode.api.v1alpha1 import (
    Disruption,
    JobPhase,
    Mode,
    RemedyOperationJob,
    Rung,
    Step,
    Verdict,
)
from kubenode.api.v1alpha1.remedyoperationjob import (
    AgentRequest,
    AlsoMatched,
    RemedyOperationJobSpec,
    RemedyOperationJobStatus,
    StepBy,
    StepState,
    StepStatus,
)
from kubenode.runtime.drain.observation import Blocked as Blocked
from kubenode.runtime.drain.observation import Pods as Pods
from kubenode.runtime.telemetry.places import ANNOTATION as TRACEPARENT
from remedy.plannedevents.observation import EventObservation
from remedy.power.observation import PowerObservation, RequestOutcome
from rules.history import DAWN
from rules.truth import Truth

FINALIZER = "kubenode.io/remedy"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint that makes Kubernetes delete a node's pods and detach its volumes: the node counts as shut
down.
"""
FENCED_BY = "kubenode.io/fenced-by"
"""Annotation on a Node: the name of the job that set the out-of-service taint."""
ALSO_MATCHED = "kubenode.io/also-matched"
"""Annotation on a job: the matching rules that were not chosen, one `name: why` per line."""
REQUESTED = "kubenode.io/requested"
"""Annotation on a job: the last request to a provider that must not be sent twice. It is written
before the request is sent, and survives the removal of the status.
"""
NOTED_PARTS = 4
"""Number of space-separated fields in the annotation REQUESTED."""
ACTED = "Acted"
"""Condition type: the rung's steps are done, and verification has begun."""
CLOSING = "Closing"
"""Condition type of a job that is decided to end and first undoes its own changes."""


class StepAct(StrEnum):
    """Base of the acts that belong to one kind of step. The module of the kind declares them, and
    `remedy.job.stepaccess` finds the object that carries them out by this class.
    """

    @property
    def asks_provider(self) -> bool:
        """Report whether the act sends a provider a request that the step recorded before."""
        return False


class JobAct(StrEnum):
    """The one change of the outside world that a round makes; each is idempotent. The acts of
    single kinds of steps are a StepAct.
    """

    NONE = "None"
    ADD_FINALIZER = "AddFinalizer"
    REMOVE_FINALIZER = "RemoveFinalizer"
    NOTE_REQUEST = "NoteRequest"
    ASK_PERMIT = "AskPermit"
    RENEW_PERMIT = "RenewPermit"
    RELEASE_PERMIT = "ReleasePermit"
    CORDON = "Cordon"
    UNCORDON = "Uncordon"
    ADOPT_CORDON = "TakeOver"
    DELETE = "Delete"
    PROTECT = "Protect"
    UNPROTECT = "Unprotect"


Act = JobAct | StepAct


class CloseReason(StrEnum):
    """Why a job ends. It survives a restart as the reason of the condition Closing."""

    PROVEN = "Proven"
    CHECKED = "ChecksPassed"
    """Verified by its checks while the evidence is not known false: some evidence is never taken
    back.
    """
    NOTIFIED = "Notified"
    """The ladder only notifies, people were notified, and the fault lasts."""
    SUPERSEDED = "Superseded"
    GAVE_UP = "GaveUp"
    FAULT_GONE = "FaultGone"
    NODE_GONE = "NodeGone"
    PERSON_CANCELLED = "PersonCancelled"
    PERSON_UNCORDONED = "PersonUncordoned"
    DENIED = "Denied"
    APPROVAL_EXPIRED = "ApprovalExpired"
    PERSON_CLOSED = "PersonClosed"
    JOB_DELETED = "JobDeleted"
    EVENT_CANCELLED = "EventCancelled"

    @property
    def phase(self) -> JobPhase:
        """Return the closed phase that the reason leads to: Succeeded, Failed or Cancelled."""
        match self:
            case CloseReason.PROVEN | CloseReason.CHECKED | CloseReason.NOTIFIED:
                return JobPhase.SUCCEEDED
            case CloseReason.GAVE_UP | CloseReason.PERSON_CLOSED:
                return JobPhase.FAILED
            case _:
                return JobPhase.CANCELLED

    @property
    def outlasts_the_job(self) -> bool:
        """Report whether no other job may follow while the incident lasts: the job gave up, was
        deleted or waited too long for approval, a person decided, or the evidence stayed after its
        checks passed or people were notified.
        """
        return self not in _INCIDENT_ENDED


_INCIDENT_ENDED = frozenset(
    {
        CloseReason.PROVEN,
        CloseReason.SUPERSEDED,
        CloseReason.FAULT_GONE,
        CloseReason.NODE_GONE,
        CloseReason.EVENT_CANCELLED,
    }
)
INCIDENT_ENDS = timedelta(minutes=10)
"""An incident ends when its evidence has been known false for this long."""


@dataclass(frozen=True, slots=True)
class Requested:
    """Content of the annotation REQUESTED.

    word: `reset` or `replace`
    boot_id: boot ID of the host that the request was meant for, `-` if unknown
    requested_at: when the step recorded that it is about to send the request
    """

    word: str
    request_id: str
    boot_id: str
    requested_at: datetime

    @classmethod
    def of(cls, text: str | None) -> "Requested | None":
        """Parse the annotation; return None if it is absent or cannot be parsed."""
        parts = (text or "").split(" ")
        if len(parts) != NOTED_PARTS:
            return None
        word, request_id, boot_id, at = parts
        try:
            requested_at = datetime.fromisoformat(at)
        except ValueError:
            return None
        return (
            cls(word, request_id, boot_id, requested_at)
            if requested_at.tzinfo is not None
            else None
        )

    def __str__(self) -> str:
        return f"{self.word} {self.request_id} {self.boot_id} {format_time(self.requested_at)}"


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is stored.

    created: creation time by the API server's clock
    finalizer: whether the job carries our finalizer
    """

    name: str
    uid: str
    created: datetime
    spec: RemedyOperationJobSpec
    status: RemedyOperationJobStatus
    deleting: bool = False
    finalizer: bool = False
    also_matched: tuple[AlsoMatched, ...] = ()
    """Rules that were not chosen, as the remedier wrote them beside the spec; copied to the first
    status.
    """
    requested: Requested | None = None
    """Last provider request in the annotation REQUESTED; None if there is none."""
    generation: int = field(default=0, compare=False)
    resource_version: str = field(default="", compare=False)
    traceparent: str = field(default="", compare=False)
    """Trace context of the fault, written by the creator of the job; "": it derives from the job's
    uid.
    """
    started_by: str = field(default="", compare=False)
    """Who made a job that no rule made, as admission signed it; "" if nobody. `cancelled_by` names
    who cancelled the job in the same way.
    """
    cancelled_by: str = field(default="", compare=False)

    @classmethod
    def of(cls, obj: RemedyOperationJob) -> "Job":
        """Convert the API object. Raises ValueError if it has no creationTimestamp."""
        if obj.metadata.creation_timestamp is None:
            raise ValueError(
                f"job {obj.metadata.name} has no creationTimestamp: not read from a server"
            )
        return cls(
            name=obj.metadata.name,
            uid=obj.metadata.uid,
            created=obj.metadata.creation_timestamp,
            spec=obj.spec,
            status=obj.status,
            deleting=obj.metadata.deletion_timestamp is not None,
            finalizer=FINALIZER in obj.metadata.finalizers,
            also_matched=_also_matched(obj.metadata.annotations.get(ALSO_MATCHED)),
            requested=Requested.of(obj.metadata.annotations.get(REQUESTED)),
            generation=obj.metadata.generation,
            resource_version=obj.metadata.resource_version,
            traceparent=obj.metadata.annotations.get(TRACEPARENT, ""),
            started_by=obj.metadata.annotations.get(STARTED_BY, ""),
            cancelled_by=obj.metadata.annotations.get(CANCELLED_BY, ""),
        )

    def having(self, **changes: Any) -> "Job":
        """Return a copy of this job with changes to its status."""
        return replace(self, status=self.status.model_copy(update=changes))

    @property
    def phase(self) -> JobPhase:
        return self.status.phase

    @property
    def mark(self) -> str:
        """Value of the annotations CORDONED_BY and FENCED_BY on a node that this job cordoned or
        fenced.
        """
        return self.name

    @property
    def rung(self) -> Rung:
        return self.spec.ladder[self.status.rung]

    @property
    def disruption(self) -> Disruption:
        return self.rung.disruption_class

    @property
    def step(self) -> Step | None:
        """The step that is next or under way; None when all steps of the rung are done."""
        steps = self.rung.steps
        return steps[self.status.step] if self.status.step < len(steps) else None

    @property
    def record(self) -> StepStatus | None:
        """The status record of `step`; None if the step has none yet."""
        return next(
            (
                r
                for r in self.status.steps
                if (r.rung, r.index) == (self.status.rung, self.status.step)
            ),
            None,
        )

    @property
    def running_record(self) -> StepStatus | None:
        """The record of `step` while the step is running; None before and after."""
        record = self.record
        return record if record is not None and record.state is StepState.RUNNING else None

    @property
    def answer(self) -> AgentRequest | None:
        """The agent's answer to the request of the current step; None if there is none yet."""
        record, agent = self.record, self.status.agent
        if record is None or agent is None or not record.request_id:
            return None
        return agent.requests.get(record.request_id)

    @property
    def in_flight(self) -> bool:
        """Report whether an agent or a provider has been sent a request with an unknown outcome.
        Nothing interrupts a job from the write of the request until its result or its deadline.
        """
        record = self.running_record
        return (
            self.phase is JobPhase.RUNNING
            and record is not None
            and record.by is not StepBy.OPERATOR
            and record.asked_at is not None
        )

    @property
    def awaits_agent(self) -> bool:
        """Report whether the job is in flight and only waits for the agent's answer."""
        return self.in_flight and self.record is not None and self.record.by is StepBy.AGENT

    @property
    def gone_by_us(self) -> bool:
        """Report whether this rung requested the replacement of the node, so that its absence is
        expected.
        """
        return self.phase in _REPLACES and any(
            r.asked_at is not None and r.state is not StepState.WAITING for r in self._replacements
        )

    @property
    def replaced(self) -> bool:
        """Report whether this rung replaced the node: the new node was observed Ready."""
        return any(r.state is StepState.DONE for r in self._replacements)

    @property
    def _replacements(self) -> list[StepStatus]:
        steps = self.status.steps
        return [r for r in steps if r.rung == self.status.rung and r.name == "replace"]

    @property
    def close_reason(self) -> CloseReason | None:
        """Why the job ends or has ended; None while it continues. An unknown reason reads as
        GAVE_UP.
        """
        closing = self.condition(CLOSING)
        if closing is None or closing.status is not ConditionStatus.TRUE:
            return None
        try:
            return CloseReason(closing.reason)
        except ValueError:
            return CloseReason.GAVE_UP

    @property
    def verifying_since(self) -> datetime | None:
        """Since when the rung's steps have been done; None if they never were.

        Earlier versions recorded this time as the transition time of condition Acted.
        """
        acted = self.condition(ACTED)
        if acted is None:
            return None
        recorded = self.status.verifying_since
        return max(recorded or acted.last_transition_time, acted.last_transition_time)

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of this type; None if the job has none."""
        return next((c for c in self.status.conditions if c.type == type_), None)


_REPLACES = frozenset({JobPhase.RUNNING, JobPhase.VERIFYING, JobPhase.NEEDS_HUMAN})


def _also_matched(text: str | None) -> tuple[AlsoMatched, ...]:
    lines = (line.partition(": ") for line in (text or "").splitlines()[:64])
    return tuple(AlsoMatched(remedier=name[:253], why=why[:256]) for name, _, why in lines if name)


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """Observation of the job's node.

    cordoned_by: owner of the cordon that concerns the job: the job itself, else the job that it
        supersedes, else the whole annotation; "" for none
    fenced_by: job named by our annotation for the fence, "" for none
    boot_id: "" if unknown
    out_of_service: whether the out-of-service taint is set, by anybody
    ready: status of the condition Ready: True, False or Unknown; "" if the node has no such
        condition
    agent_silent: whether the host's agent no longer renews its Lease
    """

    unschedulable: bool = False
    cordoned_by: str = ""
    boot_id: str = ""
    provider_id: str = ""
    out_of_service: bool = False
    fenced_by: str = ""
    ready: str = ""
    agent_silent: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FaultAssessment:
    """Current result of the job's own rule in the loaded program.

    agreed: both engines agree, or the operator's policy accepts one of them
    gone: TRUE when the evidence is known false by reports made since the last act
    why: message for holds: which leaf is unknown, which guard is true, which engine differs
    """

    evidence: Truth = Truth.UNKNOWN
    guards: Truth = Truth.UNKNOWN
    agreed: bool = False
    gone: Truth = Truth.UNKNOWN
    why: str = ""


@dataclass(frozen=True, slots=True)
class JobActResult:
    """Result of the previous round's act. `error` says why there is no verdict or why the act
    failed; "" if it did not.
    """

    act: Act
    verdict: Verdict | None = None
    error: str = ""
    evicted: tuple[str, ...] = ()
    moved: str = ""
    """Notes on the evicted pods, used to find their replacements (remedy.job.migration.absence)."""
    blocked: Blocked | None = None
    lowered: Mapping[str, str] = field(default_factory=dict)
    """Deployments (`namespace/name`) that no longer have replicas of ours, each with the reason if
    the surge did not help, else "".
    """
    saved: Mapping[str, str] = field(default_factory=dict)
    """Gangs with a final answer from their receiver: "" for saved, else the reason why not. Other
    gangs are asked again.
    """
    outcome: RequestOutcome | None = None
    """Outcome of a request to a provider, a node group or a receiver; `error` has the reason. None:
    the act has no such outcome.
    """
    after: timedelta | None = None
    """How long to wait before asking again; None if the answer does not say."""
    booted: bool = False
    """No request was sent because the host runs another boot than the one of the decision."""


@dataclass(frozen=True, slots=True)
class JobObservation:
    """Observation of one round: what is seen now, never what we remember asking for.

    fresh: the caches are current; otherwise nothing new begins
    node: None: the node is gone, or has another uid under the same name
    permit: Kube Defender's verdict on the held permit; None: not asked, or no answer
    pods: None: not read
    unavailable: total time for which evicted pods had no ready replacement; None: not read
    stronger: rule that would supersede the job now, "" for none
    successor: job that supersedes this one; None until it exists
    woken: Kube Defender reserves a slot for this job: ask now, whatever the hold says
    power: the provider's reading of the machine; None: not asked
    unasked: this process persisted the request in the status and has not sent it. Without this flag
        it is unknown whether the request was sent.
    """

    now: datetime
    node: NodeObservation | None
    fresh: bool = True
    fault: FaultAssessment = FaultAssessment()
    permit: Verdict | None = None
    pods: Pods | None = None
    unavailable: timedelta | None = None
    act_result: JobActResult | None = None
    stronger: str = ""
    successor: Job | None = None
    woken: bool = False
    power: PowerObservation | None = None
    unasked: bool = False
    events: tuple[EventObservation, ...] = ()
    """The planned events that the job was made for."""
    step: object | None = None
    """What the step under way reads from outside, in the type of its kind; None: not read."""
    hearing_since: datetime | None = DAWN
    """Start of the time without a gap in our caches and connections; None: there is a gap now."""
    clock_since: datetime = DAWN
    """Since when `now` comes from one clock: the start of our leader term, or the last time our
    clock was set. Instants before it may come from a clock that differs.
    """
    booted_at: datetime | None = None
    """When the node of a job that has not begun last booted; None if unknown or not read."""
    recorded: bool = True
    """For a closed job: the node record holds all that later decisions need from it."""
    outnumbered: bool = False
    """For a closed job: as many jobs as a node may keep until their TTL have closed after it."""
    restored: bool = False
    """Etcd was restored from a backup: an object or mark that is missing may have existed."""


def irreversible(step: Step) -> bool:
    """Report whether the step cannot be undone."""
    return step.irreversible


def binding(job: Job, record: StepStatus) -> bool:
    """Report whether the record belongs to a step that cannot be undone. Records of checks do not:
    their index is beyond the rung's steps.
    """
    steps = job.spec.ladder[record.rung].steps if record.rung < len(job.spec.ladder) else []
    return record.index < len(steps) and steps[record.index].irreversible


ACTING = frozenset({Mode.ENFORCE, Mode.APPROVE})
"""Modes in which jobs take steps."""
