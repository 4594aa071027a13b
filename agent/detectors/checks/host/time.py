"""Whether the clock is kept, and how far it is off.

The kernel knows whether a daemon keeps the clock. How far off it is only chrony knows well: it
slews by frequency, so the kernel's own offset stays near 0. Both are asked where both are there.
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
"""Of the comma-separated fields: seconds that the clock is off from NTP time, and whether it is
synchronised at all.
"""


@dataclass(frozen=True, slots=True)
class ClockState:
    """offset  seconds that the clock is off; sign as it comes"""

    synchronised: bool
    offset: float = 0.0


class Clocks:
    """Implements Check.

    limit   seconds off at which the clock is wrong
    kernel  agent.probes.readings.clock, which blocks for no time at all
    chrony  chronyc's answer, "" where there is none
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
        except OSError as error:  # as in a container that may not ask
            if chrony is None:
                raise CannotAnswer(f"clock: {error}") from error
            return {CONDITION: judge([chrony], self._limit)}
        own = ClockState(known.get("synchronized") is True, float(known.get("offset_s", 0.0)))
        return {CONDITION: judge([own, *([chrony] if chrony else [])], self._limit)}


def judge(clocks: Sequence[ClockState], limit: float) -> Finding:
    """One who says that it is wrong is enough."""
    if not all(clock.synchronised for clock in clocks):
        return Finding(True, "ClockUnsynchronized", "nobody keeps the clock of this host")
    off = max(abs(clock.offset) for clock in clocks)
    if off >= limit:
        return Finding(True, "ClockIsOff", f"the clock is {off:.3f} s off, limit {limit:g} s")
    return Finding(False, "NTPIsUp", f"the clock is kept, within {limit:g} s")


def tracking(output: str) -> ClockState | None:
    """From `chronyc -c tracking`; None when it says nothing of the kind."""
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
