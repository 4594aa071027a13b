"""windows: the times at which acts may start.

A granted act continues after its window closes. A stronger class for it is a new start, and waits
for the next window.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from defender.decision.coverage import CLUSTER
from defender.decision.limits.case import LimitCase, LimitRefusal, spread
from defender.decision.limits.stops import SELDOM
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Operation, Reason
from kubenode.api.v1alpha1.defenderpolicy import Window
from kubenode.api.v1alpha1.window import TimeWindow, Weekday
from rules.leaves.window import inside

MOST_CHANGES = 1024
"""Greatest number of changes of single windows to examine. 32 windows a week stay below it."""
AFTER_OPENING = timedelta(seconds=15)
"""Time after an opening over which waiting holders are spread."""
Fields = tuple[tuple[Weekday, ...], str, str, str]


def window_closed(case: LimitCase) -> LimitRefusal | None:
    """Refuse the act outside the union of the windows for its operation."""
    if not case.spec.windows:
        return None
    windows = windows_for(case.spec.windows, case.ask.operation)
    if not windows:
        return None
    minute = case.now.replace(second=0, microsecond=0)
    is_open, change = state_in(tuple(map(_fields, windows)), minute)
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


def next_change(windows: Sequence[Window], now: datetime) -> tuple[datetime, bool] | None:
    """Return when the union of the windows next opens or closes, and whether it opens. None:
    never.
    """
    fields = tuple(map(_fields, windows))
    is_open, at = state_in(fields, now.replace(second=0, microsecond=0))
    for _ in range(MOST_CHANGES):
        if at is None:
            break
        state, later = state_in(fields, at)
        if state is not is_open:
            return at, state
        at = later
    return None


def _fields(window: TimeWindow) -> Fields:
    return tuple(window.days), window.from_, window.to, window.time_zone


@lru_cache(maxsize=1024)
def state_in(windows: tuple[Fields, ...], minute: datetime) -> tuple[bool, datetime | None]:
    """Return whether a window is open in the minute, and when that may next change, None for never.

    Windows open and close at whole minutes.
    """
    states = [
        inside(TimeWindow(days=list(days), from_=begin, to=end, time_zone=zone), minute)
        for days, begin, end, zone in windows
    ]
    is_open = any(open_ for open_, _ in states)
    changes = [at for open_, at in states if at is not None and open_ is is_open]
    return is_open, min(changes, default=None)
