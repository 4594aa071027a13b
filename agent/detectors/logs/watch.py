"""The watcher: `watch(program, state, line, now)` returns the next state and reports. Pure.

A line that no rule matches returns the same state. A line's own time counts for occurrences and
rates. `now` counts for quiet periods and for the bound on Events.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from agent.detectors import EventReport, Report, ReportedStatus
from agent.detectors.logs.line import Line
from agent.detectors.logs.multiline import spanning_matches
from agent.detectors.logs.program import Monitor, Program, Rule
from agent.detectors.logs.state import (
    ConditionState,
    EventCount,
    Fault,
    State,
    end_faults,
    set_fault,
    tell,
)

EVENTS_A_MINUTE = 30
"""Bound on Events of one rule and key. Further ones are counted and reported as one number."""
MINUTE = timedelta(minutes=1)
KEYS = 256
"""Bound on rules and keys with counts."""
PARTS = 64
"""Lines that are read of a text with several lines."""
LINES_SUPPRESSED = "LogLinesLeftOut"
NOT_UNDERSTOOD = "LogLineNotUnderstood"
"""Reason of the Event for a line that begins like a known report and continues otherwise."""

Outcome = tuple[State, list[Report]]


def begin(
    program: Program, now: datetime, previous: Mapping[str, ConditionState] | None = None
) -> Outcome:
    """Return the first state: `previous` conditions, all others Unknown until their logs are
    read.
    """
    unknown = ConditionState(ReportedStatus.UNKNOWN)
    conditions = {name: (previous or {}).get(name, unknown) for name in program.conditions}
    return State(conditions), [
        tell(program.conditions[n], current, now) for n, current in conditions.items()
    ]


def looked(program: Program, state: State, types: Iterable[str], now: datetime) -> Outcome:
    """Set Unknown conditions to False after their logs were read to the end."""
    conditions, reports = dict(state.conditions), list[Report]()
    for name in types:
        if conditions[name].status is ReportedStatus.UNKNOWN:
            conditions[name] = ConditionState(ReportedStatus.FALSE)
            reports.append(tell(program.conditions[name], conditions[name], now))
    return (replace(state, conditions=conditions) if reports else state), reports


def unreadable(
    program: Program, state: State, types: Iterable[str], why: str, now: datetime
) -> Outcome:
    """Set conditions without faults to Unknown, because their logs cannot be read."""
    conditions, reports = dict(state.conditions), list[Report]()
    for name in types:
        if not conditions[name].faults:
            conditions[name] = ConditionState(ReportedStatus.UNKNOWN)
            reports.append(tell(program.conditions[name], conditions[name], now, why))
    return (replace(state, conditions=conditions) if reports else state), reports


def watch(program: Program, state: State, line: Line, now: datetime) -> Outcome:
    """Apply one line, or one entry of several lines."""
    reports: list[Report] = []
    owners: dict[str, int] = {}
    for place, monitor in enumerate(program.monitors):
        if line.at < monitor.since or not monitor.selector.accepts(line):
            continue
        for part in _parts(monitor, line):
            if monitor.spanning:
                state = _keep(state, place, monitor, part)
            for rule, matched in _matches(state, place, monitor, part):
                if rule.condition and owners.setdefault(rule.condition, place) != place:
                    continue  # an earlier monitor decides about this condition
                state, more = _matched(program, state, monitor, rule, matched, now)
                reports += more
    return state, _once(reports) if len(reports) > 1 else reports


def _parts(monitor: Monitor, line: Line) -> list[Line]:
    if not monitor.separate or "\n" not in line.text:
        return [line]
    parts = line.text.split("\n", PARTS)[:PARTS]
    return [replace(line, text=part) for part in parts if part]


def _keep(state: State, place: int, monitor: Monitor, line: Line) -> State:
    lines = (*state.recent_lines.get(place, ()), line)[-monitor.lines :]
    return replace(state, recent_lines={**state.recent_lines, place: lines})


def _matches(
    state: State, place: int, monitor: Monitor, line: Line
) -> Iterable[tuple[Rule, tuple[Line, ...]]]:
    """Return the matching rules in order, with the lines that each matched."""
    hits = None
    if monitor.chosen is not None:
        hits = monitor.chosen.match(line.text.encode(errors="replace"))
    if not hits and not monitor.spanning:
        return ()
    places = [monitor.singles[hit] for hit in hits or ()]
    if known := [n for n in places if not monitor.rules[n].fallback]:
        places = known
    matched: list[tuple[int, tuple[Line, ...]]]
    matched = [(n, (line,)) for n in places if not _excused(monitor.rules[n], line.text)]
    if monitor.spanning:
        matched += spanning_matches(monitor, state.recent_lines[place])
    return [(monitor.rules[n], lines) for n, lines in sorted(matched, key=lambda pair: pair[0])]


def _matched(
    program: Program,
    state: State,
    monitor: Monitor,
    rule: Rule,
    lines: tuple[Line, ...],
    now: datetime,
) -> Outcome:
    message = "\n".join(line.text for line in lines)
    key = _key(program, rule, lines[-1].text)
    at = lines[0].at
    if rule.condition:
        condition = program.conditions[rule.condition]
        if lines[-1].earlier and condition.clear.boot:
            return state, []
    if rule.clears:
        current = state.conditions[rule.condition]
        keys = frozenset(
            f.key for f in current.faults if (f.key == key or not key) and f.last <= at
        )
        after, reports = end_faults(condition, current, keys, at)
        return replace(state, conditions={**state.conditions, rule.condition: after}), reports
    if rule.within:
        state, reached = _count(state, rule, key, at)
        if not reached:
            return state, []
    if not rule.condition:
        if at < monitor.events_since:
            return state, []
        return _event(state, rule, key, EventReport(
            rule.reason, message, rule.severity, at, monitor.detector), now)  # fmt: skip
    fault = Fault(key, rule.reason, message, at, at, now)
    after, reports = set_fault(condition, state.conditions[rule.condition], fault)
    return replace(state, conditions={**state.conditions, rule.condition: after}), reports


def _excused(rule: Rule, text: str) -> bool:
    return rule.unless is not None and rule.unless.search(text) is not None


def _key(program: Program, rule: Rule, text: str) -> str:
    """Return the key in the text, by the rule's pattern or another one of its condition; else
    "".
    """
    patterns = (rule.regexp,) if rule.keyed else program.keyers.get(rule.condition, ())
    for pattern in patterns:
        if match := pattern.search(text):
            return (match.group("key") or "")[:128]
    return ""


def _count(state: State, rule: Rule, key: str, at: datetime) -> tuple[State, bool]:
    """Count one more match; return whether the rate is reached."""
    name = (f"{rule.reason}/{rule.condition}", key)
    begun = at - timedelta(seconds=rule.within)
    times = tuple(time for time in state.counts.get(name, ()) if time > begun)
    times = (*times, at)[-rule.count :]
    counts = {n: t for n, t in state.counts.items() if n != name}
    while len(counts) >= KEYS:
        del counts[next(iter(counts))]
    return replace(state, counts={**counts, name: times}), len(times) >= rule.count


def _event(state: State, rule: Rule, key: str, event: EventReport, now: datetime) -> Outcome:
    """Report an Event, or count it if its rule reached the bound of this minute."""
    event_counts = {
        n: t for n, t in state.event_counts.items() if t.suppressed or now - t.since < MINUTE
    }
    name = (rule.name, key)
    if name not in event_counts and len(event_counts) >= KEYS:
        name = (rule.name, "")
    this = event_counts.get(name, EventCount(now, 0, 0))
    if this.reported < EVENTS_A_MINUTE:
        this = replace(this, reported=this.reported + 1)
        return replace(state, event_counts={**event_counts, name: this}), [event]
    this = replace(this, suppressed=this.suppressed + 1)
    return replace(state, event_counts={**event_counts, name: this}), []


def _once(reports: list[Report]) -> list[Report]:
    """Drop Events with the same reason and message, from rules of two sources."""
    known, once = set(), list[Report]()
    for report in reports:
        if isinstance(report, EventReport):
            if (report.reason, report.message) in known:
                continue
            known.add((report.reason, report.message))
        once.append(report)
    return once
