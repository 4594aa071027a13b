"""Records of simulated jobs, as plain data that is filled while the jobs run."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubenode.api.v1alpha1 import Disruption, JobPhase, Mode, NodeRemedier, Rung
from remedy.job.model import CloseReason


@dataclass(slots=True)
class HoldSpan:
    """A time in which a job was held.

    until: None if the hold continues.
    """

    reason: str
    scope: str
    message: str
    since: datetime
    until: datetime | None = None


@dataclass(slots=True)
class StepRun:
    """A run of a step.

    state: as in the job's status: Running, Done, Failed and so on.
    """

    rung: str
    name: str
    disruption: Disruption
    began: datetime
    state: str = "Running"
    ended: datetime | None = None
    message: str = ""


@dataclass(slots=True)
class RungRun:
    """A rung that a job reached.

    reached: when the job reached it.
    ran: when its first step began; None if none did.
    """

    name: str
    disruption: Disruption
    reached: datetime
    ran: datetime | None = None


@dataclass(frozen=True, slots=True)
class SentNotification:
    """A notification of a job.

    on: the phase that it is about, or `notify` for a step.
    to: names of receivers; empty for an Event on the Node alone.
    """

    on: str
    to: tuple[str, ...]
    says: str
    at: datetime


@dataclass(slots=True)
class JobRecord:
    """A job from its creation to its end."""

    name: str
    node: str
    rule: NodeRemedier
    made: datetime
    fault_since: datetime
    ladder: list[Rung]
    start_rung: int
    previous: str
    also_matched: tuple[str, ...]
    explanation: str
    phase: JobPhase = JobPhase.PENDING
    message: str = ""
    rungs: list[RungRun] = field(default_factory=list)
    steps: list[StepRun] = field(default_factory=list)
    holds: list[HoldSpan] = field(default_factory=list)
    begun: datetime | None = None
    """When its initial wait ended; None if it has not ended, or the job ended first."""
    permit_at: datetime | None = None
    close_reason: CloseReason | None = None
    closed: datetime | None = None
    deleted: bool = False
    """Whether pods were deleted, regardless of PodDisruptionBudgets."""
    uncordoned: datetime | None = None
    """When the job removed its own cordon."""
    runs: dict[tuple[int, int, int], StepRun] = field(default_factory=dict)
    """Runs of steps by rung, index and attempt."""
    notifications: list[SentNotification] = field(default_factory=list)

    @property
    def remedier(self) -> str:
        return self.rule.metadata.name

    @property
    def mode(self) -> Mode:
        return self.rule.spec.mode

    @property
    def rung(self) -> RungRun:
        """Return the last rung that the job reached."""
        return self.rungs[-1]

    @property
    def hold(self) -> HoldSpan | None:
        """Return the current hold, None if the job is not held."""
        return self.holds[-1] if self.holds and self.holds[-1].until is None else None

    @property
    def open(self) -> bool:
        return not self.phase.closed

    @property
    def acts(self) -> list[StepRun]:
        """Return the runs of steps that disrupt the node: those of class Host or higher."""
        return [step for step in self.steps if step.disruption is not Disruption.NONE]

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON types."""
        return {
            "job": self.name,
            "node": self.node,
            "remedier": self.remedier,
            "mode": self.mode.value,
            "severity": self.rule.spec.severity.value,
            "faultClass": self.rule.spec.fault_class,
            "faultSince": self.fault_since.isoformat(),
            "made": self.made.isoformat(),
            "startRung": self.start_rung,
            "rungs": [_rung(rung) for rung in self.rungs],
            "steps": [_step(step) for step in self.steps],
            "holds": [_hold_to_dict(hold) for hold in self.holds],
            "phase": self.phase.value,
            "message": self.message,
            "closeReason": self.close_reason.value if self.close_reason else None,
            "closed": _iso(self.closed),
            "alsoMatched": list(self.also_matched),
        }


def _rung(rung: RungRun) -> dict[str, Any]:
    return {
        "name": rung.name,
        "class": rung.disruption.value,
        "reached": _iso(rung.reached),
        "ran": _iso(rung.ran),
    }


def _step(step: StepRun) -> dict[str, Any]:
    return {
        "rung": step.rung,
        "name": step.name,
        "class": step.disruption.value,
        "began": _iso(step.began),
        "state": step.state,
        "ended": _iso(step.ended),
    }


def _hold_to_dict(hold: HoldSpan) -> dict[str, Any]:
    return {
        "reason": hold.reason,
        "scope": hold.scope,
        "message": hold.message,
        "since": _iso(hold.since),
        "until": _iso(hold.until),
    }


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None
