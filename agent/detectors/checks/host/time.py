"""Whether the clock is kept, and how far it is off.

The kernel knows whether a daemon keeps the clock. How far off it is only chrony knows well: it
slews by frequency, so the kernel's own offset stays near 0. Both are asked where both are there.
"""

from collections.abc import Awaitable, Callable

from agent.detectors.checks import Finding, Findings
from agent.detectors.checks.programs import Runner
from agent.probes import Answer, CannotAnswer

CONDITION = "NTPProblem"
CHRONY = ("chronyc", "-c", "-n", "tracking")
CHRONY_SECONDS = 3.0
_SYSTEM_TIME = 4
"""Of the comma-separated fields: seconds that the system's clock is off from NTP time."""


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

    async def look(self) -> Findings:
        try:
            known = self._kernel()
        except OSError as error:
            raise CannotAnswer(f"clock: {error}") from error
        chrony = offset(await self._chrony())
        return {CONDITION: judge(known, chrony, self._limit)}


def judge(known: Answer, chrony: float | None, limit: float) -> Finding:
    """`chrony`: seconds off, None when it was not to be had."""
    if known.get("synchronized") is not True:
        return Finding(True, "ClockUnsynchronized", "the kernel says that nobody keeps its clock")
    own = known.get("offset_s", 0.0)
    off = abs(chrony) if chrony is not None else float(own)
    if off >= limit:
        return Finding(True, "ClockIsOff", f"the clock is {off:.3f} s off, limit {limit:g} s")
    return Finding(False, "NTPIsUp", f"the clock is kept, within {limit:g} s")


def offset(tracking: str) -> float | None:
    """Seconds from `chronyc -c tracking`; None when it says nothing of the kind."""
    words = tracking.strip().split(",")
    try:
        return float(words[_SYSTEM_TIME]) if len(words) > _SYSTEM_TIME else None
    except ValueError:
        return None


def chronyc(programs: Runner) -> Callable[[], Awaitable[str]]:
    async def ask() -> str:
        ran = await programs.run(CHRONY, CHRONY_SECONDS)
        return ran.said if ran.code == 0 else ""

    return ask
