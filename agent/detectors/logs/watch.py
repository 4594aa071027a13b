"""The watcher: `watch(program, state, line, now)` gives the next state and what is to be told.

Pure. A line that no rule matches gives back the state it was given. Times of lines count for what
happened and how often; `now` counts for quiet periods and for how much is told.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from agent.detectors import EventReport, Report, Status
from agent.detectors.logs.line import Line
from agent.detectors.logs.multiline import spanning_matches
from agent.detectors.logs.program import Monitor, Program, Rule
from agent.detectors.logs.state import (
    Fault,
    Held,
    State,
    Told,
    end_faults,
    set_fault,
    tell,
)

EVENTS_A_MINUTE = 30
"""Of one rule and key. What is more is counted and told as one number."""
MINUTE = timedelta(minutes=1)
KEYS = 256
"""Rules and keys of which counts are kept."""
PARTS = 64
"""Lines that are looked at of a text that has several."""
LEFT_OUT = "LogLinesLeftOut"
NOT_UNDERSTOOD = "LogLineNotUnderstood"
"""Reason of the Event of a line that begins as a known report and goes on as none."""

Outcome = tuple[State, list[Report]]


def begin(program: Program, now: datetime, held: Mapping[str, Held] | None = None) -> Outcome:
    """The first state: what is `held` from before, all else Unknown until its log is read."""
    unknown = Held(Status.UNKNOWN)
    kept = {name: (held or {}).get(name, unknown) for name in program.conditions}
    return State(kept), [tell(program.conditions[n], one, now) for n, one in kept.items()]


def looked(program: Program, state: State, types: Iterable[str], now: datetime) -> Outcome:
    """The logs of these conditions have been read to their end: what is Unknown is False."""
    held, reports = dict(state.held), list[Report]()
    for name in types:
        if held[name].status is Status.UNKNOWN:
            held[name] = Held(Status.FALSE)
            reports.append(tell(program.conditions[name], held[name], now))
    return (replace(state, held=held) if reports else state), reports


def unreadable(
    program: Program, state: State, types: Iterable[str], why: str, now: datetime
) -> Outcome:
    """The logs of these conditions cannot be read any more: what was False is Unknown."""
    held, reports = dict(state.held), list[Report]()
    for name in types:
        if not held[name].faults:
            held[name] = Held(Status.UNKNOWN)
            reports.append(tell(program.conditions[name], held[name], now, why))
    return (replace(state, held=held) if reports else state), reports


def watch(program: Program, state: State, line: Line, now: datetime) -> Outcome:
    """What one line, or one entry of several lines, changes."""
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
                    continue  # an earlier monitor has said what this line means for it
                state, more = _matched(program, state, monitor, rule, matched, now)
                reports += more
    return state, _once(reports) if len(reports) > 1 else reports


def _parts(monitor: Monitor, line: Line) -> list[Line]:
    if not monitor.separate or "\n" not in line.text:
        return [line]
    parts = line.text.split("\n", PARTS)[:PARTS]
    return [replace(line, text=part) for part in parts if part]


def _keep(state: State, place: int, monitor: Monitor, line: Line) -> State:
    kept = (*state.kept.get(place, ()), line)[-monitor.lines :]
    return replace(state, kept={**state.kept, place: kept})


def _matches(
    state: State, place: int, monitor: Monitor, line: Line
) -> Iterable[tuple[Rule, tuple[Line, ...]]]:
    """Rules that match, in their order, and the lines that each matched."""
    hits = None
    if monitor.chosen is not None:
        hits = monitor.chosen.match(line.text.encode(errors="replace"))
    if not hits and not monitor.spanning:
        return ()
    places = [monitor.singles[hit] for hit in hits or ()]
    if known := [n for n in places if not monitor.rules[n].fallback]:
        places = known
    found: list[tuple[int, tuple[Line, ...]]]
    found = [(n, (line,)) for n in places if not _excused(monitor.rules[n], line.text)]
    if monitor.spanning:
        found += spanning_matches(monitor, state.kept[place])
    return [(monitor.rules[n], lines) for n, lines in sorted(found, key=lambda one: one[0])]


def _matched(
    program: Program,
    state: State,
    monitor: Monitor,
    rule: Rule,
    lines: tuple[Line, ...],
    now: datetime,
) -> Outcome:
    message = "\n".join(one.text for one in lines)
    key = _key(program, rule, lines[-1].text)
    at = lines[0].at
    if rule.condition:
        condition = program.conditions[rule.condition]
        if lines[-1].earlier and condition.clear.boot:
            return state, []
    if rule.clears:
        held = state.held[rule.condition]
        keys = frozenset(f.key for f in held.faults if (f.key == key or not key) and f.last <= at)
        after, reports = end_faults(condition, held, keys, at)
        return replace(state, held={**state.held, rule.condition: after}), reports
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
    after, reports = set_fault(condition, state.held[rule.condition], fault)
    return replace(state, held={**state.held, rule.condition: after}), reports


def _excused(rule: Rule, text: str) -> bool:
    return rule.unless is not None and rule.unless.search(text) is not None


def _key(program: Program, rule: Rule, text: str) -> str:
    """What the group `key` caught, of the rule itself or of one that knows its condition; or ""."""
    patterns = (rule.regexp,) if rule.keyed else program.keyers.get(rule.condition, ())
    for pattern in patterns:
        if found := pattern.search(text):
            return (found.group("key") or "")[:128]
    return ""


def _count(state: State, rule: Rule, key: str, at: datetime) -> tuple[State, bool]:
    """One more match of a rate, and whether the rate is reached."""
    name = (f"{rule.reason}/{rule.condition}", key)
    begun = at - timedelta(seconds=rule.within)
    times = tuple(time for time in state.counts.get(name, ()) if time > begun)
    times = (*times, at)[-rule.count :]
    counts = {n: t for n, t in state.counts.items() if n != name}
    while len(counts) >= KEYS:
        del counts[next(iter(counts))]
    return replace(state, counts={**counts, name: times}), len(times) >= rule.count


def _event(state: State, rule: Rule, key: str, event: EventReport, now: datetime) -> Outcome:
    """Tell it, or count it where its rule has told enough in this minute."""
    told = {n: t for n, t in state.told.items() if t.left_out or now - t.since < MINUTE}
    name = (rule.name, key)
    if name not in told and len(told) >= KEYS:
        name = (rule.name, "")
    this = told.get(name, Told(now, 0, 0))
    if this.told < EVENTS_A_MINUTE:
        this = replace(this, told=this.told + 1)
        return replace(state, told={**told, name: this}), [event]
    this = replace(this, left_out=this.left_out + 1)
    return replace(state, told={**told, name: this}), []


def _once(reports: list[Report]) -> list[Report]:
    """Two rules of two sources may know the same line: the same thing is told once."""
    seen, once = set(), list[Report]()
    for report in reports:
        if isinstance(report, EventReport):
            if (report.reason, report.message) in seen:
                continue
            seen.add((report.reason, report.message))
        once.append(report)
    return once
