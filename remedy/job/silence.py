"""From when on it counts that nobody has told us something. Pure.

Hosts, controllers and people answer through the API server. While it is away nobody can be heard,
and those who have something to tell need a moment once it is back. A deadline that passes then says
nothing of them: it counts as soon as everybody could be heard again. What a request told its
executor does not change: an agent that wakes late does nothing.
"""

from datetime import datetime, timedelta

from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.model import Seen

NEXT_REPORT = timedelta(seconds=50)
"""By then a host that is well has been heard again, after an outage of the API server. For so long
Kubernetes itself waits for a kubelet before it takes the node to be lost (node-monitor-grace-period
since 1.32): a dead connection is noticed after up to 45 s (HTTP/2: 30 s idle and 15 s for a ping),
while reports, and the Leases of kubelets and agents, are due each 10 s.
"""


def counts_from(
    seen: Seen, began: datetime, deadline: datetime, report: timedelta = NEXT_REPORT
) -> datetime | None:
    """The deadline of a silence that is waited out since `began`, or later if there was a gap in
    what we hear since then; None: nobody is heard now.

    report  how long whoever is well may take to show it once they are heard
    """
    heard = seen.hearing_since if seen.fresh else None
    if heard is None:
        return None
    return deadline if heard <= began else max(deadline, heard + report)


def counts(
    seen: Seen, began: datetime, deadline: datetime, report: timedelta = NEXT_REPORT
) -> bool:
    at = counts_from(seen, began, deadline, report)
    return at is not None and seen.now >= at


def of_step(seen: Seen, record: StepStatus, deadline: datetime) -> bool:
    """Whether the silence since the step began counts by now."""
    return counts(seen, record.started_at or seen.now, deadline)
