"""Recent requests to end pods, by drain, so that no request is repeated every second.

It lives in this process alone. A new process repeats each request once, which costs a refusal each.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from kubenode.runtime.drain.observation import Blocked
from kubenode.runtime.kube.objects import Pod
from kubenode.runtime.patience import patience

CACHE_DELAY = timedelta(seconds=5)
"""Time within which the API server's cache shows that a pod terminates."""
MOST_DRAINS = 4096


@dataclass(slots=True)
class _EvictionRecord:
    """The last request for a pod.

    first: time of the first request
    until: no further request before this time
    """

    first: datetime
    until: datetime
    blocked: Blocked | None = None


@dataclass(slots=True)
class _OfDrain:
    records: dict[str, _EvictionRecord] = field(default_factory=dict)
    listed: dict[str, Pod] = field(default_factory=dict)


class DrainMemory:
    def __init__(self) -> None:
        self._drains: dict[str, _OfDrain] = {}

    def listed(self, name: str, pods: Iterable[Pod]) -> None:
        """Remember the pods of the node, and forget requests for all others."""
        drain = self._drains.setdefault(name, _OfDrain())
        drain.listed = {pod.metadata.key: pod for pod in pods}
        uids = {pod.metadata.uid for pod in drain.listed.values()}
        drain.records = {uid: record for uid, record in drain.records.items() if uid in uids}
        while len(self._drains) > MOST_DRAINS:
            del self._drains[next(iter(self._drains))]

    def forget(self, name: str) -> None:
        self._drains.pop(name, None)

    def pods(self, name: str, keys: Iterable[str]) -> list[Pod]:
        drain = self._drains.get(name)
        return (
            [drain.listed[key] for key in keys if key in drain.listed] if drain is not None else []
        )

    def every(self, name: str) -> list[Pod]:
        """Return all pods of the last list."""
        drain = self._drains.get(name)
        return list(drain.listed.values()) if drain is not None else []

    def gone(self, name: str, uid: str, now: datetime) -> None:
        """Record that the pod terminates, or was gone already."""
        drain = self._drains.setdefault(name, _OfDrain())
        drain.records[uid] = _EvictionRecord(now, now + CACHE_DELAY)

    def refused(self, name: str, uid: str, blocked: Blocked, now: datetime) -> Blocked:
        """Record a refusal and return it with the time of the next try.

        The longer a pod is refused, the longer is the pause.
        """
        drain = self._drains.setdefault(name, _OfDrain())
        old = drain.records.get(uid)
        first = old.first if old is not None and old.blocked is not None else now
        until = now + patience(now - first)
        updated = replace(blocked, until=until)
        drain.records[uid] = _EvictionRecord(first, until, updated)
        return updated

    def list_pending(self, name: str, now: datetime) -> Mapping[str, datetime]:
        """Return UIDs of pods that get no request yet, and the time of their next one."""
        drain = self._drains.get(name)
        records = drain.records.items() if drain is not None else ()
        return {uid: record.until for uid, record in records if record.until > now}

    def blocked(self, name: str) -> Blocked | None:
        """Return the refusal whose pod is retried first, None without one."""
        drain = self._drains.get(name)
        refused = (
            [a.blocked for a in drain.records.values() if a.blocked] if drain is not None else []
        )
        return min(refused, key=lambda b: (b.until is None, b.until, b.pod), default=None)
