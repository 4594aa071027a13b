"""Adopt the Machines of Cluster API periodically, if it is installed."""

import logging
from typing import Any

from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kubenode.runtime.kube.lists import items
from kubenode.runtime.kube.paths import custom
from machine.clusterapi.step import ADOPT, ClusterApiPlan, step
from machine.ground import SharedCaches

log = logging.getLogger(__name__)

GROUP = "/apis/cluster.x-k8s.io"
EVERY_SECONDS = 60.0


class Adoption:
    """A part that adopts Machines, under the lease.

    Without Cluster API it only checks once a minute whether that is installed.
    """

    name = "cluster-api"

    def __init__(self, ground: SharedCaches) -> None:
        self._ground, self._kube = ground, ground.kube
        self._last_trouble = ""

    async def run(self) -> None:
        await self._ground.machines.synced.wait()
        while True:
            try:
                await self.reconcile_all()
                self._tell("")
            except KubeError as error:
                self._tell(str(error))
            await self._ground.clock.sleep(EVERY_SECONDS)

    async def reconcile_all(self) -> None:
        """Reconcile all Machines of Cluster API once. Raises KubeError; the next run continues."""
        theirs = await self._theirs()
        caches = self._ground.machines, self._ground.nodes
        if theirs is None or not all(cache.fresh() for cache in caches):
            return
        frozen = self._ground.meltdown.frozen()
        plan = step(theirs, self._ground.machines.cache, self._ground.nodes.cache, frozen)
        if plan.spared:
            log.warning("adopted Machines are kept", extra={"why": plan.spared})
        await self._do(plan)

    async def _theirs(self) -> list[dict[str, Any]] | None:
        """Return the Machines to adopt, None if Cluster API is not installed."""
        try:
            group = await self._kube.get(GROUP)
        except NotFound:
            return None
        path = f"/apis/{group['preferredVersion']['groupVersion']}/machines"
        return [machine async for machine in items(self._kube, path, selector=f"{ADOPT}=true")]

    async def _do(self, plan: ClusterApiPlan) -> None:
        for body in plan.create:
            self._ground.fence.check()
            try:
                await self._kube.create(custom(Machine.resource.plural), body)
            except AlreadyExists:
                continue
        for machine, change in plan.change:
            meta = machine.metadata
            versions = {"uid": meta.uid, "resourceVersion": meta.resource_version}
            body = {**change, "metadata": {**versions, **change.get("metadata", {})}}
            self._ground.fence.check()
            try:
                await self._kube.patch(custom(Machine.resource.plural, meta.name), body)
            except (Conflict, NotFound):
                continue
        for machine in plan.release:
            self._ground.fence.check()
            path = custom(Machine.resource.plural, machine.metadata.name)
            try:
                await self._kube.delete(path, uid=machine.metadata.uid)
            except (Conflict, NotFound):
                continue

    def _tell(self, trouble: str) -> None:
        if trouble and trouble != self._last_trouble:
            log.warning("Machines of Cluster API cannot be looked at", extra={"why": trouble})
        self._last_trouble = trouble
