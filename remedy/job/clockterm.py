"""Since when this process leads by one and the same setting of its wall clock."""

from datetime import datetime, timedelta

from kubenode.runtime.clock import Clock
from rules.history import ClockSteps


class ClockTerm:
    """Begins with the first question, which who leads asks, and anew whenever the clock was set."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._steps = clock, ClockSteps()
        self._began: float | None = None

    def since(self) -> datetime:
        now, monotonic = self._clock.now(), self._clock.monotonic()
        if self._steps.step(now, monotonic) or self._began is None:
            self._began = monotonic
        return now - timedelta(seconds=monotonic - self._began)
