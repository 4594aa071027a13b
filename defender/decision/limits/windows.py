"""windows: the times at which acts may start.

A granted act continues after its window closes. A stronger class for it is a new start, and waits
for the next window.
"""

from collections.abc import Sequence
from datetime import timedelta

from defender.decision.coverage import CLUSTER
from defender.decision.limits.case import LimitCase, LimitRefusal, spread
from defender.decision.limits.stops import SELDOM
from kubenode.api.meta import format_time
from kubenode.api.recurrence import find_state
from kubenode.api.v1alpha1 import Operation, Reason
from kubenode.api.v1alpha1.defenderpolicy import Window

AFTER_OPENING = timedelta(seconds=15)
"""Time after an opening over which waiting holders are spread."""


def window_closed(case: LimitCase) -> LimitRefusal | None:
    """Refuse the act outside the union of the windows for its operation."""
    if not case.spec.windows:
        return None
    windows = windows_for(case.spec.windows, case.ask.operation)
    if not windows:
        return None
    is_open, change = find_state(windows, case.now)
    if is_open:
        return None
    # The message only changes when the next opening does, as each new message is a write.
    message = f"{case.where(CLUSTER)}: no window for {case.ask.operation} is open"
    later = case.now + SELDOM
    if change is not None:
        message += f" before {format_time(change)}"
        later = change + AFTER_OPENING * spread(case.ask.node)
    return LimitRefusal(Reason.WINDOW_CLOSED, message, later, CLUSTER)


def windows_for(windows: Sequence[Window], operation: Operation) -> list[Window]:
    return [window for window in windows if window.for_ is None or operation in window.for_]
