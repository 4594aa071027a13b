"""Drains nodes by one policy: that of a MigrateStep, without its surge and checkpoints."""

from collections.abc import Sequence
from datetime import datetime

from kubenode.api.v1alpha1.steps import MigrateStep
from kubenode.runtime.clock import Clock
from kubenode.runtime.drain.evictor import EvictionResult, PodEvictor
from kubenode.runtime.drain.observation import Pods
from kubenode.runtime.drain.plan import DrainState, plan
from kubenode.runtime.drain.policy import Protection
from kubenode.runtime.drain.statefulsets import StatefulSets
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.objects import Pod

DEFAULT = MigrateStep()


class Drainer:
    """Drains nodes. `name` identifies one drain, and must not change as long as it runs."""

    def __init__(self, kube: Kube, clock: Clock, protection: Protection | None = None) -> None:
        self._clock, self._protection = clock, protection or Protection()
        self._sets = StatefulSets(kube)
        self._leaving = PodEvictor(kube, clock, self._sets)

    async def plan_next(self, name: str, node: str, began: datetime) -> Pods:
        """Return what to do next. Reads past the cache before it reports that no pod remains.

        began: start of the drain. Raises KubeError.
        """
        for cached in (True, False):
            pods = await self._leaving.on_node(node, cached=cached)
            observation = await self._plan(name, pods, began)
            if observation.remaining:
                return observation
        self._leaving.memory.forget(name)
        return observation

    async def evict(self, name: str, keys: Sequence[str]) -> EvictionResult:
        """Evict pods that `plan_next` returned as due."""
        return await self._leaving.evict(name, keys)

    async def _plan(self, name: str, pods: Sequence[Pod], began: datetime) -> Pods:
        now, memory = self._clock.now(), self._leaving.memory
        memory.listed(name, pods)
        known = DrainState(
            now=now,
            began=began,
            pending=memory.list_pending(name, now),
            blocked=memory.blocked(name),
            sets=await self._sets.incomplete(pods, now),
            calm=self._leaving.calm,
        )
        return plan(pods, DEFAULT, self._protection, known)
