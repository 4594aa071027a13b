"""Search each provider's instances for orphans periodically, and record them.

Nothing is deleted. `kubenode machine orphans`, an Event and an alert show the findings.
"""

import logging
from collections.abc import Callable, Sequence

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
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.errors import KubeError
from machine.access import MachineAccess
from machine.bootstrap.agentready import Lifesign
from machine.ground import SharedCaches
from machine.orphans.model import OrphanRecord
from machine.orphans.presence import Presence, live_nodes
from machine.orphans.records import MOST, OrphanStore
from machine.orphans.sightings import Sightings
from machine.orphans.step import Claims, candidates, step
from machine.site_settings import Provisioning

log = logging.getLogger(__name__)

MAX_GAP_FACTOR = 1.5
"""Greatest time between two scans that counts as absence, as a multiple of `every`.

In a longer gap it is unknown whether a Node or an agent was present.
"""


class OrphanMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.orphans = Gauge(
            "kubenode_machine_orphans",
            "Number of instances with the tag of this cluster and without a Machine.",
            registry=registry,
        )
        self.ended = Counter(
            "kubenode_machine_orphans_ended",
            "Number of terminated orphans. Always 0, because only people terminate orphans.",
            registry=registry,
        )


class Orphans:
    """A part that searches for orphans, under the lease.

    every: seconds between two scans.
    """

    name = "orphans"

    def __init__(
        self, ground: SharedCaches, provisioning: Provisioning, sightings: Sightings, every: float
    ) -> None:
        self._ground, self._sightings, self._every = ground, sightings, every
        self._cluster, self._instances = provisioning.cluster, provisioning.instances
        self._access, self._store = MachineAccess(ground.kube), OrphanStore(ground.kube)
        self._metrics = OrphanMetrics(ground.registry)
        self._looked_at: dict[str, float] = {}

    async def run(self) -> None:
        await self._ground.machines.synced.wait()
        while True:
            await self.scan()
            await self._ground.clock.sleep(self._every)

    async def scan(self) -> None:
        """Scan all providers once. What fails is tried again in the next scan."""
        if not self._cluster:
            return
        try:
            stored, before = await self._store.read()
            records: list[OrphanRecord] = []
            for provider in self._instances.all:
                mine = [record for record in before if record.provider == provider.name]
                records += await self._looked(provider, mine)
            await self._recorded(before, records)
            self._ground.fence.check()
            await self._store.write(stored, records[:MOST])
        except KubeError as error:
            self._looked_at.clear()
            log.warning("orphans could not be recorded", extra={"why": str(error)})

    async def _looked(
        self, provider: Instances, before: Sequence[OrphanRecord]
    ) -> Sequence[OrphanRecord]:
        """Return the provider's records after a scan, unchanged if it fails."""
        try:
            return await self._scan_provider(provider, before)
        except (InstanceError, KubeError) as error:
            extra = {"provider": provider.name, "why": str(error)}
            log.warning("instances could not be looked at", extra=extra)
            self._looked_at.pop(provider.name, None)
            return before

    async def _scan_provider(
        self, provider: Instances, before: Sequence[OrphanRecord]
    ) -> Sequence[OrphanRecord]:
        try:
            listed = await provider.list(self._cluster)
        except InstanceError as error:
            self._sightings.record_list(provider.name, error)
            raise
        self._sightings.record_list(provider.name, None)
        machines = self._ground.machines
        if not machines.fresh():
            return before
        all_ = machines.cache.values()
        running = sum(provider.owns(m.spec.provider_id) for m in all_ if _runs(m))
        self._ground.meltdown.listed(f"provider {provider.name}", len(listed), running)
        claims = Claims(
            {m.metadata.uid for m in all_},
            {m.spec.provider_id for m in all_ if m.spec.provider_id},
        )
        now = self._ground.clock.now()
        suspects = candidates(listed, claims, now)[:MOST]
        orphans = [entry for entry in suspects if not await self._claimed(entry)]
        presence = Presence(await live_nodes(self._ground.kube) if orphans else ())
        known = {entry.provider_id: entry for entry in before}
        waited = self._waited(provider.name)
        return step(provider.name, orphans, known, self._sighting(presence), waited, now)

    def _waited(self, provider: str) -> float:
        """Return the monotonic seconds since the last successful scan of the provider.

        0 for the first scan, and after a gap that is too long.
        """
        now = self._ground.clock.monotonic()
        since = now - self._looked_at.get(provider, now)
        self._looked_at[provider] = now
        return since if since <= MAX_GAP_FACTOR * self._every else 0.0

    def _sighting(self, presence: Presence) -> Callable[[Instance], str]:
        """Return a function that says what of an instance is in the cluster, its agent or a
        Node.
        """

        def of(instance: Instance) -> str:
            sign = self._ground.lifesigns.of(instance.tags.get(MACHINE_TAG, ""))
            if sign in (Lifesign.FRESH, Lifesign.UNKNOWN):
                return "an agent may renew the Lease of its Machine"
            return presence.of(instance)

        return of

    async def _recorded(
        self, before: Sequence[OrphanRecord], records: Sequence[OrphanRecord]
    ) -> None:
        """Update the metric, and emit an Event for each new orphan."""
        self._metrics.orphans.set(len(records))
        known = {record.provider_id for record in before}
        for record in records:
            if record.provider_id in known:
                continue
            extra = {
                "provider": record.provider,
                "why": f"{record.provider_id} belongs to no Machine",
            }
            log.warning("orphan is found", extra=extra)
            regarding = {
                "kind": Machine.resource.kind,
                "api_version": f"{paths.GROUP}/{paths.VERSION}",
                "name": record.machine,
                "uid": record.machine_uid,
            }
            message = f"instance {record.provider_id} runs and has no Machine; nothing is deleted"
            await self._ground.recorder.emit(regarding, "Warning", "OrphanFound", message)

    async def _claimed(self, instance: Instance) -> bool:
        """Return whether a Machine claims the instance, by a live read, because the cache may
        lag.
        """
        name = instance.tags.get(MACHINE_TAG, "")
        if not name:
            return True
        machine = await self._access.read(name)
        if machine is None:
            return False
        mine = machine.metadata.uid == machine_uid(instance.token)
        return mine or machine.spec.provider_id == instance.provider_id


def _runs(machine: Machine) -> bool:
    """Return whether the Machine was in service and its instance is not known to be gone.

    A new instance may be missing in a list for a while, so it does not count.
    """
    ready = machine.status.condition(MachineConditionType.INSTANCE_READY)
    return (
        bool(machine.spec.provider_id)
        and machine.status.initialized_at is not None
        and machine.metadata.deletion_timestamp is None
        and machine.status.phase is not MachinePhase.FAILED
        and (ready is None or ready.reason != "InstanceGone")
    )
