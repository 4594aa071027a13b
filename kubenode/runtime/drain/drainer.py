"""Empties nodes by one policy: what a MigrateStep says, without its surge and checkpoints."""

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
    """Whoever drains goes by a `name` of its own, the same as long as it drains the node."""

    def __init__(self, kube: Kube, clock: Clock, protection: Protection | None = None) -> None:
        self._clock, self._protection = clock, protection or Protection()
        self._sets = StatefulSets(kube)
        self._leaving = PodEvictor(kube, clock, self._sets)

    async def plan_next(self, name: str, node: str, began: datetime) -> Pods:
        """What is to be done next. Nothing is left only if the store itself says so.

        began  when the drain did. Raises KubeError.
        """
        for cached in (True, False):
            pods = await self._leaving.on_node(node, cached=cached)
            observation = await self._plan(name, pods, began)
            if observation.remaining:
                return observation
        self._leaving.memory.forget(name)
        return observation

    async def evict(self, name: str, keys: Sequence[str]) -> EvictionResult:
        """Those that `left` named as due."""
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
