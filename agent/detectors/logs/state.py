"""What the watcher remembers between two lines. Bounded, immutable, and small enough for a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from agent.detectors import NOT_LOOKED_AT, ConditionReport, Report, Status
from agent.detectors.logs.line import Line
from agent.detectors.logs.program import Condition

FAULTS = 64
"""Devices, tasks and the like that one condition tells apart; the oldest is forgotten first."""
UNREADABLE = "LogCannotBeRead"


@dataclass(frozen=True, slots=True)
class Fault:
    """What a condition is True for.

    key    which device, task and the like; "" where the rule tells none apart
    since  the line that began it, `last` the newest one
    asked  when its check was last asked
    """

    key: str
    reason: str
    message: str
    since: datetime
    last: datetime
    asked: datetime


@dataclass(frozen=True, slots=True)
class Held:
    """A condition now; True exactly while it has faults."""

    status: Status
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """Events of one rule and key within a minute: how many were told, how many left out."""

    since: datetime
    told: int
    left_out: int


@dataclass(frozen=True, slots=True)
class State:
    """
    held    condition type -> how it is
    counts  (rule, key) -> times of the matches that a rate counts
    told    (rule, key) -> Events of this minute
    kept    monitor's place -> its last lines, for patterns that span lines
    """

    held: Mapping[str, Held]
    counts: Mapping[tuple[str, str], tuple[datetime, ...]] = field(default_factory=dict)
    told: Mapping[tuple[str, str], Told] = field(default_factory=dict)
    kept: Mapping[int, tuple[Line, ...]] = field(default_factory=dict)


Answer = tuple[Held, list[Report]]


def tell(condition: Condition, held: Held, at: datetime, why: str = "") -> ConditionReport:
    """The condition as it is now, in the words of its newest fault or of its healthy state."""
    if held.faults:
        newest = held.faults[-1]
        reason, message = newest.reason, newest.message
    elif held.status is Status.UNKNOWN:
        reason, message = (UNREADABLE, why) if why else (NOT_LOOKED_AT, "its log is being read")
    else:
        reason, message = condition.reason, condition.message
    return ConditionReport(condition.type, held.status, reason, message, at, condition.detector)


def set_fault(condition: Condition, held: Held, fault: Fault) -> Answer:
    """Another line says that the condition is True.

    The last fault speaks for the condition. Told when status or reason change; more faults of the
    same reason join silently, and the condition keeps the message that it changed with.
    """
    faults = held.faults
    for place, one in enumerate(faults):
        if (one.key, one.reason) == (fault.key, fault.reason):
            again = replace(one, last=max(one.last, fault.last))
            return replace(held, faults=(*faults[:place], again, *faults[place + 1 :])), []
    others = tuple(one for one in faults if one.key != fault.key)[-(FAULTS - 1) :]
    if others and others[-1].reason == fault.reason:
        return Held(Status.TRUE, (*others[:-1], fault, others[-1])), []
    after = Held(Status.TRUE, (*others, fault))
    return after, [tell(condition, after, fault.since)]


def end_faults(condition: Condition, held: Held, keys: frozenset[str], at: datetime) -> Answer:
    """These faults are over. Told when another fault has to speak, or none is left."""
    left = tuple(one for one in held.faults if one.key not in keys)
    if len(left) == len(held.faults):
        return held, []
    after = Held(Status.TRUE if left else Status.FALSE, left)
    if left and left[-1] == held.faults[-1]:
        return after, []
    return after, [tell(condition, after, at)]
