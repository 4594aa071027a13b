"""The metadata detector: reads each document at its interval and delivers changes."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

from agent.detectors import Sink
from agent.detectors.metadata.delivery import HostDoctor, Teller
from agent.detectors.metadata.service import Service, Unreadable
from agent.detectors.metadata.settings import Metadata
from agent.detectors.metadata.sources import MetadataSource, sources
from kubenode.runtime.clock import Clock

log = logging.getLogger(__name__)

REMIND = timedelta(minutes=5).total_seconds()
"""An event is delivered again after this time, because the operator may have missed it."""
LONGEST = 60.0
"""Longest wait in seconds between two reads of a service that does not answer."""
NEVER = object()


class MetadataWatcher:
    """Detector without conditions: Host Doctor interprets the documents."""

    name = "metadata"
    conditions: tuple[str, ...] = ()

    def __init__(self, given: Metadata, doctor: HostDoctor, clock: Clock) -> None:
        self._clock = clock
        self._service = Service(given.address)
        self._sources = sources(given, self._service)
        self._teller = Teller(doctor, clock)

    async def run(self, sink: Sink) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._teller.run(), name="teller")
                for source in self._sources:
                    tasks.create_task(self._watch(source), name=source.transport)
        finally:
            await self._service.close()

    async def _watch(self, source: MetadataSource) -> None:
        last_document: Any = NEVER
        last_sent_at, failures = 0.0, 0
        while True:
            try:
                document = await source.read()
            except Unreadable as error:
                failures += 1
                if failures == 1:
                    extra = {"document": source.transport, "error": str(error)}
                    log.warning("the metadata service cannot be read", extra=extra)
                await self._clock.sleep(min(2.0**failures, LONGEST))
                continue
            failures = 0
            now = self._clock.monotonic()
            if document != last_document or (_tells(document) and now - last_sent_at >= REMIND):
                self._teller.tell(source.transport, document)
                last_document, last_sent_at = document, now
            await self._clock.sleep(source.every)


def _tells(document: Any) -> bool:
    """Return whether the document has an event. An empty document is delivered only on a change."""
    if isinstance(document, dict) and "Events" in document:
        return bool(document["Events"])
    return document not in (None, "", [], {}, "NONE", "FALSE")
