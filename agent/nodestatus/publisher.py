"""The sink of all detectors.

    report ──► board or tally (memory, at once) ──► outbox (disk) ──► API server

A condition is on disk before it is published, so that a process that is killed in between does not
restart with an older state. A disk that hangs delays the publishing by `outbox.PATIENCE` at most.
"""

import asyncio
import logging
import random
from collections.abc import Iterable

from agent.detectors import NOT_LOOKED_AT, ConditionReport, Detector, EventReport, Report
from agent.nodestatus import form
from agent.nodestatus.board import FOREIGN, MOST, ConditionBoard, ReportNews
from agent.nodestatus.conditions import BURST, RATE, ConditionTeller, NodeStatusWriter
from agent.nodestatus.events import EventTeller
from agent.nodestatus.tally import EventTally
from agent.outbox import Outbox
from agent.outbox.contents import OutboxContents
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.process import CannotStart
from kubenode.runtime.rate import Spread

log = logging.getLogger(__name__)

SAVE_SECONDS = 1.0
"""Least time between two writes of the outbox; the first is immediate."""


def owners(detectors: Iterable[Detector]) -> dict[str, str]:
    """Return the owning detector of each condition type. Raises CannotStart."""
    by_type: dict[str, str] = {}
    for detector in detectors:
        for type_ in detector.conditions:
            if type_ in FOREIGN:
                raise CannotStart(
                    f"detector {detector.name}: condition {type_} is kubelet's; take it out"
                )
            if (other := by_type.setdefault(type_, detector.name)) != detector.name:
                raise CannotStart(
                    f"condition {type_}: detectors {other} and {detector.name} both report it; "
                    "take it out of one of them"
                )
    if len(by_type) > MOST:
        raise CannotStart(f"detectors report {len(by_type)} conditions, at most {MOST} are kept")
    return by_type


class SinkOf:
    """Implements agent.detectors.Sink for one detector."""

    def __init__(self, publisher: "Publisher", detector: str) -> None:
        self._publisher, self._detector = publisher, detector

    def report(self, report: Report) -> None:
        self._publisher.hear(self._detector, report)


class Publisher:
    """Part: publishes reports. `report` must be called in the event loop.

    node, agent: names of the Node and of the agent
    boot_id: of the host; "" if unknown
    refused: number of reports that a detector was not allowed to make
    """

    name = "publisher"

    def __init__(
        self,
        kube: Kube,
        node: str,
        agent: str,
        boot_id: str,
        detectors: Iterable[Detector],
        outbox: Outbox,
        clock: Clock,
        *,
        rate: float = RATE,
        burst: float = BURST,
        spread: Spread = random.random,
    ) -> None:
        self._outbox, self._clock, self._boot_id = outbox, clock, boot_id
        contents = outbox.load(boot_id)
        self.board = ConditionBoard(owners(detectors), contents.conditions)
        self.board.begin(clock.now())
        self.tally = EventTally(contents.events, contents.left_out)
        self.status = NodeStatusWriter(kube, node)
        self.conditions = ConditionTeller(
            self.board,
            self.status,
            clock,
            self.save,
            rate=rate,
            burst=burst,
            spread=spread,
        )
        self.events = EventTeller(self.tally, kube, self.status, agent, clock, spread=spread)
        self._unsaved = asyncio.Event()
        self.refused = 0

    def report(self, report: Report) -> None:
        self.hear(report.detector, report)

    def sink(self, detector: str) -> "SinkOf":
        """Return the sink of one detector.

        A report may name a part of the detector, such as one of its monitors. Readers see that
        name, but the ownership of a condition is checked by detector.
        """
        return SinkOf(self, detector)

    def hear(self, detector: str, report: Report) -> None:
        now = self._clock.now()
        if isinstance(report, EventReport):
            self.tally.put(report, now)
            self.events.notify()
            self._unsaved.set()
            return
        before = self.board.status(report.type)
        try:
            news = self.board.put(detector, report, now)
        except ValueError as error:
            self.refused += 1
            if self.refused == 1:
                log.error("a report was refused", extra={"error": str(error)})
            return
        self.conditions.notify(news)
        if news in (ReportNews.STATE, ReportNews.UNSEEN):
            self._unsaved.set()
        if news is ReportNews.STATE and not self._is_first_observation(report, before):
            self.tally.put(form.changed(report), now)
            self.events.notify()

    def _is_first_observation(self, report: ConditionReport, before: str | None) -> bool:
        """Return whether it is no change: a first observation that found the condition healthy."""
        unseen = before is None or before == "Unknown"
        return report.reason == NOT_LOOKED_AT or (unseen and report.status == "False")

    def started(self, detector: str) -> None:
        """Renew the detector's conditions from now on."""
        self.board.started(detector)

    def failed(self, detector: str) -> None:
        """Stop renewing the detector's conditions, so that they become stale."""
        self.board.failed(detector)

    async def save(self) -> None:
        await self._outbox.save(
            OutboxContents(
                boot_id=self._boot_id,
                conditions=self.board.all(),
                events=self.tally.waiting(),
                left_out=self.tally.dropped,
            )
        )

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.conditions.run(), name="conditions")
                tasks.create_task(self.events.run(), name="events")
                tasks.create_task(self._save(), name="outbox")
        finally:
            await self.save()

    async def _save(self) -> None:
        while True:
            await self._unsaved.wait()
            self._unsaved.clear()
            await self.save()
            if self._outbox.behind:
                self._unsaved.set()
            await self._clock.sleep(SAVE_SECONDS)
