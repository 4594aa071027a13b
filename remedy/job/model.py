"""The words of one job's decision: what is remembered (Job), what is observed (Seen), what may be
done (Act).

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
from kubenode.api.v1alpha1.noderemedier import NodeRemedierSpec
from kubenode.api.v1alpha1.remedyoperationjob import (
    AgentRequest,
    AlsoMatched,
    RemedyOperationJobSpec,
    RemedyOperationJobStatus,
    StepBy,
    StepState,
    StepStatus,
)
from kubenode.runtime.drain.words import Blocked as Blocked
from kubenode.runtime.drain.words import Pods as Pods
from kubenode.runtime.telemetry.places import ANNOTATION as TRACEPARENT
from remedy.handover.seen import HandedSeen
from remedy.planned.seen import EventSeen
from remedy.power.seen import PowerSeen, ReplaceSeen, RequestOutcome
from remedy.rollback.seen import RollbackSeen
from rules.history import DAWN
from rules.truth import Truth

FINALIZER = "kubenode.io/remedy"
CORDONED_BY = "kubenode.io/cordoned-by"
"""Annotation on a Node: the name of the job whose cordon it is."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint by which Kubernetes frees pods and volumes of a node: it is taken to be dark."""
FENCED_BY = "kubenode.io/fenced-by"
"""Annotation on a Node: the name of the job whose out-of-service taint it is."""
ALSO_MATCHED = "kubenode.io/also-matched"
"""Annotation on a job: the rules that lost the choice, `name: why` per line."""
REQUESTED = "kubenode.io/requested"
"""Annotation on a job: the last request to a provider that must not be made twice. It is written
before the request, and outlives a status that somebody removed.
"""
NOTED_PARTS = 4
CLOSING = "Closing"
"""Condition type of a job that is decided to end and undoes what is its own first."""


class JobAct(StrEnum):
    """The one thing that a run does to the world, each idempotent."""

    NONE = "None"
    ADD_FINALIZER = "AddFinalizer"
    REMOVE_FINALIZER = "RemoveFinalizer"
    NOTE_REQUEST = "NoteRequest"
    ASK_PERMIT = "AskPermit"
    RENEW_PERMIT = "RenewPermit"
    RELEASE_PERMIT = "ReleasePermit"
    CORDON = "Cordon"
    UNCORDON = "Uncordon"
    TAKE_OVER = "TakeOver"
    EVICT = "Evict"
    NOTIFY = "Notify"
    LABEL = "Label"
    ANNOTATE = "Annotate"
    DELETE = "Delete"
    POWER_OFF = "PowerOff"
    POWER_ON = "PowerOn"
    RESET = "Reset"
    FENCE = "Fence"
    UNFENCE = "Unfence"
    REPLACE = "Replace"
    ROLL_BACK = "RollBack"
    APPROVE_EVENT = "ApproveEvent"
    HAND_OVER = "HandOver"
    TAKE_BACK = "TakeBack"
    DELETE_PODS = "DeletePods"
    SURGE = "Surge"
    UNSURGE = "Unsurge"
    CHECKPOINT = "Checkpoint"
    PROTECT = "Protect"
    UNPROTECT = "Unprotect"


HARMFUL = frozenset({JobAct.CORDON, JobAct.EVICT})
"""Acts that take something away from workloads: never without a permit and plain evidence."""


class CloseReason(StrEnum):
    """Why a job ends; it outlives a restart as the reason of the condition Closing."""

    PROVEN = "Proven"
    CHECKED = "ChecksPassed"
    """Proven by its checks, while the evidence still says otherwise: it may be a latched one."""
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
        match self:
            case CloseReason.PROVEN | CloseReason.CHECKED:
                return JobPhase.SUCCEEDED
            case CloseReason.GAVE_UP | CloseReason.PERSON_CLOSED:
                return JobPhase.FAILED
            case _:
                return JobPhase.CANCELLED

    @property
    def outlasts_the_job(self) -> bool:
        """Whether no other job may follow while the incident lasts: it was given up, a person
        spoke, or the evidence says that it goes on although it does not.
        """
        return self not in _OVER


_OVER = frozenset(
    {
        CloseReason.PROVEN,
        CloseReason.SUPERSEDED,
        CloseReason.FAULT_GONE,
        CloseReason.NODE_GONE,
        CloseReason.EVENT_CANCELLED,
    }
)
INCIDENT_ENDS = timedelta(minutes=10)
"""An incident is over when its evidence has been known false for this long."""


@dataclass(frozen=True, slots=True)
class Requested:
    """What the annotation REQUESTED says.

    word       `reset` or `replace`
    boot_id    the boot of the host that it was meant for
    asked_at   when the step wrote that it is about to ask
    """

    word: str
    request_id: str
    boot_id: str
    asked_at: datetime

    @classmethod
    def of(cls, text: str | None) -> "Requested | None":
        """None where nothing is written, or nothing that can be read."""
        parts = (text or "").split(" ")
        if len(parts) != NOTED_PARTS:
            return None
        word, request_id, boot_id, at = parts
        try:
            asked_at = datetime.fromisoformat(at)
        except ValueError:
            return None
        return cls(word, request_id, boot_id, asked_at) if asked_at.tzinfo is not None else None

    def __str__(self) -> str:
        return f"{self.word} {self.request_id} {self.boot_id} {format_time(self.asked_at)}"


@dataclass(frozen=True, slots=True)
class Job:
    """What we remember. `finalizer` is whether ours is on; `created` the API server's time."""

    name: str
    uid: str
    created: datetime
    spec: RemedyOperationJobSpec
    status: RemedyOperationJobStatus
    deleting: bool = False
    finalizer: bool = False
    also_matched: tuple[AlsoMatched, ...] = ()
    """As the remedier wrote it beside the spec; it goes into the first status."""
    requested: Requested | None = None
    generation: int = field(default=0, compare=False)
    resource_version: str = field(default="", compare=False)
    traceparent: str = field(default="", compare=False)
    """The span of the fault, as whoever made the job wrote it; "" for one of our own."""
    started_by: str = field(default="", compare=False)
    """Who made a job that no rule did, and `cancelled_by` who cancelled it, as admission signed."""
    cancelled_by: str = field(default="", compare=False)

    @classmethod
    def of(cls, obj: RemedyOperationJob) -> "Job":
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
        """This job with changes to its status."""
        return replace(self, status=self.status.model_copy(update=changes))

    @property
    def phase(self) -> JobPhase:
        return self.status.phase

    @property
    def mark(self) -> str:
        """What stands in the annotation of a node that this job cordoned."""
        return self.name

    @property
    def rung(self) -> Rung:
        return self.spec.ladder[self.status.rung]

    @property
    def disruption(self) -> Disruption:
        return self.rung.disruption_class

    @property
    def step(self) -> Step | None:
        """The step that is next or under way; None when the rung's steps are done."""
        steps = self.rung.steps
        return steps[self.status.step] if self.status.step < len(steps) else None

    @property
    def record(self) -> StepStatus | None:
        """What is written of `step`."""
        return next(
            (
                r
                for r in self.status.steps
                if (r.rung, r.index) == (self.status.rung, self.status.step)
            ),
            None,
        )

    @property
    def under_way(self) -> StepStatus | None:
        """What is written of `step` from when it began until it ends; None before and after."""
        record = self.record
        return record if record is not None and record.state is StepState.RUNNING else None

    @property
    def answer(self) -> AgentRequest | None:
        """The agent's answer to the request under way."""
        record, agent = self.record, self.status.agent
        if record is None or agent is None or not record.request_id:
            return None
        return agent.requests.get(record.request_id)

    @property
    def in_flight(self) -> bool:
        """Whether an agent or a provider is asked for something and we do not know what became of
        it. From the write that asks until the result or the deadline nothing interrupts a job.
        """
        record = self.under_way
        return (
            self.phase is JobPhase.RUNNING
            and record is not None
            and record.by is not StepBy.OPERATOR
            and record.asked_at is not None
        )

    @property
    def asked_agent(self) -> bool:
        """In flight, and nothing is left for us to do but to wait for the agent."""
        return self.in_flight and self.record is not None and self.record.by is StepBy.AGENT

    @property
    def gone_by_us(self) -> bool:
        """Whether a node that is gone is our own doing: this rung asked for its replacement."""
        return self.phase in _REPLACES and any(
            r.asked_at is not None and r.state is not StepState.WAITING for r in self._replacements
        )

    @property
    def replaced(self) -> bool:
        """Whether this rung replaced the node, which was seen by the new one being Ready."""
        return any(r.state is StepState.DONE for r in self._replacements)

    @property
    def _replacements(self) -> list[StepStatus]:
        steps = self.status.steps
        return [r for r in steps if r.rung == self.status.rung and r.name == "replace"]

    @property
    def close_reason(self) -> CloseReason | None:
        """Why the job ends or has ended; None while it goes on. Unreadable reads as given up."""
        found = self.condition(CLOSING)
        if found is None or found.status is not ConditionStatus.TRUE:
            return None
        try:
            return CloseReason(found.reason)
        except ValueError:
            return CloseReason.GAVE_UP

    def condition(self, type_: str) -> Condition | None:
        return next((c for c in self.status.conditions if c.type == type_), None)


_REPLACES = frozenset({JobPhase.RUNNING, JobPhase.VERIFYING, JobPhase.NEEDS_HUMAN})


def _also_matched(text: str | None) -> tuple[AlsoMatched, ...]:
    lines = (line.partition(": ") for line in (text or "").splitlines()[:64])
    return tuple(AlsoMatched(remedier=name[:253], why=why[:256]) for name, _, why in lines if name)


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """The job's node. `cordoned_by`, `fenced_by` are our annotations, "" for none; `boot_id` "" is
    unknown; `out_of_service` is the taint of that name, whoever set it. `ready` is what its
    condition Ready says: True, False or Unknown, "" if it never said. `agent_silent`: the host's
    agent renews its Lease no more.
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
    """What the loaded program says of the job's own rule now.

    agreed  both engines say so, or the operator's policy lets one be enough
    gone    proof: TRUE when the evidence is known false by reports made since the last act
    why     a sentence for holds: which leaf is unknown, which guard true, which engine differs
    """

    evidence: Truth = Truth.UNKNOWN
    guards: Truth = Truth.UNKNOWN
    agreed: bool = False
    gone: Truth = Truth.UNKNOWN
    why: str = ""


@dataclass(frozen=True, slots=True)
class JobActResult:
    """What came back from the act of the run before. `error` is why no verdict came."""

    act: JobAct
    verdict: Verdict | None = None
    error: str = ""
    evicted: tuple[str, ...] = ()
    moved: str = ""
    """Notes on the evicted pods, by which their replacements are found again."""
    blocked: Blocked | None = None
    lowered: Mapping[str, str] = field(default_factory=dict)
    """Deployments without surge of ours any more; why, if it did not serve, else ""."""
    saved: Mapping[str, str] = field(default_factory=dict)
    """Gangs whose receivers answered: "" for saved, else why not. Others are asked again."""
    outcome: RequestOutcome | None = None
    """Of what a provider, or whoever makes the nodes, was asked for; `error` says why not."""
    after: timedelta | None = None
    """When to ask again, if they say."""
    booted: bool = False
    """Nobody was asked, as the host runs another boot than the one that it was decided on."""


@dataclass(frozen=True, slots=True)
class JobObservation:
    """What we observe this time, never what we remember asking for.

    fresh        the caches are current; else nothing new is begun
    node         None: gone, or another one under the same name
    permit       Kube Defender's answer to `check`; None: not asked, or no answer
    pods         None: not looked at
    unavailable  sum of the time that evicted pods had no ready replacement; None: not looked at
    stronger     the rule that would supersede the job now, "" for none
    successor    the job that supersedes this one, once there is one
    woken        Kube Defender keeps a slot for this job: ask now, whatever the hold says
    power        the provider's word on the machine; None: not asked for
    replacing    who can replace the machine, or how far that is; None: not asked for
    unasked      this process wrote the request that stands in the status and has not acted on it:
                 without it nobody knows whether it was asked
    """

    now: datetime
    node: NodeSeen | None
    fresh: bool = True
    fault: FaultAssessment = FaultAssessment()
    permit: Verdict | None = None
    pods: Pods | None = None
    unavailable: timedelta | None = None
    heard: JobActResult | None = None
    stronger: str = ""
    successor: Job | None = None
    woken: bool = False
    power: PowerSeen | None = None
    replacing: ReplaceSeen | None = None
    unasked: bool = False
    events: tuple[EventSeen, ...] = ()
    """The planned events that the job was made for."""
    handed: HandedSeen | None = None
    """The object of the step under way that another works on; None: not looked at."""
    rollback: RollbackSeen | None = None
    """How far the machine's component is taken back; None: not asked for."""
    hearing_since: datetime | None = DAWN
    """Since when everybody is heard without a gap; None: they are not now."""
    clock_since: datetime = DAWN
    """Since when instants in the status were written by the clock that tells `now`: the begin of
    our term, or the last time that our clock was set.
    """
    booted_at: datetime | None = None
    """Of a job that has not begun: when its node last booted, as far as we know."""
    recorded: bool = True
    """Of a closed job: the node's record holds all that later decisions need of it."""
    outnumbered: bool = False
    """Of a closed job: as many as may stay on a node until their TTL closed after it."""
    restored: bool = False
    """Etcd was restored from a backup: what is not there may have been there."""


def irreversible(step: Step) -> bool:
    return step.irreversible


def binding(job: Job, record: StepStatus) -> bool:
    """Whether it is about a step that cannot be undone; a check only looks."""
    steps = job.spec.ladder[record.rung].steps if record.rung < len(job.spec.ladder) else []
    return record.index < len(steps) and steps[record.index].irreversible


SUPPORTED = frozenset(
    {
        "cordon",
        "uncordon",
        "migrate",
        "notify",
        "label",
        "annotate",
        "wait",
        "agent",
        "collect",
        "reboot",
        "powerOff",
        "powerOn",
        "powerCycle",
        "fence",
        "replace",
        "rollbackComponent",
        "waitForEvent",
        "waitForApproval",
        "approveEvent",
        "webhook",
        "createObject",
    }
)


ACTING = frozenset({Mode.ENFORCE, Mode.APPROVE})


def unsupported(ladder: list[Rung]) -> str:
    """What of `ladder` this version cannot do, as a sentence; "" if all can be done."""
    for rung in ladder:
        for step in rung.steps:
            if why := unsupported_step(step):
                return f"rung {rung.name}: {why}"
    return ""


def unable(rule: NodeRemedierSpec) -> str:
    """Why this version cannot do what a rule asks of it, "" if it can.

    Steps are only ever taken in a mode that acts: a rule in DryRun may name those to come.
    """
    return unsupported(rule.ladder or []) if rule.mode in ACTING else ""


def unsupported_step(step: Step) -> str:
    if step.name not in SUPPORTED:
        return f"step {step.name} is not available in this version"
    if step.replace is not None and step.replace.surge != "None":
        return "step replace with surge First is not available in this version"
    return ""
