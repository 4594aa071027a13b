"""Decides which Deployments of a node's pods need surge before the pods may leave."""

from collections.abc import Collection, Mapping
from datetime import datetime

from kubenode.api.v1alpha1.steps import MigrateStep, PodPolicyMode
from kubenode.runtime.drain.observation import NO_SURGES, Surge, Surges
from kubenode.runtime.drain.policy import Protection, mode_of, owner, policy_of
from kubenode.runtime.drain.statefulsets import stands
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.objects import KubeOwnerReference, Pod
from remedy.job.migration import surge_replicas
from remedy.job.migration.replicas import Replicas
from remedy.job.model import Job


class WorkloadControllers:
    """Reads the surge state of the Deployments behind a node's pods."""

    def __init__(self, kube: Kube) -> None:
        self.replicas = Replicas(kube)

    async def surges(
        self,
        job: Job,
        step: MigrateStep,
        pods: Collection[Pod],
        protection: Protection,
        now: datetime,
    ) -> tuple[Surges, Mapping[str, int]]:
        """Return what to do for surge, and how many pods of each ReplicaSet (uid) may leave."""
        if step.surge != "First":
            return NO_SURGES, {}
        output = job.record.output if job.record is not None else {}
        mine = {s.owner: s for s in surge_replicas.read(output)}
        known = surge_replicas.plain(output)
        standing = _replica_sets(pods, step, protection)
        new, plain, up, ended = [], {}, [], {}
        places: dict[str, int] = {}
        for uid, (ref, members) in standing.items():
            if surge_replicas.short(uid) in known:
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
                ended[surge.key] = state
            elif state is None:
                up.append(surge)
            else:
                places[uid] = state
        ended |= {s.key: "" for uid, s in mine.items() if uid not in standing}
        return Surges(tuple(new), plain, tuple(up), ended), places

    async def _decide(
        self, job: Job, ref: KubeOwnerReference, pods: Collection[Pod], now: datetime
    ) -> Surge | str:
        """Return the surge for the pods of a ReplicaSet, or why there is none."""
        namespace = next(iter(pods)).metadata.namespace
        resolved = await self.replicas.deployment_of(namespace, ref.name)
        if isinstance(resolved, str):
            return resolved
        name, replica_set = resolved
        state = await self.replicas.controller(namespace, name, job.name, replica_set.spec.replicas)
        if state is None:
            return "its Deployment is gone"
        claims = any(v.claim is not None for pod in pods for v in pod.spec.volumes)
        if why := surge_replicas.refusal(state, claims):
            return why
        count = min(len(pods), state.may_add)
        return Surge(f"{namespace}/{name}", ref.uid, count, now)

    async def _state(self, job: Job, surge: Surge, now: datetime) -> int | str | None:
        """Return how many pods may leave; None: the replicas are not raised yet; or why the surge
        is over.
        """
        namespace, _, name = surge.key.partition("/")
        state = await self.replicas.controller(namespace, name, job.name)
        if state is None:
            return "its Deployment is gone"
        late = now >= surge.since + surge_replicas.PATIENCE
        if not state.mine:
            waits = not state.settled and not late
            return None if waits else surge_replicas.refusal(state, claims=False) or None
        if state.foreign:
            return "somebody else scales it"
        free = surge_replicas.places(state)
        return "its replacement was not ready in time" if late and free == 0 else free


def _replica_sets(
    pods: Collection[Pod], step: MigrateStep, protection: Protection
) -> dict[str, tuple[KubeOwnerReference, list[Pod]]]:
    """Return by uid the ReplicaSets with pods that are evicted and not terminating yet."""
    by_uid: dict[str, tuple[KubeOwnerReference, list[Pod]]] = {}
    for pod in pods:
        ref = owner(pod)
        if ref is None or ref.kind != "ReplicaSet" or not stands(pod):
            continue
        if mode_of(pod, policy_of(pod, step, protection)) is PodPolicyMode.EVICT:
            by_uid.setdefault(ref.uid, (ref, []))[1].append(pod)
    return by_uid
