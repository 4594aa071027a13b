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
LONGEST_OFF = timedelta(days=7)
"""A clock is off by less than that. Once so much more has passed, no new term begins a wait anew:
it ends however often the leader changes or the clock is set.
"""
NEXT_REPORT = timedelta(seconds=50)
"""By then a host that is well has been heard again, after an outage of the API server. For so long
Kubernetes itself waits for a kubelet before it takes the node to be lost (node-monitor-grace-period
since 1.32): a dead connection is noticed after up to 45 s (HTTP/2: 30 s idle and 15 s for a ping),
while reports, and the Leases of kubelets and agents, are due each 10 s.
"""


def begin_by_our_clock(
    began: datetime, length: timedelta, now: datetime, clock_since: datetime
) -> datetime:
    """When a wait of `length` began, so that it ends no earlier than our clock can tell, and each
    term has the time of a report at least.

    began        as it was written
    clock_since  when our term began, or our clock was last set
    """
    if began > now and clock_since > ALWAYS:
        return clock_since  # written by a clock that was ahead of ours
    if began >= clock_since:
        return began
    end = began + length
    anew = clock_since + min(length, LONGEST_AGAIN)
    bound = max(end + LONGEST_OFF, clock_since + NEXT_REPORT)
    return max(end, min(anew, bound)) - length
