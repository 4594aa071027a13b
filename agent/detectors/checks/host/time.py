"""Whether the clock is synchronised, and its offset.

The kernel knows whether a daemon disciplines the clock. With chrony only chrony knows the offset:
it slews by frequency, so the kernel's own offset stays near 0. Both are read if both are there.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from agent.detectors.checks import Finding, Findings
from agent.detectors.checks.programs import Runner
from agent.probes import Answer, CannotAnswer

CONDITION = "NTPProblem"
CHRONY = ("chronyc", "-c", "-n", "tracking")
CHRONY_SECONDS = 3.0
_SYSTEM_TIME, _LEAP_STATUS = 4, 13
"""Indices of comma-separated fields: offset from NTP time in seconds, and the leap status."""


@dataclass(frozen=True, slots=True)
class ClockState:
    """State of a clock. offset: seconds, with any sign."""

    synchronised: bool
    offset: float = 0.0


class Clocks:
    """Implements Check.

    limit: offset in seconds at which the clock is wrong
    kernel: agent.probes.readings.clock, which does not block
    chrony: returns chronyc's output; "" if there is none
    """

    name = "clock"
    conditions = (CONDITION,)

    def __init__(
        self, limit: float, kernel: Callable[[], Answer], chrony: Callable[[], Awaitable[str]]
    ) -> None:
        self._limit, self._kernel, self._chrony = limit, kernel, chrony

    async def inspect(self) -> Findings:
        chrony = tracking(await self._chrony())
        try:
            known = self._kernel()
        except OSError as error:  # as in a container without the right to read it
            if chrony is None:
                raise CannotAnswer(f"clock: {error}") from error
            return {CONDITION: judge([chrony], self._limit)}
        own = ClockState(known.get("synchronized") is True, float(known.get("offset_s", 0.0)))
        return {CONDITION: judge([own, *([chrony] if chrony else [])], self._limit)}


def judge(clocks: Sequence[ClockState], limit: float) -> Finding:
    """Return the finding: one clock that is wrong is enough for a fault."""
    if not all(clock.synchronised for clock in clocks):
        return Finding(True, "ClockUnsynchronized", "nobody keeps the clock of this host")
    off = max(abs(clock.offset) for clock in clocks)
    if off >= limit:
        return Finding(True, "ClockIsOff", f"the clock is {off:.3f} s off, limit {limit:g} s")
    return Finding(False, "NTPIsUp", f"the clock is kept, within {limit:g} s")


def tracking(output: str) -> ClockState | None:
    """Parse `chronyc -c tracking`; None for another output."""
    fields = output.strip().split(",")
    try:
        return ClockState(fields[_LEAP_STATUS] != "Not synchronised", float(fields[_SYSTEM_TIME]))
    except (IndexError, ValueError):
        return None


def chronyc(programs: Runner) -> Callable[[], Awaitable[str]]:
    async def ask() -> str:
        ran = await programs.run(CHRONY, CHRONY_SECONDS)
        return ran.output if ran.code == 0 else ""

    return ask
