"""What a simulation tells of its jobs. Plain data, made while the jobs run."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubenode.api.v1alpha1 import Disruption, JobPhase, Mode, NodeRemedier, Rung
from remedy.job.model import CloseReason


@dataclass(slots=True)
class HoldSpan:
    """A time in which a job waited, and for what. `until` None: it still does."""

    reason: str
    scope: str
    message: str
    since: datetime
    until: datetime | None = None


@dataclass(slots=True)
class StepRun:
    """One step that began. `state` as in the job's status: Running, Done, Failed, ..."""

    rung: str
    name: str
    disruption: Disruption
    began: datetime
    state: str = "Running"
    ended: datetime | None = None
    message: str = ""


@dataclass(slots=True)
class RungRun:
    """A rung that was reached, and when its first step began, if it did."""

    name: str
    disruption: Disruption
    reached: datetime
    ran: datetime | None = None


@dataclass(slots=True)
class JobRecord:
    """One job from its making to its end. `asked` is Kube Defender's last word as a sentence."""

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
    """When its initial wait was over; None: it is not, or it ended before."""
    permit_at: datetime | None = None
    close_reason: CloseReason | None = None
    closed: datetime | None = None
    deleted: bool = False
    """Pods were deleted, past every budget."""
    uncordoned: datetime | None = None
    """When it took its own cordon off."""
    runs: dict[tuple[int, int, int], StepRun] = field(default_factory=dict)
    """Steps by rung, index and attempt."""

    @property
    def remedier(self) -> str:
        return self.rule.metadata.name

    @property
    def mode(self) -> Mode:
        return self.rule.spec.mode

    @property
    def rung(self) -> RungRun:
        """The last rung that was reached."""
        return self.rungs[-1]

    @property
    def hold(self) -> HoldSpan | None:
        """What it waits for now."""
        return self.holds[-1] if self.holds and self.holds[-1].until is None else None

    @property
    def open(self) -> bool:
        return not self.phase.closed

    @property
    def acts(self) -> list[StepRun]:
        """Steps of class Host or more that began: what would have been done to the node."""
        return [step for step in self.steps if step.disruption is not Disruption.NONE]

    def to_dict(self) -> dict[str, Any]:
        """As JSON types, for programs."""
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
