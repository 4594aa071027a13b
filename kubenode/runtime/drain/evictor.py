"""Lists, evicts and deletes the pods of a node through the API server, and names what refuses.

Pods are listed per node when they are needed, not watched: a cache of all pods of a large cluster
would be most of the process's memory. Lists come from the server's cache, by its index of nodes.
Only the statement that no pod remains is read from the store itself.

A drain has a name that must not change as long as it runs. Recent requests are remembered under it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

import msgspec

from kubenode.runtime.clock import Clock
from kubenode.runtime.drain import budgets
from kubenode.runtime.drain.gate import DrainGate
from kubenode.runtime.drain.memory import DrainMemory
from kubenode.runtime.drain.observation import Blocked
from kubenode.runtime.drain.statefulsets import StatefulSets, set_uid
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, KubeError, NotFound, TooManyRequests
from kubenode.runtime.kube.objects import Pod, Structs

FROM_CACHE = {"resourceVersion": "0"}
FINAL = frozenset({400, 403, 422})
"""Status codes by which the server's rules or an admission webhook refuse one pod."""


class PodList(msgspec.Struct):
    items: list[Pod] = []


pod_list: Structs[PodList] = Structs(PodList)


class _EvictionAnswer(Enum):
    """What became of one request.

    ACCEPTED: the pod terminates
    GONE: the pod was gone, or another pod has its name
    LATER: the request failed for another reason, such as an overloaded server
    """

    ACCEPTED = 1
    GONE = 2
    LATER = 3


Answer = _EvictionAnswer | Blocked


@dataclass(frozen=True, slots=True)
class EvictionResult:
    """What became of the requests for several pods.

    accepted: pods that terminate now
    at: when the first request was sent
    blocked: the first refusal, with the budgets behind it
    error: of the first request that the server could not handle, "" without one
    """

    accepted: tuple[Pod, ...]
    at: datetime
    blocked: Blocked | None = None
    error: str = ""


class PodEvictor:
    def __init__(self, kube: Kube, clock: Clock, sets: StatefulSets) -> None:
        self._kube, self._clock, self._sets = kube, clock, sets
        self._gate, self.memory = DrainGate(clock), DrainMemory()

    @property
    def calm(self) -> datetime | None:
        """Return until when nothing is evicted; None if evictions are possible now."""
        return self._gate.calm

    async def on_node(self, node: str, *, cached: bool) -> list[Pod]:
        query = {"fieldSelector": f"spec.nodeName={node}"}
        if cached:
            query |= FROM_CACHE
        return (await self._kube.get(paths.pods(), pod_list, query)).items

    async def evict(
        self, name: str, keys: Sequence[str], grace: int | None = None
    ) -> EvictionResult:
        """Create an eviction for each of `keys`, in their order, with the UID of the listed pod.

        grace: seconds; None for each pod's own
        """

        async def evict(pod: Pod) -> None:
            namespace, pod_name = pod.metadata.namespace, pod.metadata.name
            options: dict[str, object] = {"preconditions": {"uid": pod.metadata.uid}}
            if grace is not None:
                options["gracePeriodSeconds"] = grace
            body = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod_name, "namespace": namespace},
                "deleteOptions": options,
            }
            await self._kube.create(paths.eviction(namespace, pod_name), body)

        now = self._clock.now()
        candidates = self.memory.pods(name, keys)
        pods = [pod for pod in candidates if not self._sets.taken(set_uid(pod), now)]
        return await self._each(name, pods, evict)

    async def delete(
        self, name: str, keys: Sequence[str], grace: int | None = None
    ) -> EvictionResult:
        """Delete each of `keys`, which bypasses PodDisruptionBudgets."""

        async def delete(pod: Pod) -> None:
            path = paths.pod(pod.metadata.namespace, pod.metadata.name)
            await self._kube.delete(path, uid=pod.metadata.uid, grace_seconds=grace)

        pending = self.memory.list_pending(name, self._clock.now())
        pods = [p for p in self.memory.pods(name, keys) if p.metadata.uid not in pending]
        return await self._each(name, pods, delete)

    async def _each(
        self, name: str, pods: Sequence[Pod], tell: Callable[[Pod], Awaitable[None]]
    ) -> EvictionResult:
        began = self._clock.now()
        errors: list[str] = []

        async def ask_pod(pod: Pod) -> Answer:
            try:
                await tell(pod)
            except KubeError as error:
                answer = self._refused(pod, error)
                if answer is _EvictionAnswer.LATER:
                    errors.append(str(error))
                return answer
            self._gate.served()
            return _EvictionAnswer.ACCEPTED

        pairs = list(zip(pods, await self._gate.each(pods, ask_pod), strict=True))
        now = self._clock.now()
        for pod, answer in pairs:
            if not isinstance(answer, Blocked):
                self.memory.gone(name, pod.metadata.uid, now)
        accepted = [pod for pod, answer in pairs if answer is _EvictionAnswer.ACCEPTED]
        self._sets.take(accepted, began)
        refused = [(pod, b) for pod, b in pairs if isinstance(b, Blocked)]
        blocked = await self._named(name, refused, now)
        return EvictionResult(tuple(accepted), began, blocked, errors[0] if errors else "")

    def _refused(self, pod: Pod, error: KubeError) -> Answer:
        if isinstance(error, (NotFound, Conflict)):
            return _EvictionAnswer.GONE
        if budgets.of_budget(error) or error.status in FINAL:
            return Blocked(pod.metadata.key, "", error.message)
        if isinstance(error, TooManyRequests):
            self._gate.throttled(error.retry_after)
        return _EvictionAnswer.LATER

    async def _named(
        self, name: str, refused: Sequence[tuple[Pod, Blocked]], now: datetime
    ) -> Blocked | None:
        """Return the first refusal with the budgets behind it, and remember all of them."""
        named = await budgets.named(self._kube, refused)
        refusals = [
            self.memory.refused(name, pod.metadata.uid, blocked, now)
            for (pod, _), blocked in zip(refused, named, strict=True)
        ]
        return refusals[0] if refusals else None
