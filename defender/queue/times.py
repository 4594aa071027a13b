"""The times of the queue, all taken from one: how soon a refused holder looks again."""

from dataclasses import dataclass
from datetime import timedelta

from defender.limits.case import LOOK_AGAIN

SHORTEST_GRACE, LONGEST_GRACE = timedelta(seconds=0.5), timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class QueueTimes:
    """look_again  15 s; less where a whole fleet lives faster than the clock"""

    look_again: timedelta = LOOK_AGAIN

    @property
    def grace(self) -> timedelta:
        """How long a slot is kept for one that was called: it asks in milliseconds, over a network
        too.
        """
        return max(SHORTEST_GRACE, min(self.look_again / 5, LONGEST_GRACE))

    @property
    def deaf(self) -> timedelta:
        """How long a kind that heeds no call is not called."""
        return self.look_again * 4

    @property
    def lost(self) -> timedelta:
        """Past the time to look again: then nobody asks for it any more."""
        return self.look_again * 8

    @property
    def longest(self) -> timedelta:
        """How much later than others anybody looks again."""
        return self.look_again * 20

    @property
    def seldom(self) -> timedelta:
        """Nobody sleeps for longer: a call may not reach it, and a person may end a pause early."""
        return self.look_again * 60
