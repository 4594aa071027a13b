"""Changes by time alone: quiet periods that ended, due checks, counts of suppressed Events.

Nothing of this is due while the host is healthy: `due` returns None then.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from agent.detectors import EventReport, EventSeverity, Report, ReportedStatus
from agent.detectors.logs.program import LogCondition, Program
from agent.detectors.logs.state import ConditionState, Fault, State, end_faults
from agent.detectors.logs.watch import LINES_SUPPRESSED, MINUTE, Outcome


@dataclass(frozen=True, slots=True)
class Question:
    """Asks the named check whether the fault `key` of a condition is over."""

    condition: str
    key: str
    check: str


def due(program: Program, state: State) -> datetime | None:
    """Return when `pass_time` or `questions` is due next; None: not before another line."""
    times = [count.since + MINUTE for count in state.event_counts.values() if count.suppressed]
    for name, current in state.conditions.items():
        clear = program.conditions[name].clear
        for fault in current.faults:
            if clear.quiet:
                times.append(fault.last + timedelta(seconds=clear.quiet))
            if clear.check:
                times.append(fault.checked_at + timedelta(seconds=clear.every))
    return min(times, default=None)


def pass_time(program: Program, state: State, now: datetime) -> Outcome:
    """End faults that were quiet long enough; report Events that were suppressed within a
    minute.
    """
    reports: list[Report] = []
    conditions = dict(state.conditions)
    for name, current in state.conditions.items():
        condition = program.conditions[name]
        if keys := _quiet(condition, current, now):
            conditions[name], more = end_faults(condition, current, keys, now)
            reports += more
    event_counts = dict(state.event_counts)
    for key, minute in state.event_counts.items():
        if now - minute.since < MINUTE:
            continue
        del event_counts[key]
        if minute.suppressed:
            reports.append(_report_suppressed(program, key[0], minute.suppressed, now))
    return replace(state, conditions=conditions, event_counts=event_counts), reports


def _quiet(condition: LogCondition, current: ConditionState, now: datetime) -> frozenset[str]:
    quiet = timedelta(seconds=condition.clear.quiet)
    if not quiet:
        return frozenset()
    return frozenset(fault.key for fault in current.faults if now - fault.last >= quiet)


def _report_suppressed(program: Program, name: str, many: int, now: datetime) -> Report:
    detector, reason = next(
        (monitor.detector, rule.reason)
        for monitor in program.monitors
        for rule in monitor.rules
        if rule.name == name
    )
    message = f"{reason}: {many} more such lines within a minute were not told one by one"
    return EventReport(LINES_SUPPRESSED, message, EventSeverity.INFO, now, detector)


def questions(program: Program, state: State, now: datetime) -> tuple[State, list[Question]]:
    """Return the due checks. Each is repeated after its `every`, answered or not."""
    pending: list[Question] = []
    conditions = dict(state.conditions)
    for name, current in state.conditions.items():
        clear = program.conditions[name].clear
        if not clear.check:
            continue
        every = timedelta(seconds=clear.every)
        waiting = {fault.key for fault in current.faults if now - fault.checked_at >= every}
        pending += [Question(name, fault.key, clear.check) for fault in current.faults
                  if fault.key in waiting]  # fmt: skip
        conditions[name] = replace(current, faults=tuple(
            replace(fault, checked_at=now) if fault.key in waiting else fault
            for fault in current.faults))  # fmt: skip
    return (replace(state, conditions=conditions) if pending else state), pending


def answered(program: Program, state: State, question: Question, now: datetime) -> Outcome:
    """End the fault, because its check found it over. An unknown result changes nothing."""
    current = state.conditions[question.condition]
    condition = program.conditions[question.condition]
    after, reports = end_faults(condition, current, frozenset([question.key]), now)
    return replace(state, conditions={**state.conditions, question.condition: after}), reports


def after_boot(
    program: Program, conditions: dict[str, ConditionState]
) -> dict[str, ConditionState]:
    """Return the conditions that remain after a boot: faults that a boot does not end."""
    remaining = {}
    for name, current in conditions.items():
        if (
            name in program.conditions
            and current.faults
            and not program.conditions[name].clear.boot
        ):
            remaining[name] = ConditionState(ReportedStatus.TRUE, current.faults)
    return remaining


__all__ = ["Fault", "Question", "after_boot", "answered", "due", "pass_time", "questions"]
