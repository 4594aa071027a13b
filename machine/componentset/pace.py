"""Delay between a change of a machine and the reconcile of its sets.

A reconcile costs time in proportion to the number of machines. The delay grows with that number and
with the number of sets that wait, so that all reconciles together leave most of the event loop to
other tasks, and one reconcile handles several changes.
"""

SOON = 0.2
"""Least delay in seconds."""
SECONDS_PER_MEMBER = 1 / 8000
"""Seconds of delay for each machine and each waiting set.

Observing a machine and deciding about it takes about 30 us.
"""


class ObservationPace:
    """Schedule of the next reconcile of each set."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def delay(self, set_: str, machines: int, now: float) -> float:
        """Return the seconds until the set is reconciled. Until then, further calls yield the same
        instant.

        machines: number of machines in the cluster.
        now: monotonic time in seconds.
        """
        for name in [name for name, due in self._due.items() if due <= now]:
            del self._due[name]
        waiting = len(self._due.keys() - {set_}) + 1
        return (
            self._due.setdefault(set_, now + SOON + machines * SECONDS_PER_MEMBER * waiting) - now
        )
