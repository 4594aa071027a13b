"""What was asked of pods a moment ago, per job: so that nothing is asked twice a second.

It lives in this process alone. A new one asks all pods once more, which costs a refusal each.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from kubenode.runtime.kube.objects import Pod
from remedy.job.migration.words import Blocked
from remedy.job.moves import patience

SEEN_SOON = timedelta(seconds=5)
"""Within this the API server's cache shows that a pod was told to go."""
MOST_JOBS = 4096


@dataclass(slots=True)
class _Asked:
    """first  when it was asked for the first time
    until  not again before then
    """

    first: datetime
    until: datetime
    blocked: Blocked | None = None


@dataclass(slots=True)
class _OfJob:
    asked: dict[str, _Asked] = field(default_factory=dict)
    listed: dict[str, Pod] = field(default_factory=dict)


class Memory:
    def __init__(self) -> None:
        self._jobs: dict[str, _OfJob] = {}

    def listed(self, job: str, pods: Iterable[Pod]) -> None:
        """What was seen on the job's node; whoever is gone is forgotten."""
        kept = self._jobs.setdefault(job, _OfJob())
        kept.listed = {pod.metadata.key: pod for pod in pods}
        uids = {pod.metadata.uid for pod in kept.listed.values()}
        kept.asked = {uid: asked for uid, asked in kept.asked.items() if uid in uids}
        while len(self._jobs) > MOST_JOBS:
            del self._jobs[next(iter(self._jobs))]

    def forget(self, job: str) -> None:
        self._jobs.pop(job, None)

    def pods(self, job: str, keys: Iterable[str]) -> list[Pod]:
        kept = self._jobs.get(job)
        return [kept.listed[key] for key in keys if key in kept.listed] if kept is not None else []

    def every(self, job: str) -> list[Pod]:
        """All that were seen on the job's node."""
        kept = self._jobs.get(job)
        return list(kept.listed.values()) if kept is not None else []

    def gone(self, job: str, uid: str, now: datetime) -> None:
        """It was told to go, or had gone already."""
        kept = self._jobs.setdefault(job, _OfJob())
        kept.asked[uid] = _Asked(now, now + SEEN_SOON)

    def refused(self, job: str, uid: str, blocked: Blocked, now: datetime) -> Blocked:
        """With the time of the next try: the longer a pod is refused, the longer the pause."""
        kept = self._jobs.setdefault(job, _OfJob())
        old = kept.asked.get(uid)
        first = old.first if old is not None and old.blocked is not None else now
        until = now + patience(now - first)
        told = replace(blocked, until=until)
        kept.asked[uid] = _Asked(first, until, told)
        return told

    def asked(self, job: str, now: datetime) -> Mapping[str, datetime]:
        """Uids that are not asked again before the time, and that time."""
        kept = self._jobs.get(job)
        found = kept.asked.items() if kept is not None else ()
        return {uid: asked.until for uid, asked in found if asked.until > now}

    def blocked(self, job: str) -> Blocked | None:
        """Of the refused pods the one that is tried again first."""
        kept = self._jobs.get(job)
        refused = [a.blocked for a in kept.asked.values() if a.blocked] if kept is not None else []
        return min(refused, key=lambda b: (b.until is None, b.until, b.pod), default=None)
