"""Listens to systemd for units that restart too often, without polling.

The bus delivers signals of the watched units only. If the connection is lost, it is opened again,
and systemd's counter then shows what happened meanwhile.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from agent.detectors import Sink
from agent.detectors.checks import Findings
from agent.detectors.checks.detector import CheckDetector, Turns
from agent.detectors.checks.services.restarts import Restarts, condition, judge
from agent.probes import CannotAnswer
from kubenode.runtime.clock import wait

AGAIN_SECONDS = 30.0
"""Seconds between two tries to reach the bus."""
RestartCallback = Callable[[str, int], None]
"""Called with a unit and its NRestarts."""


class Listener(Protocol):
    async def listen(
        self, units: Sequence[str], on_restarts: RestartCallback, ready: Callable[[], None]
    ) -> None:
        """Report every unit's count, call `ready`, then report each change until the bus is lost.

        Raises CannotAnswer if the bus cannot be reached or is lost.
        """
        ...


class UnitFlaps:
    """Implements agent.detectors.Detector.

    limit, within: number of automatic restarts within seconds that is too many
    """

    name = "units"

    def __init__(
        self, units: Sequence[str], limit: int, within: float, listener: Listener, turns: Turns
    ) -> None:
        self._units = {unit: Restarts(limit, within) for unit in units}
        self._within, self._listener, self._turns = within, listener, turns
        self.conditions = tuple(dict.fromkeys(condition(unit) for unit in units))
        self._news = asyncio.Event()
        self._hears, self._why = False, ""
        self._detector = CheckDetector(self, turns, within)

    async def inspect(self) -> Findings:
        if self._why:
            raise CannotAnswer(self._why)
        if not self._hears:
            return {}  # not all units have been read yet
        now = self._turns.clock.monotonic()
        flapping: dict[str, dict[str, int]] = {kind: {} for kind in self.conditions}
        for unit, restarts in self._units.items():
            count = restarts.count_recent(now)
            if restarts.flapping:
                flapping[condition(unit)][unit] = count
        unsure = {condition(unit) for unit, history in self._units.items() if not history.sure(now)}
        return {
            kind: judge(kind, units, self._within)
            for kind, units in flapping.items()
            if units or kind not in unsure
        }

    async def run(self, sink: Sink) -> None:
        self._detector.start(sink)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen())
            tasks.create_task(self._tell(sink))

    async def _tell(self, sink: Sink) -> None:
        clock = self._turns.clock
        while True:
            await self._news.wait()
            self._news.clear()
            await self._detector.check_once(sink)
            while (rest := self._rest()) is not None and not await wait(clock, self._news, rest):
                await self._detector.check_once(sink)

    def _rest(self) -> float | None:
        """Return the seconds until the oldest restart stops counting; None if there is none."""
        now = self._turns.clock.monotonic()
        ends = [end for history in self._units.values() if (end := history.next(now)) is not None]
        return min(ends) - now if ends else None

    async def _listen(self) -> None:
        while True:
            try:
                await self._listener.listen(tuple(self._units), self._record, self._ready)
            except CannotAnswer as error:
                self._hears, self._why = False, str(error)
            self._news.set()
            await self._turns.clock.sleep(self._turns.pause(AGAIN_SECONDS))

    def _record(self, unit: str, count: int) -> None:
        self._units[unit].record(count, self._turns.clock.monotonic())
        self._news.set()

    def _ready(self) -> None:
        self._hears, self._why = True, ""
        self._news.set()
