"""State of the watcher between two lines: bounded, immutable and small enough for a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from agent.detectors import NOT_LOOKED_AT, ConditionReport, Report, ReportedStatus
from agent.detectors.logs.line import Line
from agent.detectors.logs.program import LogCondition

FAULTS = 64
"""Bound on faults (devices, tasks) of one condition. The oldest is dropped first."""
UNREADABLE = "LogCannotBeRead"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a condition that is True.

    key: device, task or the like; "" if the rule has no key
    since, last: times of its first and its newest line
    checked_at: when its check ran last
    """

    key: str
    reason: str
    message: str
    since: datetime
    last: datetime
    checked_at: datetime


@dataclass(frozen=True, slots=True)
class ConditionState:
    """State of a condition, which is True exactly while it has faults."""

    status: ReportedStatus
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class EventCount:
    """Events of one rule and key within a minute: numbers reported and suppressed."""

    since: datetime
    reported: int
    suppressed: int


@dataclass(frozen=True, slots=True)
class State:
    """State of the watcher.

    conditions: condition type to its state
    counts: (rule, key) to times of the matches that a rate counts
    event_counts: (rule, key) to Events of this minute
    recent_lines: monitor's index to its last lines, for patterns that span lines
    """

    conditions: Mapping[str, ConditionState]
    counts: Mapping[tuple[str, str], tuple[datetime, ...]] = field(default_factory=dict)
    event_counts: Mapping[tuple[str, str], EventCount] = field(default_factory=dict)
    recent_lines: Mapping[int, tuple[Line, ...]] = field(default_factory=dict)


Answer = tuple[ConditionState, list[Report]]


def tell(
    condition: LogCondition, current: ConditionState, at: datetime, why: str = ""
) -> ConditionReport:
    """Return a report with reason and message of the newest fault, or of the healthy state."""
    if current.faults:
        newest = current.faults[-1]
        reason, message = newest.reason, newest.message
    elif current.status is ReportedStatus.UNKNOWN:
        reason, message = (UNREADABLE, why) if why else (NOT_LOOKED_AT, "its log is being read")
    else:
        reason, message = condition.reason, condition.message
    return ConditionReport(condition.type, current.status, reason, message, at, condition.detector)


def set_fault(condition: LogCondition, current: ConditionState, fault: Fault) -> Answer:
    """Add a fault to a condition.

    The last fault determines reason and message. A report is made if status or reason change.
    Further faults with the same reason change neither report nor message.
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
    """Remove faults. A report is made if another fault becomes the last one, or none remains."""
    remaining = tuple(known for known in current.faults if known.key not in keys)
    if len(remaining) == len(current.faults):
        return current, []
    after = ConditionState(ReportedStatus.TRUE if remaining else ReportedStatus.FALSE, remaining)
    if remaining and remaining[-1] == current.faults[-1]:
        return after, []
    return after, [tell(condition, after, at)]
