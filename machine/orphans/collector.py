"""Looks at each provider's instances every quarter of an hour: glue, and the one act."""

import logging

from prometheus_client import CollectorRegistry, Counter, Gauge

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinestatus import MachineConditionType, MachinePhase
from kubenode.providers.instances import (
    MACHINE_TAG,
    Instance,
    InstanceError,
    Instances,
    machine_uid,
)
from kubenode.runtime.audit import Line
from kubenode.runtime.kube.errors import KubeError
from machine.access import MachineAccess
from machine.ground import Ground
from machine.orphans.sightings import Sightings
from machine.orphans.step import Claims, Found, step
from machine.provisioning import Provisioning

log = logging.getLogger(__name__)


class OrphanMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.orphans = Gauge(
            "kubenode_machine_orphans",
            "Instances with this cluster's tag that belong to no Machine.",
            registry=registry,
        )
        self.ended = Counter(
            "kubenode_machine_orphans_ended",
            "Orphans that were ended.",
            registry=registry,
        )


class Orphans:
    """A Part, under the lease.

    every  seconds between two scans; an orphan is one in two of them
    """

    name = "orphans"

    def __init__(
        self, ground: Ground, provisioning: Provisioning, sightings: Sightings, every: float
    ) -> None:
        self._ground, self._sightings, self._every = ground, sightings, every
        self._cluster, self._instances = provisioning.cluster, provisioning.instances
        self._access = MachineAccess(ground.kube)
        self._metrics = OrphanMetrics(ground.registry)
        self._before: dict[str, frozenset[str]] = {}

    async def run(self) -> None:
        await self._ground.machines.synced.wait()
        while True:
            await self.scan()
            await self._ground.clock.sleep(self._every)

    async def scan(self) -> None:
        """Once over all providers. What fails is tried again in the next scan."""
        if not self._cluster:
            return
        for provider in self._instances.all:
            try:
                await self._scan(provider)
            except (InstanceError, KubeError) as error:
                extra = {"provider": provider.name, "why": str(error)}
                log.warning("instances could not be looked at", extra=extra)
        self._metrics.orphans.set(sum(map(len, self._before.values())))

    async def _scan(self, provider: Instances) -> None:
        try:
            listed = await provider.list(self._cluster)
        except InstanceError as error:
            self._sightings.heard(provider.name, error)
            raise
        self._sightings.heard(provider.name, None)
        machines = self._ground.machines
        if not machines.fresh():
            return
        all_ = machines.cache.values()
        known = sum(provider.owns(m.spec.provider_id) for m in all_ if _runs(m))
        self._ground.meltdown.listed(f"provider {provider.name}", len(listed), known)
        claims = Claims(
            {m.metadata.uid for m in all_},
            {m.spec.provider_id for m in all_ if m.spec.provider_id},
        )
        before = self._before.get(provider.name, frozenset())
        frozen = self._ground.meltdown.frozen()
        found = step(listed, claims, before, self._ground.clock.now(), frozen)
        self._before[provider.name] = found.orphans
        await self._end(provider, found)

    async def _end(self, provider: Instances, found: Found) -> None:
        if found.spared:
            extra = {"provider": provider.name, "orphans": len(found.orphans), "why": found.spared}
            log.warning("orphans are spared", extra=extra)
        for instance in found.ended:
            if await self._claimed(instance):
                continue
            self._ground.fence.check()
            await provider.delete(instance.provider_id, self._cluster)
            self._metrics.ended.inc()
            why = f"{instance.provider_id} belongs to no Machine in two scans"
            log.warning("orphan is ended", extra={"provider": provider.name, "why": why})
            now, node = self._ground.clock.now(), instance.tags.get(MACHINE_TAG, "")
            self._ground.audit.write(
                Line(now, "machine", "orphans", "EndInstance", "Done", why=why, node=node)
            )

    async def _claimed(self, instance: Instance) -> bool:
        """By the API server itself: the cache may lag."""
        name = instance.tags.get(MACHINE_TAG, "")
        if not name:
            return True
        machine = await self._access.read(name)
        if machine is None:
            return False
        mine = machine.metadata.uid == machine_uid(instance.token)
        return mine or machine.spec.provider_id == instance.provider_id


def _runs(machine: Machine) -> bool:
    """It was in service, and nobody has proven since that its instance is gone.

    A new instance may be missing in a list for a while.
    """
    ready = machine.status.condition(MachineConditionType.INSTANCE_READY)
    return (
        bool(machine.spec.provider_id)
        and machine.status.initialized_at is not None
        and machine.metadata.deletion_timestamp is None
        and machine.status.phase is not MachinePhase.FAILED
        and (ready is None or ready.reason != "InstanceGone")
    )
