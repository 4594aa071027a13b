"""What a rollout remembers, what it sees, and what it wants done. All of it is data."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from kubenode.api.v1alpha1.machinecomponentset import RolloutPhase
from kubenode.runtime.term import ALWAYS
from machine.componentset.member import RolloutMember
from machine.inspection.port import InspectionAnswer

P = RolloutPhase


class RolloutReason(StrEnum):
    """Of the conditions, beside the phases."""

    WAITING_FOR_PERMIT = "WaitingForPermit"
    WINDOW_CLOSED = "WindowClosed"
    PARTITION_REACHED = "PartitionReached"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    AGENTS_UNKNOWN = "AgentsUnknown"
    USER = "User"
    AUTO_PAUSED = "AutoPaused"
    INSPECTION_FAILED = "InspectionFailed"
    INCONCLUSIVE = "Inconclusive"
    FROZEN = "Frozen"
    MELTDOWN = "Meltdown"
    MACHINES_FAILED = "MachinesFailed"
    ROLLED_BACK = "RolledBack"
    CONFLICT = "Conflict"
    VERSION_SKEW = "VersionSkew"
    MISSING_COMPONENT = "MissingComponent"


STICKY = frozenset(
    {RolloutReason.AUTO_PAUSED, RolloutReason.INSPECTION_FAILED, RolloutReason.INCONCLUSIVE}
)
"""Stops that only a person, or another revision, ends."""


@dataclass(frozen=True, slots=True)
class ConditionMessage:
    """A condition that holds. The message holds no ticking value."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class BatchState:
    """As the status has it; opened once `started_at` is set, over once `ended_at` is."""

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
        """For how long it could go on, up to now."""
        since = self.active_since
        return self.active_before + (now - since if since is not None else timedelta(0))


@dataclass(frozen=True, slots=True)
class RolloutState:
    """current   the last revision that was completed, "" for none yet
    update    what the spec asks for
    rejected  was rolled back, and is not tried again
    stop      why it stopped by itself, until a person pauses it and lets it go
    """

    phase: RolloutPhase | None = None
    current: str = ""
    update: str = ""
    rejected: str = ""
    batch: BatchState = field(default_factory=BatchState)
    stop: ConditionMessage | None = None


@dataclass(frozen=True, slots=True)
class RolloutObservation:
    """now         a clock that nobody sets: deadlines are compared with it
    clock_since  when our term began: instants from before it are by another leader's clock
    target      the revision that the spec asks for, "" when it cannot be told
    returnable  whether the current revision can still be assigned
    problem     why nothing new can go out, if so
    frozen, meltdown  nothing at all may start, and why
    window      whether it is open (wall time)
    stuck       machines on which the removal failed
    waits       machines that wait for a permit, and what for
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
    """What shall be assigned to one machine. ahead: only to be downloaded."""

    machine: str
    revision: str
    batch: int = 0
    attempt: int = 1
    ahead: bool = False


@dataclass(frozen=True, slots=True)
class MachineCounts:
    machines: int = 0
    updated: int = 0
    healthy: int = 0
    unavailable: int = 0
    held: int = 0
    excluded: int = 0


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """allowed     machines that may be given a permit now
    inspect     an inspection is due: ask it, and step again
    look_again  at the latest; None: nothing changes by itself
    """

    moves: tuple[AssignmentMove, ...] = ()
    allowed: frozenset[str] = frozenset()
    inspect: bool = False
    counts: MachineCounts = field(default_factory=MachineCounts)
    progressing: tuple[bool, ConditionMessage] = (False, ConditionMessage(""))
    paused: ConditionMessage | None = None
    degraded: ConditionMessage | None = None
    look_again: datetime | None = None
