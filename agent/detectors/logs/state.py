"""What the watcher remembers between two lines. Bounded, immutable, and small enough for a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from agent.detectors import NOT_LOOKED_AT, ConditionReport, Report, ReportedStatus
from agent.detectors.logs.line import Line
from agent.detectors.logs.program import LogCondition

FAULTS = 64
"""Devices, tasks and the like that one condition tells apart; the oldest is forgotten first."""
UNREADABLE = "LogCannotBeRead"


@dataclass(frozen=True, slots=True)
class Fault:
    """What a condition is True for.

    key         which device, task and the like; "" where the rule tells none apart
    since       the line that began it, `last` the newest one
    checked_at  when its check was last asked
    """

    key: str
    reason: str
    message: str
    since: datetime
    last: datetime
    checked_at: datetime


@dataclass(frozen=True, slots=True)
class ConditionState:
    """A condition now; True exactly while it has faults."""

    status: ReportedStatus
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class EventCount:
    """Events of one rule and key within a minute: how many were told, how many left out."""

    since: datetime
    reported: int
    suppressed: int


@dataclass(frozen=True, slots=True)
class State:
    """
    conditions    condition type -> how it is
    counts        (rule, key) -> times of the matches that a rate counts
    event_counts  (rule, key) -> Events of this minute
    recent_lines  monitor's place -> its last lines, for patterns that span lines
    """

    conditions: Mapping[str, ConditionState]
    counts: Mapping[tuple[str, str], tuple[datetime, ...]] = field(default_factory=dict)
    event_counts: Mapping[tuple[str, str], EventCount] = field(default_factory=dict)
    recent_lines: Mapping[int, tuple[Line, ...]] = field(default_factory=dict)


Answer = tuple[ConditionState, list[Report]]


def tell(
    condition: LogCondition, current: ConditionState, at: datetime, why: str = ""
) -> ConditionReport:
    """The condition as it is now, in the words of its newest fault or of its healthy state."""
    if current.faults:
        newest = current.faults[-1]
        reason, message = newest.reason, newest.message
    elif current.status is ReportedStatus.UNKNOWN:
        reason, message = (UNREADABLE, why) if why else (NOT_LOOKED_AT, "its log is being read")
    else:
        reason, message = condition.reason, condition.message
    return ConditionReport(condition.type, current.status, reason, message, at, condition.detector)


def set_fault(condition: LogCondition, current: ConditionState, fault: Fault) -> Answer:
    """Another line says that the condition is True.

    The last fault speaks for the condition. Told when status or reason change; more faults of the
    same reason join silently, and the condition keeps the message that it changed with.
    """
    faults = current.faults
    for place, known in enumerate(faults):
        if (known.key, known.reason) == (fault.key, fault.reason):
            again = replace(known, last=max(known.last, fault.last))
            return replace(current, faults=(*faults[:place], again, *faults[place + 1 :])), []
    others = tuple(known for known in faults if known.key != fault.key)[-(FAULTS - 1) :]
    if others and others[-1].reason == fault.reason:
        return ConditionState(ReportedStatus.TRUE, (*others[:-1], fault, others[-1])), []
    after = ConditionState(ReportedStatus.TRUE, (*others, fault))
    return after, [tell(condition, after, fault.since)]


def end_faults(
    condition: LogCondition, current: ConditionState, keys: frozenset[str], at: datetime
) -> Answer:
    """These faults are over. Told when another fault has to speak, or none is left."""
    remaining = tuple(known for known in current.faults if known.key not in keys)
    if len(remaining) == len(current.faults):
        return current, []
    after = ConditionState(ReportedStatus.TRUE if remaining else ReportedStatus.FALSE, remaining)
    if remaining and remaining[-1] == current.faults[-1]:
        return after, []
    return after, [tell(condition, after, at)]
