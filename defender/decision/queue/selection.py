"""Call the next in line: holders that would be allowed if they asked now. Pure.

It may be called at any time; without news it does nothing. A slot is kept for each called holder
for a moment, so no more are called than there are slots.
"""

from datetime import datetime

from defender.decision.control import RiskControl
from defender.decision.verdict import judge
from kubenode.api.v1alpha1.permit import Holder

MOST_JUDGED = 64
"""Greatest number of holders to judge at once, to keep the event loop free. `Queue.news` shows the
rest.
"""


def call(control: RiskControl, now: datetime) -> list[Holder]:
    """Return the holders that should ask now, the best placed first. `control` has advanced to
    `now`.
    """
    queue, called = control.queue, list[Holder]()
    for _ in range(MOST_JUDGED):
        entry = queue.first(now) if queue.news else None
        if entry is None:
            break
        verdict = judge(entry.ask, control, now)
        if verdict.allowed:
            queue.calls.call(entry, now)
            called.append(entry.ask.holder)
        else:
            queue.blocked(entry, verdict, now)
    return called
