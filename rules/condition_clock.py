"""Tracks since when each condition of a node has its status, by the local clock.

Some events make a fault look younger or older than it is. They are handled as follows.

- Heartbeats and new reasons change nothing. Only a change of status counts.
- A restart of this process: at the first observation the age is the difference between the report's
  lastTransitionTime and lastHeartbeatTime. Both come from one clock, so the error of that clock
  does not matter. The age lacks the time since the report, until the reporter's next report shows
  how long that was. It is never too large.
- The reporter's clock: its stamps are compared with its own stamps only. The time of a report is
  the time at which a change of its stamp was observed.
- The local clock is set: ages stay, because the stored instants move by the same step (`stepped`).
- etcd is restored: the Node shows older reports. A report with an earlier heartbeat than a known
  one is ignored, and the condition is doubted until its reporter writes again. A host's clock that
  is set back has the same effect for one heartbeat. A process that started after the restore knows
  no earlier heartbeat. It doubts what it observed first, while the freeze lasts.
- The detector restarts: see below.

A detector that starts posts every condition with its healthy status and a new lastTransitionTime,
whatever it was before (node-problem-detector; recorded in npd_conditions.json of the shared data).
It then finds the fault again and posts True. Without special handling each restart would make the
fault new, and its False would look like a recovery.

A restart is detected by what real flapping cannot do. Either a condition gets a later
lastTransitionTime although status, reason and message stay the same. Or, where all were faulty, all
conditions of one heartbeat, at least WHOLE of them, become False at the same time. A condition that
changes to the same status together with them (within TOGETHER, by transition and heartbeat) was
reset. Its status is no finding for SETTLE.

If the old status returns within SETTLE, its time continues, as long as most of it was reported: the
unreported parts sum up to at most SETTLE, and to no more than the reported parts. So flapping never
adds up to a held status, even with a detector that restarts again and again. No time continues over
a silence of SILENT. A restart of a detector with one condition cannot be detected: its faults then
look younger, never older.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kubenode.runtime.hosttime import HostTime
from rules.facts import ConditionFact
from rules.text import clipped

MOST_CONDITIONS = 128
SETTLE = timedelta(minutes=3)
"""Time after its reporter's start for which a status is no finding; `verify.settle` is as long."""
SILENT = timedelta(minutes=15)
"""A detector that was silent this long before its start had stopped checking."""
LONGEST_BETWEEN = timedelta(days=3650)
"""No rule asks for more than ten years, and an age of millennia overflows `datetime`."""
TOGETHER = timedelta(seconds=2)
"""Times of one report differ by at most this; they have whole seconds."""

WHOLE = 3
"""Fewer conditions that change at once may have one cause that comes and goes."""
STARTS_AS = "False"
"""Status that a starting reporter posts for conditions that are faulty when True.

Many conditions that become True at once may be real faults, and show no start.
"""
FINDINGS = frozenset({"True", "False"})


@dataclass(frozen=True, slots=True)
class ConditionReading:
    """A condition as the Node has it.

    transition: since when it has its status, by the reporter's clock
    heartbeat: when its reporter wrote it, by the same clock; None: the report does not tell
    since: when it got its status, by the control plane's clock, if the control plane wrote it for a
        silent reporter. `heartbeat` is then the reporter's last one, and each version of the Node
        counts as a report of the control plane
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
    """Stamps of the report that was read last."""

    transition: HostTime | None
    heartbeat: HostTime | None


@dataclass(frozen=True, slots=True)
class _Wiped:
    """Status that a condition had before its reporter restarted.

    unseen: part of the time from `since` to `until` in which the status was not reported
    """

    status: str
    since: datetime
    until: datetime
    unseen: timedelta


@dataclass(frozen=True, slots=True)
class _Move:
    """A report with a later lastTransitionTime, the fact before it, and when it was received."""

    report: ConditionReading
    before: ConditionFact
    unseen: timedelta
    at: datetime

    @property
    def is_repeat(self) -> bool:
        """Return whether only the time is new, which shows that the reporter has started."""
        return self.before.status == self.report.status and _same_text(self.report, self.before)


class ConditionClock:
    """Tracks the conditions of one node.

    ended_silence: longest silence of a reporter that the last `take` ended
    ended_doubt: whether the last `take` ended the doubt in a condition
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
        """When conditions were first observed that their reporters have not repeated since."""
        self._wiped: dict[str, _Wiped] = {}
        self._unseen: dict[str, timedelta] = {}
        self._doubted: dict[str, _Stamps] = {}
        """Stamps of the report in doubt, by type of condition, until the reporter writes again."""
        self.ended_silence = timedelta(0)
        self.ended_doubt = False

    def take(
        self, reports: Sequence[ConditionReading], now: datetime, deaf_until: datetime | None = None
    ) -> None:
        """Take all conditions of one version of the Node; conditions that are missing are dropped.

        deaf_until: end of the last gap in which no report could arrive. A report that arrived in
            the gap was made at some time in it, not now
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
        """Return the facts, and doubt those that their reporters have not repeated since the
        first one.
        """
        doubted = {type_: replace(self._facts[type_], doubted=True) for type_ in self._first}
        return {**self._facts, **doubted}

    def booted(self) -> None:
        """Forget resets, because the host has booted: a fault that appears now is new."""
        self._wiped.clear()
        self._lately = ()

    def stepped(self, step: timedelta, now: datetime) -> None:
        """Keep all ages after the local wall clock was set by `step` to `now`.

        All stored instants are of the local clock. Stamps of reporters are compared with one
        another only.
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
        """Return a copy, so that a FactSet does not change under its reader."""
        return dict(self._facts)

    def _of_the_past(self, report: ConditionReading) -> bool:
        """Return whether the report is older than a known one, or is still the one in doubt."""
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
        """Return whether lastTransitionTime is later than before, between two findings."""
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
        """Detect the start of a reporter, which may span several consecutive versions of the
        Node.
        """
        late = (move for move in self._lately if now - move.at <= TOGETHER)
        self._lately = (*late, *moves)
        started = [move.report for move in self._lately if move.is_repeat]
        started += [move.report for move in moves if _whole(move.report, moves, reports)]
        for move in self._lately:
            if not move.is_repeat and any(_together(move.report, by) for by in started):
                self._reset(move)

    def _reset(self, move: _Move) -> None:
        """Treat the condition's status as set by a reporter's start, unless a finding came
        since.
        """
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
        """Take one report. latest: latest stamp of the host at its first observation, else None."""
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
        else:  # more than a starting reporter posts: this is a finding
            self._wiped.pop(type_, None)
            self._facts[type_] = replace(_fact(report, known.since, received_at), began=known.began)

    def _repeated(
        self, known: ConditionFact, report: ConditionReading, passed: timedelta
    ) -> ConditionFact:
        """Correct the age of a first observation by the first report after it.

        Its report was already old then: by the time between the two reports, less the time `passed`
        between their observations. More than SILENT means that a clock was set.
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
        """Return the fact after a change of status: new, or older than a restart of its
        reporter.
        """
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
    """Return whether all conditions of its heartbeat became False together, at least WHOLE."""
    if len(moves) < WHOLE or report.status != STARTS_AS:
        return False
    with_it = sum(_together(report, move.report) for move in moves)
    beside = sum(_at_once(other.heartbeat, report.heartbeat) for other in reports)
    return WHOLE <= with_it == beside


def _latest(reports: Sequence[ConditionReading], now: datetime) -> HostTime | None:
    """Return the Node's latest stamp, which is the host's time at about `now`.

    If the control plane wrote for a silent kubelet, the kubelet's last stamp is moved by the time
    since.
    """
    stamps = [
        report.heartbeat + (now - min(report.since or now, now))
        for report in reports
        if report.heartbeat is not None
    ]
    return max(stamps, default=None)


def _between(earlier: HostTime | None, later: HostTime | None) -> timedelta:
    """Return the time between; zero if one is unknown. Bounded, because odd stamps may be far
    apart.
    """
    if earlier is None or later is None:
        return timedelta(0)
    return min(max(later - earlier, timedelta(0)), LONGEST_BETWEEN)


def _first_fact(report: ConditionReading, now: datetime, latest: HostTime | None) -> ConditionFact:
    """Return the fact at the first observation of a condition.

    It had its status for as long as its report says, by the reporter's clock, and perhaps also
    since the report.
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
    """Return when its reporter last wrote, by the local clock: `now`, if its stamps are new.

    A report from a gap is dated by its distance to the last one on the reporter's clock. If that
    clock was set, the report may be as old as the last one.
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
    """Return the fact with a new time. Called for each heartbeat: `replace` takes three times as
    long.
    """
    identity = fact.type, fact.status, fact.reason, fact.message
    return ConditionFact(*identity, fact.since, received_at, fact.settles, fact.began)


def _same_text(report: ConditionReading, known: ConditionFact) -> bool:
    return (report.reason == known.reason or clipped(report.reason) == known.reason) and (
        report.message == known.message or clipped(report.message) == known.message
    )


def _together(report: ConditionReading, other: ConditionReading) -> bool:
    """Return whether one start of a reporter may have written both reports."""
    if report.transition is None or other.transition is None or report.status != other.status:
        return False
    apart = max(report.transition, other.transition) - min(report.transition, other.transition)
    return apart <= TOGETHER and _at_once(report.heartbeat, other.heartbeat)


def _at_once(first: HostTime | None, other: HostTime | None) -> bool:
    if first is None or other is None:
        return first is other
    return max(first, other) - min(first, other) <= TOGETHER
