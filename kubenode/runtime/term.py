"""Waits that began under another leader, or before our wall clock was set. Pure.

A status holds instants by the wall clock of the leader that wrote them, which may differ from ours
by hours. So an instant from before our term does not tell how much time has passed since. The wait
then begins again by our own clock, so that it ends late, and never too early.
"""

from datetime import UTC, datetime, timedelta

ALWAYS = datetime.min.replace(tzinfo=UTC)
"""Start of the term if the clock was never set and the leader never changed."""
LONGEST_AGAIN = timedelta(hours=1)
"""Longest time for which a wait begins again. Compared with a wait of hours or days, a clock that
is off by some minutes changes little.
"""
LONGEST_OFF = timedelta(days=7)
"""Bound on the error of a clock. Once that much more time has passed, no new term begins the wait
again: it ends however often the leader changes or the clock is set.
"""
NEXT_REPORT = timedelta(seconds=50)
"""Time within which a healthy host reports again after an outage of the API server.

Kubernetes waits as long for a kubelet before the node counts as lost (node-monitor-grace-period
since 1.32). A dead connection is noticed after up to 45 s (HTTP/2: 30 s idle and 15 s for a ping);
reports, and the Leases of kubelets and agents, are due every 10 s.
"""


def begin_by_our_clock(
    began: datetime, length: timedelta, now: datetime, clock_since: datetime
) -> datetime:
    """Return when a wait of `length` began, by our clock.

    It is chosen so that the wait ends no earlier than our clock can tell, and each term has at
    least the time of a report.

    began: as it was written
    clock_since: when our term began, or our clock was last set
    """
    if began > now and clock_since > ALWAYS:
        return clock_since  # written by a clock that was ahead of ours
    if began >= clock_since:
        return began
    end = began + length
    anew = clock_since + min(length, LONGEST_AGAIN)
    bound = max(end + LONGEST_OFF, clock_since + NEXT_REPORT)
    return max(end, min(anew, bound)) - length
