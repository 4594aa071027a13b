"""Schedules checks and reports their findings.

Each check sleeps for its interval with 10 % jitter, so that checks and hosts do not run at the same
time, or until it is woken. Only a few checks run at once. A check that fails affects its own
conditions only.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from agent.detectors import ConditionReport, EventReport, EventSeverity, Sink
from agent.detectors.checks import CANNOT_RUN, Check, Finding, Findings
from agent.detectors.checks.steady import Rounds, SteadyFinding, weigh
from agent.patience import Patience
from agent.probes import CannotAnswer
from kubenode.runtime.clock import Clock, wait

log = logging.getLogger(__name__)
T = TypeVar("T")
ONCE = Rounds()

AT_ONCE = 4
JITTER = 0.1
CHECK_SECONDS = 10.0
"""Timeout of a check that reads files, because a dead disk blocks it."""


class Turns:
    """Limits and spreads the checks of an agent; shared by all of them."""

    def __init__(self, clock: Clock, at_once: int = AT_ONCE, chance: random.Random | None = None):
        self.clock = clock
        self._slots = asyncio.Semaphore(at_once)
        self._chance = chance or random.Random()

    def pause(self, seconds: float) -> float:
        return seconds * self._chance.uniform(1 - JITTER, 1 + JITTER)

    async def take(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `work`, which starts when a slot is free."""
        async with self._slots:
            return await work()


class Reading:
    """A Check made from a function that reads files, which runs in a thread."""

    def __init__(self, name: str, conditions: tuple[str, ...], read: Callable[[], Findings]):
        self.name, self.conditions, self._read = name, conditions, read
        self._patience = Patience(most=1)

    async def inspect(self) -> Findings:
        return await self._patience.wait_for(self._read, CHECK_SECONDS, self.name)


class CheckDetector:
    """Implements agent.detectors.Detector for one check.

    every: seconds between two checks
    rounds: equal findings in a row that change a condition
    wake: set by what the check watches; the check then runs at once, but at most every `least`
        seconds
    """

    def __init__(
        self,
        check: Check,
        turns: Turns,
        every: float,
        rounds: Rounds = ONCE,
        wake: asyncio.Event | None = None,
        least: float = 5.0,
    ) -> None:
        self.name, self.conditions = check.name, check.conditions
        self._check, self._turns, self._rounds = check, turns, rounds
        self._every, self._wake, self._least = every, wake or asyncio.Event(), least
        self._states = {kind: SteadyFinding() for kind in self.conditions}
        self._broken = ""

    def leave(self, taken: Collection[str]) -> None:
        """Stop reporting conditions that others own. Call it before the start."""
        self.conditions = tuple(kind for kind in self.conditions if kind not in taken)
        self._states = {kind: SteadyFinding() for kind in self.conditions}

    def start(self, sink: Sink) -> None:
        """Report UNKNOWN before the first check."""
        self._report(sink)

    async def run(self, sink: Sink) -> None:
        self.start(sink)
        while True:
            self._wake.clear()
            await self._turns.take(lambda: self.check_once(sink))
            await self._turns.clock.sleep(min(self._least, self._every))
            rest = self._turns.pause(self._every) - self._least
            if rest > 0:
                await wait(self._turns.clock, self._wake, rest)

    async def check_once(self, sink: Sink) -> None:
        """Check once and report. Never raises except when cancelled."""
        findings, why = await self._ask()
        if why and why != self._broken:
            now = self._turns.clock.now()
            sink.report(EventReport(CANNOT_RUN, why, EventSeverity.WARNING, now, self.name))
            log.warning("a check of this host is broken", extra={"check": self.name, "why": why})
        self._broken = why
        for kind, state in self._states.items():
            if (finding := findings.get(kind)) is not None:
                self._states[kind] = weigh(state, finding, self._rounds)
        self._report(sink)

    async def _ask(self) -> tuple[Findings, str]:
        try:
            return await self._check.inspect(), ""
        except CannotAnswer as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001  one broken check must not end the agent
            why = f"{self.name}: {type(error).__name__}: {error}"
        return dict.fromkeys(self.conditions, Finding(None, CANNOT_RUN, why)), why

    def _report(self, sink: Sink) -> None:
        now = self._turns.clock.now()
        for kind, state in self._states.items():
            reported = state.last
            sink.report(
                ConditionReport(
                    kind, state.status, reported.reason, reported.message, now, self.name
                )
            )
