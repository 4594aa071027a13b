"""Waits that began under another leader, or before our wall clock was set. Pure.

A status holds instants of the wall clock of whoever led when they were written. Ours may differ
from it by hours. So an instant from before our term says nothing of how much time has passed since:
what was waited for then is waited for anew, by our own clock. That is late, and never too early.
"""

from datetime import UTC, datetime, timedelta

ALWAYS = datetime.min.replace(tzinfo=UTC)
"""Since when a clock counts that was never set, under a leader that always led."""
LONGEST_AGAIN = timedelta(hours=1)
"""A wait is begun anew for so long at most: of one that lasts for hours or days a clock that is
some minutes off takes little.
"""


def begin_by_our_clock(
    began: datetime, length: timedelta, now: datetime, clock_since: datetime
) -> datetime:
    """When a wait of `length` began, so that it ends no earlier than our clock can tell.

    began        as it was written
    clock_since  when our term began, or our clock was last set
    """
    if began > now and clock_since > ALWAYS:
        return clock_since  # written by a clock that was ahead of ours
    if began >= clock_since:
        return began
    return max(began, clock_since + min(length, LONGEST_AGAIN) - length)
