"""What time alone changes: quiet periods that are over, checks that are due, what was left out.

Nothing here runs while the host is well: `due` is None then.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from agent.detectors import EventReport, Report, Severity, Status
from agent.detectors.logs.program import Condition, Program
from agent.detectors.logs.state import Fault, Held, State, end_faults
from agent.detectors.logs.watch import LEFT_OUT, MINUTE, Outcome


@dataclass(frozen=True, slots=True)
class Question:
    """Is the fault `key` of this condition over? For the check of that name."""

    condition: str
    key: str
    check: str


def due(program: Program, state: State) -> datetime | None:
    """When `pass_time` or `questions` next have something to do; None: not before another line."""
    times = [told.since + MINUTE for told in state.told.values() if told.left_out]
    for name, held in state.held.items():
        clear = program.conditions[name].clear
        for fault in held.faults:
            if clear.quiet:
                times.append(fault.last + timedelta(seconds=clear.quiet))
            if clear.check:
                times.append(fault.asked + timedelta(seconds=clear.every))
    return min(times, default=None)


def pass_time(program: Program, state: State, now: datetime) -> Outcome:
    """End what has been quiet for long enough, and tell what was left out in a minute."""
    reports: list[Report] = []
    held = dict(state.held)
    for name, one in state.held.items():
        condition = program.conditions[name]
        if keys := _quiet(condition, one, now):
            held[name], more = end_faults(condition, one, keys, now)
            reports += more
    told = dict(state.told)
    for key, minute in state.told.items():
        if now - minute.since < MINUTE:
            continue
        del told[key]
        if minute.left_out:
            reports.append(_left_out(program, key[0], minute.left_out, now))
    return replace(state, held=held, told=told), reports


def _quiet(condition: Condition, held: Held, now: datetime) -> frozenset[str]:
    quiet = timedelta(seconds=condition.clear.quiet)
    if not quiet:
        return frozenset()
    return frozenset(fault.key for fault in held.faults if now - fault.last >= quiet)


def _left_out(program: Program, name: str, many: int, now: datetime) -> Report:
    detector, reason = next(
        (monitor.detector, rule.reason)
        for monitor in program.monitors
        for rule in monitor.rules
        if rule.name == name
    )
    message = f"{reason}: {many} more such lines within a minute were not told one by one"
    return EventReport(LEFT_OUT, message, Severity.INFO, now, detector)


def questions(program: Program, state: State, now: datetime) -> tuple[State, list[Question]]:
    """Checks that are due. Each is asked again after its `every`, answered or not."""
    asked: list[Question] = []
    held = dict(state.held)
    for name, one in state.held.items():
        clear = program.conditions[name].clear
        if not clear.check:
            continue
        every = timedelta(seconds=clear.every)
        waiting = {fault.key for fault in one.faults if now - fault.asked >= every}
        asked += [Question(name, fault.key, clear.check) for fault in one.faults
                  if fault.key in waiting]  # fmt: skip
        held[name] = replace(one, faults=tuple(
            replace(fault, asked=now) if fault.key in waiting else fault
            for fault in one.faults))  # fmt: skip
    return (replace(state, held=held) if asked else state), asked


def answered(program: Program, state: State, question: Question, now: datetime) -> Outcome:
    """The check says that this fault is over. (An unknown answer changes nothing.)"""
    held = state.held[question.condition]
    condition = program.conditions[question.condition]
    after, reports = end_faults(condition, held, frozenset([question.key]), now)
    return replace(state, held={**state.held, question.condition: after}), reports


def after_boot(program: Program, held: dict[str, Held]) -> dict[str, Held]:
    """What is left of the conditions of the boot before: the faults that a boot does not end."""
    left = {}
    for name, one in held.items():
        if name in program.conditions and one.faults and not program.conditions[name].clear.boot:
            left[name] = Held(Status.TRUE, one.faults)
    return left


__all__ = ["Fault", "Question", "after_boot", "answered", "due", "pass_time", "questions"]
