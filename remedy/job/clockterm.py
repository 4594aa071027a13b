"""Since when this process leads with one setting of its wall clock."""

from datetime import datetime, timedelta

from kubenode.runtime.clock import Clock
from rules.history import ClockSteps


class ClockTerm:
    """Starts with the first call, which only the leader makes, and again whenever the
    clock is set.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._steps = clock, ClockSteps()
        self._began: float | None = None

    def since(self) -> datetime:
        """Return the start, by the current wall clock."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        if self._steps.step(now, monotonic) or self._began is None:
            self._began = monotonic
        return now - timedelta(seconds=monotonic - self._began)
