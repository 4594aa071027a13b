"""Watches the units of [local.units] and restarts failed ones within their limits.

It holds the agent's hands while it acts. A job that arrives meanwhile waits, and an open job has
precedence. Each restart is reported as an Event, later if the API server is unreachable.
"""

import asyncio
import logging
from collections.abc import Callable

from agent.detectors import EventReport, EventSeverity, Sink
from agent.host import Host, HostError, Unit, UnitVerb
from agent.local.limit import RestartLimit
from agent.local.rule import UnitObservation, why_not
from agent.patience import AT_ONCE, Waits
from agent.probes import CannotAnswer
from kubenode.runtime.clock import Clock

log = logging.getLogger(__name__)

NAME = "kubenode-agent"
EVERY_SECONDS = 30.0
START_SECONDS = 90.0
DISK_SECONDS = 20.0
SETTLE_SECONDS = 10.0
RESTARTED, FAILED, LIMITED = "LocalRestart", "LocalRestartFailed", "LocalRestartLimit"


class LocalHealer:
    """Part: restarts failed units.

    hands: mutex that is held by whatever acts on the host
    busy: returns the reason why the agent must not act by itself now; "" if it may
    patience: runs disk work of `limit` with a timeout
    """

    name = "local"

    def __init__(
        self,
        limit: RestartLimit,
        host: Host,
        hands: asyncio.Lock,
        busy: Callable[[], str],
        sink: Sink,
        clock: Clock,
        patience: Waits = AT_ONCE,
    ) -> None:
        self._limit, self._host, self._patience = limit, host, patience
        self._hands, self._busy, self._sink, self._clock = hands, busy, sink, clock
        self._failed_since: dict[str, float] = {}
        self._limited: set[str] = set()

    async def run(self) -> None:
        while True:
            await self.check_units()
            await self._clock.sleep(EVERY_SECONDS)

    async def check_units(self) -> None:
        """Check each unit once, and restart it if it may be."""
        for name, rule in self._limit.units.items():
            try:
                unit = await self._host.unit(name)
            except HostError as error:
                self._failed_since.pop(name, None)  # unknown does not count as failed
                log.debug("a unit cannot be seen", extra={"unit": name, "error": str(error)})
                continue
            if why := why_not(rule, self._observe(unit), self._why_busy()):
                log.debug("left alone", extra={"unit": name, "why": why})
                continue
            async with self._hands:
                await self._start(unit)

    def _observe(self, unit: Unit) -> UnitObservation:
        now = self._clock.monotonic()
        if unit.active == "failed":
            self._failed_since.setdefault(unit.name, now)
        else:
            self._failed_since.pop(unit.name, None)
            self._limited.discard(unit.name)
        return UnitObservation(unit, self._failed_since.get(unit.name), now)

    def _why_busy(self) -> str:
        return "the agent acts for a job" if self._hands.locked() else self._busy()

    async def _start(self, unit: Unit) -> None:
        if why := await self._take(unit.name):
            if unit.name not in self._limited:
                self._limited.add(unit.name)
                self._tell(LIMITED, f"{unit} and is left failed: it {why}", EventSeverity.WARNING)
            return
        log.warning("starting a failed unit", extra={"unit": unit.name})
        self._failed_since.pop(unit.name, None)
        try:
            await self._host.reset_failed(unit.name)
            await self._host.unit_job(UnitVerb.RESTART, unit.name, START_SECONDS)
            await self._clock.sleep(SETTLE_SECONDS)
            now = await self._host.unit(unit.name)
        except HostError as error:
            self._tell(FAILED, f"{unit}; starting it failed: {error}", EventSeverity.WARNING)
            return
        well = now.active == "active"
        reason, severity = (
            (RESTARTED, EventSeverity.INFO) if well else (FAILED, EventSeverity.WARNING)
        )
        self._tell(reason, f"{unit}; it was started and now {now}", severity)

    async def _take(self, unit: str) -> str:
        """Record a start; return "" if it may happen, else why not."""
        now = self._clock.now()
        try:
            return await self._patience.wait_for(
                lambda: self._limit.take(unit, now), DISK_SECONDS, "record of local starts"
            )
        except CannotAnswer as error:
            return f"cannot be written down: {error}"

    def _tell(self, reason: str, message: str, severity: EventSeverity) -> None:
        log.info(message, extra={"reason": reason})
        self._sink.report(EventReport(reason, message, severity, self._clock.now(), NAME))
