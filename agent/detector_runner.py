"""Runs the detectors. A failed detector is reported and restarted with backoff.

A failed detector never ends the agent. Repairs go on, and its conditions are no longer renewed, so
readers see them as stale.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Protocol

from agent.detectors import Detector, EventReport, EventSeverity, Sink
from kubenode.runtime.clock import Clock
from kubenode.runtime.process import causes, forever
from kubenode.runtime.rate import Backoff, Spread

log = logging.getLogger(__name__)

RETRY_LOW, RETRY_HIGH = 1.0, 300.0
WELL_SECONDS = 600.0
"""A detector that ran this long is restarted without a long backoff."""
FAILED = "DetectorFailed"


class SinkSource(Protocol):
    """Gives out sinks, and learns which detectors run."""

    def sink(self, detector: str) -> Sink: ...

    def started(self, detector: str) -> None: ...

    def failed(self, detector: str) -> None: ...


class DetectorRunner:
    """Part: runs the detectors."""

    name = "watching"

    def __init__(
        self,
        detectors: Sequence[Detector],
        stage: SinkSource,
        clock: Clock,
        *,
        spread: Spread = random.random,
    ) -> None:
        self._detectors, self._stage, self._clock = detectors, stage, clock
        self._spread = spread

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for detector in self._detectors:
                tasks.create_task(self._keep(detector), name=detector.name)
            await forever()

    async def _keep(self, detector: Detector) -> None:
        sink = self._stage.sink(detector.name)
        backoff = Backoff(RETRY_LOW, RETRY_HIGH, self._spread)
        while True:
            began = self._clock.monotonic()
            self._stage.started(detector.name)
            try:
                await detector.run(sink)
                why = "it ended by itself"
            except Exception as error:
                # No error of a detector, on whatever kind of host, may end the repairs.
                why = "; ".join(f"{type(c).__name__}: {c}" for c in causes(error))
                log.exception("a detector failed", extra={"detector": detector.name})
            self._stage.failed(detector.name)
            if self._clock.monotonic() - began > WELL_SECONDS:
                backoff.reset()
            delay = backoff.next()
            message = f"detector {detector.name} failed: {why}; its conditions are not renewed"
            now = self._clock.now()
            sink.report(EventReport(FAILED, message, EventSeverity.WARNING, now, detector.name))
            await self._clock.sleep(delay)
