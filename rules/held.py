"""Since when each condition of a node has its status, by our own clock.

What makes a fault look younger or older than it is, and what is done about it:

    heartbeats, other reasons   move nothing: only a change of status counts
    our own restart             at first sight the time counts from the reporter's
                                lastTransitionTime, and never from earlier
    our clock is set            ages stay: the remembered instants move by the step (`stepped`)
    the detector restarts       see below

A detector that starts posts every condition with its healthy status and a fresh lastTransitionTime,
whatever it was before (node-problem-detector; ../data/npd_conditions.json has it recorded), finds
the fault again and posts True. Without more, each restart would make the fault new, and its False
would look like a recovery.

A restart shows by what real flapping cannot do: a condition beside it whose status, reason and
message stay as they were gets a later lastTransitionTime; or, where all were faulty, all
conditions of one heartbeat, at least WHOLE of them, become False at one time. A condition that
changes to the same status with them (TOGETHER, by transition and heartbeat) was reset. That status
is no finding for SETTLE. If within it the old status comes back, the time counts on from before, as
long as most of it was seen: what nobody reported sums up to at most SETTLE, and to no more than
what was reported. So flapping never adds up to a time held, not even beside a detector that
restarts again and again. Nothing counts on over a silence of SILENT. A detector of one condition
shows no restart: its faults look younger then, never older.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from rules.facts import ConditionFact
from rules.text import clipped

MOST_CONDITIONS = 128
SETTLE = timedelta(minutes=3)
"""For how long after its reporter's start a status is no finding; `verify.settle` is as long."""
SILENT = timedelta(minutes=15)
"""A detector that was not heard from for so long before it started had stopped looking."""
TOGETHER = timedelta(seconds=2)
"""Times of one report lie within this; they have whole seconds."""

WHOLE = 3
"""So few conditions that all change at once may be one cause that comes and goes."""
STARTS_AS = "False"
"""What conditions that are faulty when True are posted as at the start; faults may come in dozens.
"""
FINDINGS = frozenset({"True", "False"})


@dataclass(frozen=True, slots=True)
class Report:
    """A condition as the Node has it. `heard` is the reporter's heartbeat, at most now."""

    type: str
    status: str
    reason: str
    message: str
    transition: datetime | None
    heard: datetime


@dataclass(frozen=True, slots=True)
class _Wiped:
    """What a restart of its reporter made a condition forget.

    unseen  part of the time from `since` to `until` in which nobody reported the status
    """

    status: str
    since: datetime
    until: datetime
    unseen: timedelta


@dataclass(frozen=True, slots=True)
class _Move:
    """A report with a later lastTransitionTime, what was known before it, and when we heard it."""

    report: Report
    before: ConditionFact
    unseen: timedelta
    at: datetime

    @property
    def said_again(self) -> bool:
        """Nothing but the time is new: the reporter has started."""
        return self.before.status == self.report.status and _same_words(self.report, self.before)


class ConditionClock:
    """Of one node."""

    __slots__ = ("_facts", "_lately", "_transitions", "_unseen", "_wiped")

    def __init__(self) -> None:
        self._lately: tuple[_Move, ...] = ()
        self._facts: dict[str, ConditionFact] = {}
        self._transitions: dict[str, datetime | None] = {}
        self._wiped: dict[str, _Wiped] = {}
        self._unseen: dict[str, timedelta] = {}

    def take(self, reports: Sequence[Report], now: datetime) -> None:
        """Take in all conditions of one version of the Node; others are gone."""
        moves = [self._move(report, now) for report in reports if self._moved(report)]
        for report in reports:
            self._hear(report, now)
        if moves:
            self._look_for_start(moves, reports, now)
        if len(self._facts) > len(reports):
            for type_ in self._facts.keys() - {report.type for report in reports}:
                del self._facts[type_], self._transitions[type_]
                self._wiped.pop(type_, None)
                self._unseen.pop(type_, None)

    def hear(
        self,
        type_: str,
        *,
        status: str,
        reason: str,
        message: str,
        transition: datetime | None,
        heard: datetime,
        now: datetime,
    ) -> None:
        """Take in one condition by itself: a restart of its reporter does not show."""
        self._hear(Report(type_, status, reason, message, transition, heard), now)

    def booted(self) -> None:
        """The host has booted: a fault that comes now is a new one."""
        self._wiped.clear()
        self._lately = ()

    def stepped(self, step: timedelta, now: datetime) -> None:
        """Our wall clock was set by `step` and is `now`: what is remembered keeps its age.

        When somebody was heard from is told by others' clocks and stays, but for what would lie in
        the future.
        """
        for type_, fact in self._facts.items():
            settles = fact.settles + step if fact.settles is not None else None
            heard = min(fact.heard, now)
            since = fact.since + step
            self._facts[type_] = replace(fact, since=since, heard=heard, settles=settles)
        for type_, wiped in self._wiped.items():
            moved = replace(wiped, since=wiped.since + step, until=wiped.until + step)
            self._wiped[type_] = moved
        self._lately = ()

    def facts(self) -> Mapping[str, ConditionFact]:
        """A copy, so that a FactSet does not change under its reader."""
        return dict(self._facts)

    def _moved(self, report: Report) -> bool:
        """Whether its lastTransitionTime is later than it was, between findings."""
        known, before = self._facts.get(report.type), self._transitions.get(report.type)
        if known is None or before is None or report.transition is None:
            return False
        return report.transition > before and {known.status, report.status} <= FINDINGS

    def _move(self, report: Report, now: datetime) -> _Move:
        unseen = self._unseen.get(report.type, timedelta(0))
        return _Move(report, self._facts[report.type], unseen, now)

    def _look_for_start(
        self, moves: Sequence[_Move], reports: Sequence[Report], now: datetime
    ) -> None:
        """A start may come in several versions of the Node, one right after the other."""
        late = (move for move in self._lately if now - move.at <= TOGETHER)
        self._lately = (*late, *moves)
        started = [move.report for move in self._lately if move.said_again]
        started += [move.report for move in moves if _whole(move.report, moves, reports)]
        for move in self._lately:
            if not move.said_again and any(_together(move.report, by) for by in started):
                self._reset(move)

    def _reset(self, move: _Move) -> None:
        """What a condition became is what its reporter starts with, unless it has said more."""
        report, before = move.report, move.before
        fact = self._facts.get(report.type)
        if fact is None or (fact.status, fact.since) != (report.status, move.at):
            return
        if fact.settles is not None or not _same_words(report, fact):
            return
        self._facts[fact.type] = replace(fact, settles=move.at + SETTLE)
        self._wiped.pop(fact.type, None)
        if report.heard - before.heard < SILENT:
            wiped = _Wiped(before.status, before.since, move.at, move.unseen)
            self._wiped[fact.type] = wiped

    def _hear(self, report: Report, now: datetime) -> None:
        type_, known = report.type, self._facts.get(report.type)
        if known is None and len(self._facts) >= MOST_CONDITIONS:
            return
        self._transitions[type_] = report.transition
        if known is None:
            since = min(report.transition or now, now)
            self._facts[type_] = _fact(report, since, report.heard)
            return
        heard = max(known.heard, report.heard)
        if known.status != report.status:
            self._facts[type_] = self._changed(_fact(report, now, heard))
        elif _same_words(report, known):
            if heard > known.heard:
                self._facts[type_] = _heard(known, heard)
        else:  # more than what a reporter says when it starts: this is a finding
            self._wiped.pop(type_, None)
            self._facts[type_] = _fact(report, known.since, heard)

    def _changed(self, fact: ConditionFact) -> ConditionFact:
        """Another status, since now; or since before a restart that wiped it out."""
        now = fact.since
        self._unseen.pop(fact.type, None)
        wiped = self._wiped.get(fact.type)
        if wiped is None or wiped.status != fact.status:
            return fact
        del self._wiped[fact.type]
        seen = wiped.until - wiped.since - wiped.unseen
        unseen = wiped.unseen + (now - wiped.until)
        if unseen > min(SETTLE, seen):
            return fact
        self._unseen[fact.type] = unseen
        return replace(fact, since=wiped.since)


def _whole(report: Report, moves: Sequence[_Move], reports: Sequence[Report]) -> bool:
    """Whether all conditions of its heartbeat became False with it, at least WHOLE."""
    if len(moves) < WHOLE or report.status != STARTS_AS:
        return False
    with_it = sum(_together(report, move.report) for move in moves)
    beside = sum(abs(other.heard - report.heard) <= TOGETHER for other in reports)
    return WHOLE <= with_it == beside


def _fact(report: Report, since: datetime, heard: datetime) -> ConditionFact:
    reason, message = clipped(report.reason), clipped(report.message)
    return ConditionFact(report.type, report.status, reason, message, since, heard)


def _heard(fact: ConditionFact, heard: datetime) -> ConditionFact:
    """Of every heartbeat: `replace` would take three times as long."""
    said = fact.type, fact.status, fact.reason, fact.message
    return ConditionFact(*said, fact.since, heard, fact.settles)


def _same_words(report: Report, known: ConditionFact) -> bool:
    return (report.reason == known.reason or clipped(report.reason) == known.reason) and (
        report.message == known.message or clipped(report.message) == known.message
    )


def _together(report: Report, other: Report) -> bool:
    """Whether one start of a reporter made both what they are."""
    if report.transition is None or other.transition is None or report.status != other.status:
        return False
    apart = abs(report.transition - other.transition), abs(report.heard - other.heard)
    return max(apart) <= TOGETHER
