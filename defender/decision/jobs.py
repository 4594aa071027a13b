"""RemedyOperationJobs with the fields that Kube Defender reads, for breakers and for people.

They are decoded by msgspec, because a storm creates thousands of them. Unused fields are left out;
missing fields get their default.
"""

from datetime import datetime
from typing import Any

import msgspec

from kubenode.api.v1alpha1 import HoldReason
from kubenode.api.v1alpha1.ladder import Disruption, list_steps
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from kubenode.runtime.kube.objects import KubeObjectMeta

CLOSED = frozenset(phase.value for phase in JobPhase if phase.closed)
HARMLESS = list_steps(lambda kind: kind.disruption is Disruption.NONE)
"""Keys of steps that need no permit."""
STARTUP_GRACE = str(HoldReason.STARTUP_GRACE)
CHECK_ACTION = "RunCheck"
"""The only action of an agent step that needs no permit."""


class JobRemedier(msgspec.Struct, rename="camel", frozen=True):
    name: str = ""


class Evidence(msgspec.Struct, rename="camel", frozen=True):
    """A fact of a job's trigger.

    value: whether it held; None: not known.
    source: who reported it, such as `NPD`, `Provider` or `Probe`.
    """

    atom: str = ""
    value: bool | None = None
    source: str = ""


class JobTrigger(msgspec.Struct, rename="camel", frozen=True):
    first_true: datetime | None = None
    facts: tuple[Evidence, ...] = ()
    explanation: str = ""

    @property
    def summary(self) -> str:
        """Return the evidence that held, in one sentence; of a job of a person, their words."""
        return "; ".join(fact.atom for fact in self.facts if fact.value) or self.explanation


class JobRung(msgspec.Struct, rename="camel", frozen=True):
    """One rung of the ladder."""

    name: str = ""
    disruption: str = ""
    steps: tuple[dict[str, Any], ...] = ()

    @property
    def disrupts(self) -> bool:
        if self.disruption:
            return self.disruption != "None"
        return any(_disrupts(step) for step in self.steps)


def _disrupts(step: dict[str, Any]) -> bool:
    if "agent" in step:
        return (step["agent"] or {}).get("action") != CHECK_ACTION
    return HARMLESS.isdisjoint(step)


class JobApproval(msgspec.Struct, rename="camel", frozen=True):
    required: bool = False


class JobDecision(msgspec.Struct, rename="camel", frozen=True):
    """A person's approval or rejection of a job."""

    decision: str = ""
    by: str = ""
    at: datetime | None = None
    note: str = ""


class JobInitialWait(msgspec.Struct, rename="camel", frozen=True):
    reason: str = ""


class JobViewSpec(msgspec.Struct, rename="camel", frozen=True):
    node_name: str = ""
    remedier: JobRemedier = JobRemedier()
    trigger: JobTrigger = JobTrigger()
    mode: str = ""
    severity: str = "Warning"
    fault_class: str = ""
    deadline: datetime | None = None
    initial_wait: JobInitialWait | None = None
    start_rung: int = 0
    ladder: tuple[JobRung, ...] = ()
    approval: JobApproval = JobApproval()
    approvals: tuple[JobDecision, ...] = ()


class JobStep(msgspec.Struct, rename="camel", frozen=True):
    rung: int = 0
    index: int = 0
    name: str = ""
    by: str = ""
    state: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    message: str = ""


class JobHold(msgspec.Struct, rename="camel", frozen=True):
    """Why the job waits. `since`: when it began to be held, whatever the reasons were."""

    reason: str = ""
    scope: str = ""
    message: str = ""
    since: datetime | None = None
    look_again_at: datetime | None = None


class JobTimes(msgspec.Struct, rename="camel", frozen=True):
    """Times of the job's timeline, None if not reached."""

    fault_seen: datetime | None = None
    job_created: datetime | None = None
    permit_granted: datetime | None = None
    cordoned: datetime | None = None
    drained: datetime | None = None
    acted: datetime | None = None
    verified: datetime | None = None
    closed: datetime | None = None


class Permitted(msgspec.Struct, rename="camel", frozen=True):
    name: str = ""
    class_: str = msgspec.field(default="", name="class")
    granted_at: datetime | None = None
    expires_at: datetime | None = None


class JobViewStatus(msgspec.Struct, rename="camel", frozen=True):
    phase: str = ""
    message: str = ""
    rung: int = 0
    step: int = 0
    steps: tuple[JobStep, ...] = ()
    permit: Permitted | None = None
    hold: JobHold | None = None
    timeline: JobTimes = JobTimes()


class ObservedJob(msgspec.Struct, rename="camel", frozen=True):
    """One RemedyOperationJob."""

    metadata: KubeObjectMeta
    spec: JobViewSpec = JobViewSpec()
    status: JobViewStatus = JobViewStatus()

    @property
    def open(self) -> bool:
        return self.status.phase not in CLOSED

    @property
    def acts(self) -> bool:
        """Whether the job may ever act. Jobs of rules in DryRun do not."""
        return self.spec.mode in ("Enforce", "Approve")

    @property
    def is_unbegun(self) -> bool:
        """Whether the job is in its initial wait, or ended during it."""
        return self.spec.initial_wait is not None and self.status.timeline.job_created is None

    @property
    def in_startup_grace(self) -> bool:
        """Whether the job waits because its node is new or has just booted."""
        wait, hold = self.spec.initial_wait, self.status.hold
        if wait is None or not self.is_unbegun:
            return False
        return STARTUP_GRACE in (wait.reason, hold.reason if hold is not None else "")

    @property
    def is_disrupting(self) -> bool:
        """Whether the current rung needs a permit, so that the node is being repaired and not
        only reported.
        """
        ladder, rung = self.spec.ladder, self.status.rung
        return not ladder or ladder[min(rung, len(ladder) - 1)].disrupts

    @property
    def disrupts(self) -> bool:
        """Whether a rung of the job needs a permit. True without a ladder."""
        return not self.spec.ladder or any(rung.disrupts for rung in self.spec.ladder)
