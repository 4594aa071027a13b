"""Times of the queue, all derived from the time after which a refused holder asks again."""

from dataclasses import dataclass
from datetime import timedelta

from defender.decision.limits.case import REQUEUE_AFTER

SHORTEST_GRACE, LONGEST_GRACE = timedelta(seconds=0.5), timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class QueueTimes:
    """Times of the queue.

    requeue_after: 15 s; shorter if simulated time runs faster than the clock.
    """

    requeue_after: timedelta = REQUEUE_AFTER

    @property
    def grace(self) -> timedelta:
        """How long a slot is kept for a called holder, which asks within milliseconds, also over a
        network.
        """
        return max(SHORTEST_GRACE, min(self.requeue_after / 5, LONGEST_GRACE))

    @property
    def deaf(self) -> timedelta:
        """How long a kind that does not respond to calls is not called."""
        return self.requeue_after * 4

    @property
    def lost(self) -> timedelta:
        """Time past the time to ask again, after which a holder counts as not waiting any more."""
        return self.requeue_after * 8

    @property
    def longest(self) -> timedelta:
        """Greatest additional time to ask again for holders further back."""
        return self.requeue_after * 20

    @property
    def seldom(self) -> timedelta:
        """Greatest time to ask again, since a call may be lost and a person may end a pause
        early.
        """
        return self.requeue_after * 60
