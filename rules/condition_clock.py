"""Since when each condition of a node has its status, by our own clock.

What makes a fault look younger or older than it is, and what is done about it:

    heartbeats, other reasons   move nothing: only a change of status counts
    our own restart             at first sight the age is what lies between the two stamps of the
                                report, lastTransitionTime and lastHeartbeatTime: both are of one
                                clock, so how wrong that clock is does not matter. It is too
                                young by what has passed since the report, until the next one
                                of that reporter tells how much that was; it is never too old
    the reporter's clock        its stamps are compared with its own stamps alone. When it was
                                heard from is when we saw its stamp change
    our clock is set            ages stay: the remembered instants move by the step (`stepped`)
    etcd is restored            the Node shows reports of before. One whose heartbeat is earlier
                                than one that we have seen is no news: the condition is doubted
                                until its reporter writes again. So it is, by one heartbeat, when a
                                host's clock is set back. Whoever started since the restore knows no
                                earlier one and doubts what it saw first, while the freeze holds
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

from kubenode.runtime.hosttime import HostTime
from rules.facts import ConditionFact
from rules.text import clipped

MOST_CONDITIONS = 128
SETTLE = timedelta(minutes=3)
"""For how long after its reporter's start a status is no finding; `verify.settle` is as long."""
SILENT = timedelta(minutes=15)
"""A detector that was not heard from for so long before it started had stopped looking."""
LONGEST_BETWEEN = timedelta(days=3650)
"""No rule asks for more than ten years, and an age of millennia overflows `datetime`."""
TOGETHER = timedelta(seconds=2)
"""Times of one report lie within this; they have whole seconds."""

WHOLE = 3
"""So few conditions that all change at once may be one cause that comes and goes."""
STARTS_AS = "False"
"""What conditions that are faulty when True are posted as at the start; faults may come in dozens.
"""
FINDINGS = frozenset({"True", "False"})


@dataclass(frozen=True, slots=True)
class ConditionReading:
    """A condition as the Node has it.

    transition     since when it has its status, by the clock of its reporter
    heartbeat      when its reporter wrote it, by the same clock; None: it does not say
    since          when it got its status, by the control plane's clock, where the control plane
                   wrote it since its reporter fell silent: `heartbeat` is the reporter's last then,
                   and the control plane is heard from with each version of the Node
    """

    type: str
    status: str
    reason: str
    message: str
    transition: HostTime | None
    heartbeat: HostTime | None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Stamps:
    """Those of the report that was read last."""

    transition: HostTime | None
    heartbeat: HostTime | None


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

    report: ConditionReading
    before: ConditionFact
    unseen: timedelta
    at: datetime

    @property
    def is_repeat(self) -> bool:
        """Nothing but the time is new: the reporter has started."""
        return self.before.status == self.report.status and _same_text(self.report, self.before)


class ConditionClock:
    """Of one node.

    ended_silence  for how long the reporter was silent that the last `take` heard from again; the
                   longest one
    ended_doubt    whether the last `take` heard from the reporter of a condition that was doubted
    """

    __slots__ = (
        "_doubted",
        "_facts",
        "_first",
        "_lately",
        "_stamps",
        "_unseen",
        "_wiped",
        "ended_doubt",
        "ended_silence",
    )

    def __init__(self) -> None:
        self._lately: tuple[_Move, ...] = ()
        self._facts: dict[str, ConditionFact] = {}
        self._stamps: dict[str, _Stamps] = {}
        self._first: dict[str, datetime] = {}
        """When we first saw what its reporter has not repeated since."""
        self._wiped: dict[str, _Wiped] = {}
        self._unseen: dict[str, timedelta] = {}
        self._doubted: dict[str, _Stamps] = {}
        """Stamps of the report in doubt, of each condition whose reporter has to write again."""
        self.ended_silence = timedelta(0)
        self.ended_doubt = False

    def take(
        self, reports: Sequence[ConditionReading], now: datetime, deaf_until: datetime | None = None
    ) -> None:
        """Take in all conditions of one version of the Node; others are gone.

        deaf_until  when the last gap ended in which we could hear nobody: what came out in it was
                    reported at some time in it, not now
        """
        self.ended_silence, self.ended_doubt = timedelta(0), False
        reports = [report for report in reports if not self._of_the_past(report)]
        moves = [self._move(report, now) for report in reports if self._moved(report)]
        latest = None if self._facts else _latest(reports, now)
        for report in reports:
            self._hear(report, now, deaf_until, latest)
        if moves:
            self._detect_start(moves, reports, now)
        if len(self._facts) > len(reports):
            there = {report.type for report in reports} | self._doubted.keys()
            for type_ in self._facts.keys() - there:
                del self._facts[type_], self._stamps[type_]
                self._first.pop(type_, None)
                self._wiped.pop(type_, None)
                self._unseen.pop(type_, None)

    def facts_after_restore(self) -> Mapping[str, ConditionFact]:
        """The facts, with a doubt in what no reporter has repeated since we saw it first."""
        doubted = {type_: replace(self._facts[type_], doubted=True) for type_ in self._first}
        return {**self._facts, **doubted}

    def booted(self) -> None:
        """The host has booted: a fault that comes now is a new one."""
        self._wiped.clear()
        self._lately = ()

    def stepped(self, step: timedelta, now: datetime) -> None:
        """Our wall clock was set by `step` and is `now`: what is remembered keeps its age.

        All of it is by our clock: reporters' stamps are only compared with one another.
        """
        for type_, fact in self._facts.items():
            settles = fact.settles + step if fact.settles is not None else None
            received_at = min(fact.received_at + step, now)
            since = fact.since + step
            began = fact.began + step if fact.began is not None else None
            fact = replace(fact, since=since, received_at=received_at, settles=settles, began=began)
            self._facts[type_] = fact
        for type_ in self._first:
            self._first[type_] += step
        for type_, wiped in self._wiped.items():
            moved = replace(wiped, since=wiped.since + step, until=wiped.until + step)
            self._wiped[type_] = moved
        self._lately = ()

    def facts(self) -> Mapping[str, ConditionFact]:
        """A copy, so that a FactSet does not change under its reader."""
        return dict(self._facts)

    def _of_the_past(self, report: ConditionReading) -> bool:
        """Whether the report is older than one that we have seen, or still the one in doubt."""
        type_, before = report.type, self._stamps.get(report.type)
        if before is None:
            return False
        stamps = _Stamps(report.transition, report.heartbeat)
        if (doubted := self._doubted.get(type_)) is not None:
            if stamps == doubted or _earlier(stamps, doubted):
                self._doubted[type_] = stamps
                return True
            del self._doubted[type_]
            self._facts[type_] = replace(self._facts[type_], doubted=False)
            self.ended_doubt = True
            return False
        if _earlier(stamps, before):
            self._doubt(type_, stamps)
            return True
        return False

    def _doubt(self, type_: str, stamps: _Stamps) -> None:
        self._doubted[type_] = stamps
        self._facts[type_] = replace(self._facts[type_], doubted=True)

    def _moved(self, report: ConditionReading) -> bool:
        """Whether its lastTransitionTime is later than it was, between findings."""
        known, before = self._facts.get(report.type), self._stamps.get(report.type)
        if known is None or before is None:
            return False
        if before.transition is None or report.transition is None:
            return False
        return report.transition > before.transition and {known.status, report.status} <= FINDINGS

    def _move(self, report: ConditionReading, now: datetime) -> _Move:
        unseen = self._unseen.get(report.type, timedelta(0))
        return _Move(report, self._facts[report.type], unseen, now)

    def _detect_start(
        self, moves: Sequence[_Move], reports: Sequence[ConditionReading], now: datetime
    ) -> None:
        """A start may come in several versions of the Node, one right after the other."""
        late = (move for move in self._lately if now - move.at <= TOGETHER)
        self._lately = (*late, *moves)
        started = [move.report for move in self._lately if move.is_repeat]
        started += [move.report for move in moves if _whole(move.report, moves, reports)]
        for move in self._lately:
            if not move.is_repeat and any(_together(move.report, by) for by in started):
                self._reset(move)

    def _reset(self, move: _Move) -> None:
        """What a condition became is what its reporter starts with, unless it has said more."""
        report, before = move.report, move.before
        fact = self._facts.get(report.type)
        if fact is None or (fact.status, fact.since) != (report.status, move.at):
            return
        if fact.settles is not None or not _same_text(report, fact):
            return
        self._facts[fact.type] = replace(fact, settles=move.at + SETTLE)
        self._wiped.pop(fact.type, None)
        if move.at - before.received_at < SILENT:
            wiped = _Wiped(before.status, before.since, move.at, move.unseen)
            self._wiped[fact.type] = wiped

    def _hear(
        self,
        report: ConditionReading,
        now: datetime,
        deaf_until: datetime | None,
        latest: HostTime | None,
    ) -> None:
        """latest  the latest stamp of the host, at the first sight of it; None: it is not that"""
        type_, known = report.type, self._facts.get(report.type)
        if known is None:
            if len(self._facts) < MOST_CONDITIONS:
                self._stamps[type_] = _Stamps(report.transition, report.heartbeat)
                self._facts[type_] = _first_fact(report, now, latest)
                self._first[type_] = now
            return
        if (first := self._first.get(type_)) is not None:
            known = self._repeated(known, report, now - first)
        before = self._stamps[type_]
        received_at = _compute_received_at(report, known, before, now, deaf_until)
        if (before.transition, before.heartbeat) != (report.transition, report.heartbeat):
            self._stamps[type_] = _Stamps(report.transition, report.heartbeat)
        self.ended_silence = max(self.ended_silence, received_at - known.received_at)
        if known.status != report.status:
            self._facts[type_] = self._changed(_fact(report, now, received_at))
        elif _same_text(report, known):
            if received_at > known.received_at:
                self._facts[type_] = _refresh_fact(known, received_at)
        else:  # more than what a reporter says when it starts: this is a finding
            self._wiped.pop(type_, None)
            self._facts[type_] = replace(_fact(report, known.since, received_at), began=known.began)

    def _repeated(
        self, known: ConditionFact, report: ConditionReading, passed: timedelta
    ) -> ConditionFact:
        """Learn from the first report after the first sight how old the one before it was then: by
        so much more than `passed` they lie apart. More than SILENT is a clock that was set.
        """
        before = self._stamps[known.type]
        if (before.transition, before.heartbeat) == (report.transition, report.heartbeat):
            return known
        del self._first[known.type]
        if known.status != report.status or before.transition != report.transition:
            return known
        older = _between(before.heartbeat, report.heartbeat) - passed
        if not timedelta(0) < older <= SILENT:
            older = timedelta(0)
        known = replace(known, since=known.since - older, began=None)
        self._facts[known.type] = known
        return known

    def _changed(self, fact: ConditionFact) -> ConditionFact:
        """Another status, since now; or since before a restart that wiped it out."""
        now = fact.since
        self._unseen.pop(fact.type, None)
        wiped = self._wiped.get(fact.type)
        if wiped is None or wiped.status != fact.status:
            return fact
        del self._wiped[fact.type]
        observed = wiped.until - wiped.since - wiped.unseen
        unseen = wiped.unseen + (now - wiped.until)
        if unseen > min(SETTLE, observed):
            return fact
        self._unseen[fact.type] = unseen
        return replace(fact, since=wiped.since)


def _earlier(first: _Stamps, other: _Stamps) -> bool:
    if first.heartbeat is None or other.heartbeat is None:
        return False
    return first.heartbeat < other.heartbeat


def _whole(
    report: ConditionReading, moves: Sequence[_Move], reports: Sequence[ConditionReading]
) -> bool:
    """Whether all conditions of its heartbeat became False with it, at least WHOLE."""
    if len(moves) < WHOLE or report.status != STARTS_AS:
        return False
    with_it = sum(_together(report, move.report) for move in moves)
    beside = sum(_at_once(other.heartbeat, report.heartbeat) for other in reports)
    return WHOLE <= with_it == beside


def _latest(reports: Sequence[ConditionReading], now: datetime) -> HostTime | None:
    """About now, by the host's own clock, as far as the Node tells: its latest stamp. The control
    plane tells since when a kubelet is silent, whose last stamp it leaves: so much later it is.
    """
    stamps = [
        report.heartbeat + (now - min(report.since or now, now))
        for report in reports
        if report.heartbeat is not None
    ]
    return max(stamps, default=None)


def _between(earlier: HostTime | None, later: HostTime | None) -> timedelta:
    """Zero where one of them is unknown; bounded, as odd stamps may lie millennia apart."""
    if earlier is None or later is None:
        return timedelta(0)
    return min(max(later - earlier, timedelta(0)), LONGEST_BETWEEN)


def _first_fact(report: ConditionReading, now: datetime, latest: HostTime | None) -> ConditionFact:
    """Of a condition that we see for the first time. It has its status for as long as its report
    says, by the clock that wrote the report, and perhaps since the report too.
    """
    if report.since is not None:
        return _fact(report, min(report.since, now), now)
    unheard = _between(report.heartbeat, latest)
    since = now - _between(report.transition, report.heartbeat)
    fact = _fact(report, since, now - unheard)
    return replace(fact, began=since - unheard) if unheard else fact


def _compute_received_at(
    report: ConditionReading,
    known: ConditionFact,
    before: _Stamps,
    now: datetime,
    deaf_until: datetime | None,
) -> datetime:
    """When its reporter was last heard from, by our clock: now, if it has written anew.

    What was written while we were deaf is as much later than what was written before as the
    reporter's clock says, and perhaps as old as that if that clock was set.
    """
    same = before.heartbeat == report.heartbeat and before.transition == report.transition
    controlled = report.since is not None
    if report.heartbeat is not None and same and known.status == report.status and not controlled:
        return known.received_at
    if deaf_until is None or deaf_until <= known.received_at:
        return now
    return min(known.received_at + _between(before.heartbeat, report.heartbeat), now)


def _fact(report: ConditionReading, since: datetime, received_at: datetime) -> ConditionFact:
    reason, message = clipped(report.reason), clipped(report.message)
    return ConditionFact(report.type, report.status, reason, message, since, received_at)


def _refresh_fact(fact: ConditionFact, received_at: datetime) -> ConditionFact:
    """Of every heartbeat: `replace` would take three times as long."""
    identity = fact.type, fact.status, fact.reason, fact.message
    return ConditionFact(*identity, fact.since, received_at, fact.settles, fact.began)


def _same_text(report: ConditionReading, known: ConditionFact) -> bool:
    return (report.reason == known.reason or clipped(report.reason) == known.reason) and (
        report.message == known.message or clipped(report.message) == known.message
    )


def _together(report: ConditionReading, other: ConditionReading) -> bool:
    """Whether one start of a reporter made both what they are."""
    if report.transition is None or other.transition is None or report.status != other.status:
        return False
    apart = max(report.transition, other.transition) - min(report.transition, other.transition)
    return apart <= TOGETHER and _at_once(report.heartbeat, other.heartbeat)


def _at_once(first: HostTime | None, other: HostTime | None) -> bool:
    if first is None or other is None:
        return first is other
    return max(first, other) - min(first, other) <= TOGETHER
