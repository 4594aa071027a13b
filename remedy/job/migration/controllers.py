"""What the controllers of a node's pods say before the pods may go: StatefulSets, Deployments with
surge, local volumes.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from kubenode.api.v1alpha1.steps import MigrateStep, PodPolicyMode, PodVolume
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.objects import OwnerReference, Pod
from remedy.job.migration import surging
from remedy.job.migration.policy import (
    STATEFUL_SET,
    Protection,
    mode_of,
    movable,
    owner,
    policy_of,
    ready,
)
from remedy.job.migration.replicas import Replicas, waits_for
from remedy.job.migration.words import NO_SURGES, Surge, Surges
from remedy.job.model import Job

CATCHES_UP = timedelta(seconds=3)
"""Until then a StatefulSet's status tells of the pod that we took."""
MOST_KNOWN = 4096


class _VolumeName(msgspec.Struct, rename="camel"):
    volume_name: str = ""


class _Claim(msgspec.Struct):
    spec: _VolumeName = msgspec.field(default_factory=_VolumeName)


class _VolumeSpec(msgspec.Struct, rename="camel"):
    local: msgspec.Raw | None = None
    host_path: msgspec.Raw | None = None


class _Volume(msgspec.Struct):
    spec: _VolumeSpec = msgspec.field(default_factory=_VolumeSpec)


class Controllers:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self.replicas = Replicas(kube)
        self._taken: dict[str, datetime] = {}
        self._local: dict[str, bool] = {}

    # -- StatefulSets ------------------------------------------------------------------------------

    async def incomplete(self, pods: Iterable[Pod], now: datetime) -> Mapping[str, str]:
        """Uids of StatefulSets that cannot spare a ready pod now, and why."""
        sets: dict[str, tuple[OwnerReference, list[Pod]]] = {}
        for pod in pods:
            ref = owner(pod)
            if ref is not None and ref.kind == STATEFUL_SET and _stands(pod):
                sets.setdefault(ref.uid, (ref, []))[1].append(pod)
        found = {}
        for uid, (ref, members) in sets.items():
            if not all(ready(pod) for pod in members):
                continue  # one that is not ready is taken first: nothing is lost by it
            namespace = members[0].metadata.namespace
            if self.taken(uid, now):
                found[uid] = waits_for(f"{namespace}/{ref.name}")
            elif why := await self.replicas.incomplete(namespace, ref.name):
                found[uid] = why
        return found

    def taken(self, uid: str, now: datetime) -> bool:
        """Whether a pod of the StatefulSet was taken a moment ago, by any job of this process."""
        at = self._taken.get(uid)
        return at is not None and now < at + CATCHES_UP

    def take(self, pods: Iterable[Pod], now: datetime) -> None:
        """These were evicted."""
        for pod in pods:
            ref = owner(pod)
            if ref is not None and ref.kind == STATEFUL_SET:
                self._taken.pop(ref.uid, None)
                self._taken[ref.uid] = now
        while len(self._taken) > MOST_KNOWN:
            del self._taken[next(iter(self._taken))]

    # -- surge -------------------------------------------------------------------------------------

    async def surges(
        self,
        job: Job,
        step: MigrateStep,
        pods: Collection[Pod],
        protection: Protection,
        now: datetime,
    ) -> tuple[Surges, Mapping[str, int]]:
        """What is to be done for surge, and how many pods of which ReplicaSet may go."""
        if step.surge != "First":
            return NO_SURGES, {}
        output = job.record.output if job.record is not None else {}
        mine = {s.owner: s for s in surging.read(output)}
        known = surging.plain(output)
        standing = _replica_sets(pods, step, protection)
        new, plain, up, over = [], {}, [], {}
        places: dict[str, int] = {}
        for uid, (ref, members) in standing.items():
            if surging.short(uid) in known:
                continue
            surge = mine.get(uid)
            if surge is None:
                decided = await self._decide(job, ref, members, now)
                if isinstance(decided, str):
                    plain[uid] = decided
                else:
                    new.append(decided)
                    places[uid] = 0
                continue
            places[uid] = 0
            state = await self._state(job, surge, now)
            if isinstance(state, str):
                over[surge.key] = state
            elif state is None:
                up.append(surge)
            else:
                places[uid] = state
        over |= {s.key: "" for uid, s in mine.items() if uid not in standing}
        return Surges(tuple(new), plain, tuple(up), over), places

    async def _decide(
        self, job: Job, ref: OwnerReference, pods: Collection[Pod], now: datetime
    ) -> Surge | str:
        """The surge for the pods of a ReplicaSet, or why there is none."""
        namespace = next(iter(pods)).metadata.namespace
        found = await self.replicas.deployment_of(namespace, ref.name)
        if isinstance(found, str):
            return found
        name, replica_set = found
        state = await self.replicas.controller(namespace, name, job.name, replica_set.spec.replicas)
        if state is None:
            return "its Deployment is gone"
        claims = any(v.claim is not None for pod in pods for v in pod.spec.volumes)
        if why := surging.refusal(state, claims):
            return why
        count = min(len(pods), state.may_add)
        return Surge(f"{namespace}/{name}", ref.uid, count, now)

    async def _state(self, job: Job, surge: Surge, now: datetime) -> int | str | None:
        """How many pods may go; None: the replicas are still to be raised; or why it is over."""
        namespace, _, name = surge.key.partition("/")
        state = await self.replicas.controller(namespace, name, job.name)
        if state is None:
            return "its Deployment is gone"
        late = now >= surge.since + surging.PATIENCE
        if not state.mine:
            waits = not state.settled and not late
            return None if waits else surging.refusal(state, claims=False) or None
        if state.foreign:
            return "somebody else scales it"
        free = surging.places(state)
        return "its replacement was not ready in time" if late and free == 0 else free

    # -- local volumes -----------------------------------------------------------------------------

    async def local(self, pods: Iterable[Pod], step: MigrateStep) -> frozenset[str]:
        """Keys of pods with a volume that exists on this node alone; looked at if a policy asks."""
        if not any(PodVolume.LOCAL in policy.volumes for policy in step.pod_policies):
            return frozenset()
        found = set()
        for pod in pods:
            for volume in pod.spec.volumes:
                claim = (volume.claim or {}).get("claimName", "")
                if claim and await self._is_local(pod.metadata.namespace, str(claim)):
                    found.add(pod.metadata.key)
        return frozenset(found)

    async def _is_local(self, namespace: str, claim: str) -> bool:
        key = f"{namespace}/{claim}"
        if key not in self._local:
            while len(self._local) >= MOST_KNOWN:
                del self._local[next(iter(self._local))]
            self._local[key] = await self._read_local(namespace, claim)
        return self._local[key]

    async def _read_local(self, namespace: str, claim: str) -> bool:
        decode_claim = msgspec.json.Decoder(_Claim).decode
        decode_volume = msgspec.json.Decoder(_Volume).decode
        try:
            bound = await self._kube.get(
                paths.persistent_volume_claim(namespace, claim), decode_claim
            )
            if not bound.spec.volume_name:
                return False
            volume = await self._kube.get(
                paths.persistent_volume(bound.spec.volume_name), decode_volume
            )
        except NotFound:
            return False
        return volume.spec.local is not None or volume.spec.host_path is not None


def _stands(pod: Pod) -> bool:
    return movable(pod) and pod.metadata.deletion_timestamp is None


def _replica_sets(
    pods: Collection[Pod], step: MigrateStep, protection: Protection
) -> dict[str, tuple[OwnerReference, list[Pod]]]:
    """By uid those whose pods are evicted, and are not told to go yet."""
    found: dict[str, tuple[OwnerReference, list[Pod]]] = {}
    for pod in pods:
        ref = owner(pod)
        if ref is None or ref.kind != "ReplicaSet" or not _stands(pod):
            continue
        if mode_of(pod, policy_of(pod, step, protection)) is PodPolicyMode.EVICT:
            found.setdefault(ref.uid, (ref, []))[1].append(pod)
    return found
