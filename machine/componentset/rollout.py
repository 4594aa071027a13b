"""Data types of a rollout: state, observation, plan and condition messages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubenode.api.v1alpha1.machinecomponentset import RolloutPhase
from kubenode.runtime.term import ALWAYS
from machine.componentset.member import RolloutMember
from machine.inspection.port import InspectionAnswer

P = RolloutPhase


@dataclass(frozen=True, slots=True)
class ConditionMessage:
    """Reason and message of a condition. The message contains no value that changes with time."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class BatchState:
    """The batch in the status. It is open from `started_at` to `ended_at`."""

    index: int = 0
    size: int = 0
    started_at: datetime | None = None
    succeeded_at: datetime | None = None
    bake_until: datetime | None = None
    failed: tuple[str, ...] = ()
    inconclusive: int = 0
    inspected_at: datetime | None = None
    active_since: datetime | None = None
    active_before: timedelta = timedelta(0)
    ended_at: datetime | None = None

    @property
    def open(self) -> bool:
        return self.started_at is not None and self.ended_at is None

    def active(self, now: datetime) -> timedelta:
        """Return for how long the batch could progress, up to now."""
        since = self.active_since
        return self.active_before + (now - since if since is not None else timedelta(0))


@dataclass(frozen=True, slots=True)
class RolloutState:
    """The state that a rollout stores in the status.

    current: the last completed revision, "" for none yet.
    update: the revision that the spec asks for.
    rejected: a revision that was rolled back and is not tried again, "" for none.
    stop: why the rollout stopped by itself, until a person pauses and resumes the set. None if it
        has not.
    """

    phase: RolloutPhase | None = None
    current: str = ""
    update: str = ""
    rejected: str = ""
    batch: BatchState = field(default_factory=BatchState)
    stop: ConditionMessage | None = None


@dataclass(frozen=True, slots=True)
class RolloutObservation:
    """What one reconcile has observed.

    now: the time by a monotonic clock, with which deadlines are compared.
    clock_since: the start of this leader's term. Earlier times come from another leader's clock.
    target: the revision that the spec asks for, "" if it cannot be determined.
    returnable: whether the current revision can still be assigned. True if there is none.
    problem: why the target revision cannot be rolled out, None if it can.
    frozen: whether spec.frozen stops all changes.
    meltdown: why a meltdown stops all changes, "" if there is none.
    window: whether the window is open, by wall time.
    inspected: the answer to the inspection that the plan requested, None before that.
    conflicts: machines on which another set owns the component.
    stuck: machines on which the removal failed.
    waits: machines that wait for a permit, each with the reason.
    """

    members: Sequence[RolloutMember]
    target: str
    now: datetime
    returnable: bool = True
    problem: ConditionMessage | None = None
    paused: bool = False
    frozen: bool = False
    meltdown: str = ""
    window: bool = True
    inspected: InspectionAnswer | None = None
    conflicts: Sequence[str] = ()
    stuck: Sequence[str] = ()
    waits: Sequence[tuple[str, str]] = ()
    clock_since: datetime = ALWAYS


@dataclass(frozen=True, slots=True)
class AssignmentMove:
    """A revision to assign to one machine.

    batch: the number of the batch, 0 for none.
    ahead: only download the revision.
    """

    machine: str
    revision: str
    batch: int = 0
    attempt: int = 1
    ahead: bool = False


@dataclass(frozen=True, slots=True)
class MachineCounts:
    """Numbers of members for the status."""

    machines: int = 0
    updated: int = 0
    healthy: int = 0
    unavailable: int = 0
    under_repair: int = 0
    excluded: int = 0


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """What one step decides.

    moves: the assignments to make.
    allowed: machines that may get or keep a permit.
    inspect: whether an inspection is due: run it, then step again with its answer.
    progressing: whether the condition Progressing is True, and its message.
    paused, degraded: the message of the condition; None means that it is False.
    requeue_at: when to step again at the latest. None if time alone changes nothing.
    """

    moves: tuple[AssignmentMove, ...] = ()
    allowed: frozenset[str] = frozenset()
    inspect: bool = False
    counts: MachineCounts = field(default_factory=MachineCounts)
    progressing: tuple[bool, ConditionMessage] = (False, ConditionMessage(""))
    paused: ConditionMessage | None = None
    degraded: ConditionMessage | None = None
    requeue_at: datetime | None = None
