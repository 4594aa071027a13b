"""Measures how long condition changes took from their reporters to our cache. Pure."""

from collections.abc import Iterator
from datetime import datetime

from kubenode.runtime.hosttime import as_written
from kubenode.runtime.kube.objects import Node


def lags(old: Node, new: Node, now: datetime) -> Iterator[float]:
    """Yield the lag in seconds of each condition that changed its status between `old` and `new`.
    Reporters date transitions to the second by their own clock, so a negative lag counts as zero.
    """
    before = {condition.type: condition.status for condition in old.status.conditions}
    for condition in new.status.conditions:
        turned = before.get(condition.type, "False") != condition.status
        if turned and condition.last_transition_time is not None:
            turned_at = as_written(condition.last_transition_time)
            yield max((now - turned_at).total_seconds(), 0.0)
