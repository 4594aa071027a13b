"""Calls the next in line: those who would be allowed if they asked now. Pure.

Safe to be asked at any time and as often as one likes: what has no news costs nothing. Each one
that is called keeps a slot for a moment, so no more are called than there are slots.
"""

from datetime import datetime

from defender.control import RiskControl
from defender.verdict import judge
from kubenode.api.v1alpha1.permit import Holder

MOST_JUDGED = 64
"""In one go, for the loop's sake; `Queue.news` tells that there is more to do."""


def call(control: RiskControl, now: datetime) -> list[Holder]:
    """Holders that shall ask now, the best placed first. `control` has advanced to `now`."""
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
