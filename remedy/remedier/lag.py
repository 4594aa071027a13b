"""How long signals took from their reporters to our cache. Pure."""

from collections.abc import Iterator
from datetime import datetime

from kubenode.runtime.hosttime import as_written
from kubenode.runtime.kube.objects import Node


def lags(old: Node, new: Node, now: datetime) -> Iterator[float]:
    """Seconds since each condition turned, as its reporter dates it, of those that turned between
    `old` and `new`. A reporter dates to the second, by its own clock: never below zero.
    """
    before = {condition.type: condition.status for condition in old.status.conditions}
    for condition in new.status.conditions:
        turned = before.get(condition.type, "False") != condition.status
        if turned and condition.last_transition_time is not None:
            turned_at = as_written(condition.last_transition_time)
            yield max((now - turned_at).total_seconds(), 0.0)
