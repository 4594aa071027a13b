"""Whether a StatefulSet can spare a pod now: its pods leave one by one, over all nodes."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from kubenode.runtime.drain.policy import STATEFUL_SET, movable, owner, ready
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.objects import KubeObjectMeta, KubeOwnerReference, Pod, Structs

CATCHES_UP = timedelta(seconds=3)
"""Time until a StatefulSet's status shows a pod that we evicted."""
MOST_KNOWN = 4096


class _StatefulSetSpec(msgspec.Struct):
    replicas: int = 1


class _StatefulSetStatus(msgspec.Struct, rename="camel"):
    ready_replicas: int = 0
    observed_generation: int = 0


class _StatefulSet(msgspec.Struct):
    metadata: KubeObjectMeta
    spec: _StatefulSetSpec = msgspec.field(default_factory=_StatefulSetSpec)
    status: _StatefulSetStatus = msgspec.field(default_factory=_StatefulSetStatus)


_stateful_set: Structs[_StatefulSet] = Structs(_StatefulSet)


class StatefulSets:
    """Which StatefulSets can spare a pod.

    `taken` knows the evictions of this process alone; those of others show in the set's status.
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._taken: dict[str, datetime] = {}

    async def incomplete(self, pods: Iterable[Pod], now: datetime) -> Mapping[str, str]:
        """Return UIDs of StatefulSets that cannot spare a ready pod now, with the reason."""
        sets: dict[str, tuple[KubeOwnerReference, list[Pod]]] = {}
        for pod in pods:
            ref = owner(pod)
            if ref is not None and ref.kind == STATEFUL_SET and stands(pod):
                sets.setdefault(ref.uid, (ref, []))[1].append(pod)
        reasons = {}
        for uid, (ref, members) in sets.items():
            if not all(ready(pod) for pod in members):
                continue  # an unready pod leaves first, which costs nothing
            namespace = members[0].metadata.namespace
            if self.taken(uid, now):
                reasons[uid] = _waits_for(f"{namespace}/{ref.name}")
            elif why := await self._why_not(namespace, ref.name):
                reasons[uid] = why
        return reasons

    def taken(self, uid: str, now: datetime) -> bool:
        """Return whether a pod of the StatefulSet was evicted a moment ago, on any node."""
        at = self._taken.get(uid)
        return at is not None and now < at + CATCHES_UP

    def take(self, pods: Iterable[Pod], now: datetime) -> None:
        """Record that these pods were evicted."""
        for pod in pods:
            if uid := set_uid(pod):
                self._taken.pop(uid, None)
                self._taken[uid] = now
        while len(self._taken) > MOST_KNOWN:
            del self._taken[next(iter(self._taken))]

    async def _why_not(self, namespace: str, name: str) -> str:
        """Return why the set cannot spare a pod now, "" if all of it is ready, or it is gone."""
        path = paths.apps("statefulsets", namespace, name)
        try:
            stored = await self._kube.get(path, _stateful_set)
        except NotFound:
            return ""
        stale = stored.status.observed_generation < stored.metadata.generation
        if stored.status.ready_replicas >= stored.spec.replicas and not stale:
            return ""
        return _waits_for(f"{namespace}/{name}")


def stands(pod: Pod) -> bool:
    """Return whether the pod has to leave and does not terminate yet."""
    return movable(pod) and pod.metadata.deletion_timestamp is None


def set_uid(pod: Pod) -> str:
    """Return the UID of the pod's StatefulSet, "" for other pods."""
    ref = owner(pod)
    return ref.uid if ref is not None and ref.kind == STATEFUL_SET else ""


def _waits_for(stateful_set: str) -> str:
    return f"pods of StatefulSet {stateful_set} wait until all of it is ready"
