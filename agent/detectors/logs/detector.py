"""The log detector: reads sources, calls the pure watcher, reports, and stores its state.

A line goes from its source to the sink without waiting. `_tend` does what needs time or reads the
host (quiet periods, checks, writes of the state), and sleeps while all is healthy.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from agent.detectors import (
    CONFIG_INVALID,
    ConditionReport,
    EventReport,
    EventSeverity,
    Report,
    Sink,
)
from agent.detectors.logs import memory
from agent.detectors.logs.line import Line
from agent.detectors.logs.program import Program
from agent.detectors.logs.recovery_checks import CHECKS
from agent.detectors.logs.sources import Source
from agent.detectors.logs.state import ConditionState, State, tell
from agent.detectors.logs.timeouts import after_boot, answered, due, pass_time, questions
from agent.detectors.logs.watch import Outcome, begin, looked, unreadable, watch
from agent.patience import AT_ONCE, Waits
from agent.probes import CannotAnswer
from kubenode.runtime.clock import Clock, wait

log = logging.getLogger(__name__)

LOST = "LogLinesLost"
SOON, LATER = timedelta(seconds=1), timedelta(seconds=60)
"""How long reports, and read positions, may be missing on disk. After a crash the lines since
then are read again.
"""
MINUTE = timedelta(minutes=1)
DISK_SECONDS = 1.0
"""Timeout of a write. Quiet periods and checks wait for a disk that hangs; lines do not."""
LOGS = "logs"


class LogDetector:
    """The log detector.

    hang_on: condition type to the names of the sources that it depends on
    folder: where it stores its state; None: nowhere
    complaints: errors of its configuration, reported as Events
    patience: runs writes to `folder` with a timeout
    """

    name = LOGS

    def __init__(
        self,
        program: Program,
        sources: Sequence[Source],
        hang_on: Mapping[str, set[str]],
        clock: Clock,
        *,
        boot_id: str = "",
        folder: Path | None = None,
        remembered: memory.Memory | None = None,
        complaints: Sequence[str] = (),
        root: str = "/",
        patience: Waits = AT_ONCE,
    ) -> None:
        self._patience = patience
        self._program, self._sources, self._clock = program, list(sources), clock
        self._hang_on, self._boot_id, self._folder = hang_on, boot_id, folder
        self._remembered = remembered or memory.Memory()
        self.complaints, self._root = list(complaints), root
        self._state = State({})
        self._sink: Sink | None = None
        self._read: set[str] = set()
        self._settled: set[str] = set()
        self._broken: dict[str, str] = {}
        self._lost: dict[str, tuple[datetime, int]] = {}
        self._woken = asyncio.Event()
        self._keep_at: datetime | None = None

    @property
    def conditions(self) -> tuple[str, ...]:
        return tuple(self._program.conditions)

    async def run(self, sink: Sink) -> None:
        self._sink = sink
        self._read, self._settled = set(), set()
        now = self._clock.now()
        conditions = self._remembered.restore_conditions()
        if self._remembered.boot_id != self._boot_id:
            conditions = after_boot(self._program, conditions)
        self._state, reports = begin(self._program, now, conditions)
        for report in reports:
            sink.report(report)
        for complaint in self.complaints:
            log.warning("a log configuration is left out", extra={"error": complaint})
            sink.report(EventReport(CONFIG_INVALID, complaint, EventSeverity.WARNING, now, LOGS))
        positions = self._remembered.positions
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._tend())
                for source in self._sources:
                    position = positions.get(source.name, "")
                    tasks.create_task(source.run(self, position), name=source.name)
        finally:
            await self._keep()

    # ---- reports of sources (Hearer)

    def lines(self, source: str, lines: Sequence[Line]) -> None:
        now = self._clock.now()
        before = self._state
        reported = False
        for line in lines:
            self._state, reports = watch(self._program, self._state, line, now)
            if reports:
                self._report(reports)
                reported = True
        self._mark(now, SOON if reported else LATER)
        if self._state is not before:
            self._woken.set()

    def caught_up(self, source: str) -> None:
        log.info("a log is read to its end", extra={"log": source})
        self._broken.pop(source, None)
        self._read.add(source)
        self._woken.set()

    def lost(self, source: str, what: str) -> None:
        now = self._clock.now()
        since, times = self._lost.get(source, (now - MINUTE, 0))
        if now - since < MINUTE:
            self._lost[source] = (since, times + 1)
            return
        more = f" (and {times} more times in the minutes before)" if times else ""
        self._lost[source] = (now, 0)
        log.warning("log lines are lost", extra={"log": source, "what": what})
        self._report([EventReport(LOST, what + more, EventSeverity.WARNING, now, LOGS)])

    def broken(self, source: str, why: str) -> None:
        if self._broken.get(source) != why:
            log.warning("a log cannot be read", extra={"log": source, "error": why})
        self._broken[source] = why
        self._read.discard(source)
        types = [name for name, needed in self._hang_on.items() if source in needed]
        self._settled.difference_update(types)
        outcome = unreadable(self._program, self._state, types, why, self._clock.now())
        self._state, reports = outcome
        self._tell(reports)

    # ---- reports to the sink

    def _report(self, reports: Sequence[Report]) -> None:
        """Report Events at once, and a condition only after its logs were read to their end."""
        self._tell(
            [
                report
                for report in reports
                if isinstance(report, EventReport) or report.type in self._settled
            ]
        )

    def _tell(self, reports: Sequence[Report]) -> None:
        assert self._sink is not None
        for report in reports:
            self._sink.report(report)

    def _take(self, outcome: Outcome) -> None:
        before = self._state
        self._state, reports = outcome
        self._report(reports)
        if self._state is not before and reports:
            self._mark(self._clock.now(), SOON)

    # ---- work that takes time

    async def _tend(self) -> None:
        while True:
            self._woken.clear()
            now = self._clock.now()
            self._take(pass_time(self._program, self._state, now))
            await self._ask()
            self._settle()
            if self._keep_at is not None and self._keep_at <= self._clock.now():
                await self._keep()
            await wait(self._clock, self._woken, self._seconds())

    def _seconds(self) -> float | None:
        times = [t for t in (due(self._program, self._state), self._keep_at) if t is not None]
        if not times:
            return None
        return max(0.0, (min(times) - self._clock.now()).total_seconds())

    async def _ask(self) -> None:
        self._state, due_questions = questions(self._program, self._state, self._clock.now())
        for question in due_questions:
            check = CHECKS[question.check]
            if await asyncio.to_thread(check, self._root, question.key):
                now = self._clock.now()
                self._take(answered(self._program, self._state, question, now))

    def _settle(self) -> None:
        """Report conditions whose logs have all been read to their end."""
        types = [
            name
            for name, needed in self._hang_on.items()
            if name not in self._settled and needed <= self._read
        ]
        if not types:
            return
        now = self._clock.now()
        self._state, _ = looked(self._program, self._state, types, now)
        self._settled.update(types)
        conditions = self._state.conditions
        self._tell([_as_it_is(self._program, name, conditions, now) for name in types])
        self._mark(now, SOON)

    def _mark(self, now: datetime, within: timedelta) -> None:
        at = now + within
        if self._folder is not None and (self._keep_at is None or at < self._keep_at):
            self._keep_at = at
            self._woken.set()

    async def _keep(self) -> None:
        self._keep_at = None
        if self._folder is None or not self._boot_id:
            return
        positions = {source.name: source.position for source in self._sources if source.position}
        positions = {**self._remembered.positions, **positions}
        stored = self._remembered = memory.keep(
            self._boot_id, positions, dict(self._state.conditions)
        )
        folder = self._folder
        try:
            await self._patience.wait_for(
                lambda: memory.write(folder, stored), DISK_SECONDS, f"memory of logs in {folder}"
            )
        except (OSError, CannotAnswer) as error:
            log.warning("what the logs said is not kept", extra={"error": str(error)})


def _as_it_is(
    program: Program, name: str, conditions: Mapping[str, ConditionState], now: datetime
) -> ConditionReport:
    state = conditions[name]
    at = state.faults[-1].since if state.faults else now
    return tell(program.conditions[name], state, at)
