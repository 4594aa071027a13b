"""etcd of the simulated cluster: backups, a restore from one, and the people who deal with it.

A restore takes the API server away for a while and puts all objects and resourceVersions back to a
backup. Nodes, hosts and agents live on in the present. People then put right what the backup does
not know: kubelets whose Node is missing register, rules are applied again from their files. One
looks at the freeze of destructive acts and lifts it.

The observer is told what the server has become: nothing of it is an act of ours.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import NETWORK_ERRORS, Kube
from kubenode.runtime.kube.configmaps import NAMESPACE, ConfigMapStore
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.restore import BEAT_SECONDS, CHECK_SECONDS, NAME, lift, read_lineage
from simulation.apiserver.store import Snapshot, Store
from simulation.demo.books import PermitView
from simulation.demo.breakers import JobView
from simulation.demo.hosts import HostAct
from simulation.demo.observer import NodeView, Observer, ObserverFinding
from simulation.demo.watches import (
    Object,
    ResourceWatch,
    Watching,
    job_view,
    node_view,
    permit_view,
)

BACKUP_SECONDS = 15.0
BACKUPS = 12
YOUNGEST_SECONDS = 1.25 * BEAT_SECONDS
"""A younger backup may lose no beat of the lineage, by which a restore is noticed."""
DOWN_SECONDS = 3.0
"""For so long the API server is away: long enough for the observer to have read everything."""
NOTICE_SECONDS = 90.0
"""Within which some process must have written the freeze."""
FIRST_LIFT, LAST_LIFT = 40.0, 90.0
"""Seconds from the freeze until a person lifts it: kubelets and detectors have all reported then,
as the documentation asks.
"""
AGAIN_SECONDS = 60.0
"""For so long after that the person looks whether it is frozen again."""
STOPPING = frozenset({"off", "reset"})
"""What the provider did to a machine that the freeze forbids."""
KINDS = {
    "node": "nodes",
    "pod": "pods",
    "job": "remedyoperationjobs.kubenode.io",
    "permit": "permits.kubenode.io",
    "policy": "defenderpolicies.kubenode.io",
}


class RestorableObserver(Observer):
    """An Observer whose cluster may be put back to a backup."""

    def restored(
        self,
        at: float,
        nodes: Mapping[str, NodeView],
        jobs: Mapping[str, JobView],
        permits: Mapping[str, PermitView],
    ) -> None:
        """Take what is there for given: nobody did it, and nobody granted it now."""
        for permit in [*self.permits.values(), *permits.values()]:
            self._last_permit[permit.node] = at
        before = set(self.permits)
        self.permits.clear()
        self.permits.update({name: one for name, one in permits.items() if one.open})
        for name in before | set(self.permits):
            self.resuming.changed(name)
        self.listed(at, nodes)
        for name in self.jobs.keys() - jobs.keys():
            self.job(at, name, None)
        for name, job in jobs.items():
            self.jobs.pop(name, None)  # a rung of before is no escalation
            self.job(at, name, job)


class RestorableWatching(Watching):
    """Watching whose server may be put back to a backup."""

    _watches: Sequence[ResourceWatch] = ()

    def parts(self) -> list[ResourceWatch]:
        self._watches = self._watches or super().parts()
        return [*self._watches]

    def restored(self, objects: Mapping[str, Sequence[Object]]) -> None:
        """Show the observer what the server has become."""
        at = self.clock.monotonic()
        self.apply(at)
        self.jobs = {job["metadata"]["name"]: job for job in objects["job"]}
        for name, job in self.jobs.items():
            self._phases[name] = (job.get("status") or {}).get("phase") or "Pending"
        observer = self._observer
        assert isinstance(observer, RestorableObserver)
        observer.restored(
            at,
            {one["metadata"]["name"]: node_view(one) for one in objects["node"]},
            {name: job_view(job) for name, job in self.jobs.items()},
            {one["metadata"]["name"]: permit_view(one) for one in objects["permit"]},
        )
        for policy in objects["policy"]:
            self.policy_status = policy.get("status") or {}
            observer.record_breakers(at, self.breakers)

    def follow_from(self, version: int) -> None:
        """Watch on from a version of the server that was put back."""
        for watch in self._watches:
            watch.follow_from(str(version))


@dataclass(slots=True)
class Freezes:
    """What is counted of restores.

    unnoticed  restores after which nobody wrote a freeze in time
    again      freezes after a person had lifted one of the same restore
    notice     seconds from each restore to its freeze
    """

    restores: int = 0
    unnoticed: int = 0
    again: int = 0
    notice: list[float] = field(default_factory=list)


class EtcdBackups:
    """A Part: takes backups; `restore` puts the cluster back to one.

    close, reopen  take the API server away from everybody but the observer
    people         what else people do once it is back
    """

    name = "etcd backups"

    def __init__(
        self,
        store: Store,
        kube: Kube,
        clock: Clock,
        watching: RestorableWatching,
        close: Callable[[], None],
        reopen: Callable[[], None],
    ) -> None:
        self._store, self._clock, self._watching = store, clock, watching
        self._close, self._reopen = close, reopen
        self._lineage = ConfigMapStore(kube, NAME)
        self._backups: deque[tuple[float, Snapshot]] = deque(maxlen=BACKUPS)
        self._frozen_at: float | None = None
        self._restoring = self._unnoticed = False
        self.freezes = Freezes()
        self.acts_while_frozen: list[ObserverFinding] = []
        self.acts_before_notice: list[ObserverFinding] = []

    async def run(self) -> None:
        while True:
            await self._clock.sleep(BACKUP_SECONDS)
            self._backups.append((self._clock.monotonic(), self._store.snapshot()))

    @property
    def frozen(self) -> str:
        """Why destructive acts are frozen, as etcd has it."""
        found = self._store.collection("configmaps").get((NAMESPACE, NAME))
        return str((found.obj.get("data") or {}).get("frozen") or "") if found else ""

    def host_acted(self, act: HostAct) -> None:
        """Judge what was done to a host while it is, or soon will be, frozen."""
        if act.verb != "power" or act.unit not in STOPPING:
            return
        if (
            self._frozen_at is not None
            and self._clock.monotonic() > self._frozen_at + CHECK_SECONDS
        ):
            self.acts_while_frozen.append(ObserverFinding(act.at, act.node, f"power {act.unit}"))
        elif self._unnoticed:
            self.acts_before_notice.append(ObserverFinding(act.at, act.node, f"power {act.unit}"))

    async def restore(self, share: float, people: Callable[[], Any]) -> bool:
        """Restore one of the backups; until a person has lifted the freeze for good. False: there
        is none, or another restore is under way.

        share  from 0 to 1, chooses the backup
        """
        young = self._clock.monotonic() - YOUNGEST_SECONDS
        old = [backup for at, backup in self._backups if at <= young]
        if self._restoring or not old:
            return False
        self._restoring = self._unnoticed = True
        backup = old[int(share * len(old))]
        self._backups.clear()
        self._close()
        await self._clock.sleep(DOWN_SECONDS)
        self._store.revert(backup)
        self._watching.restored(
            {what: _objects(backup, name) for what, name in KINDS.items()},
        )
        self._watching.follow_from(backup.rv)
        await self._clock.sleep(0.1)
        self._watching.follow_from(backup.rv)
        self._reopen()
        self.freezes.restores += 1
        await people()
        await self._lifted(share)
        self._restoring = False
        return True

    async def _lifted(self, share: float) -> None:
        began = self._clock.monotonic()
        noticed = await self.froze_within(NOTICE_SECONDS)
        self._unnoticed = False
        if not noticed:
            self.freezes.unnoticed += 1
            return
        self.freezes.notice.append(round(self._clock.monotonic() - began, 1))
        await self._lift(FIRST_LIFT + (share * 13 % 1) * (LAST_LIFT - FIRST_LIFT))
        while await self.froze_within(AGAIN_SECONDS):
            self.freezes.again += 1
            await self._lift(FIRST_LIFT)

    async def froze_within(self, seconds: float) -> bool:
        until = self._clock.monotonic() + seconds
        while not self.frozen and self._clock.monotonic() < until:
            await self._clock.sleep(0.5)
        self._frozen_at = self._clock.monotonic() if self.frozen else None
        return bool(self.frozen)

    async def _lift(self, after: float) -> None:
        """What `kubenode freeze lift` does, repeated as a person repeats it."""
        await self._clock.sleep(after)
        while self.frozen:
            try:
                stored = await self._lineage.read()
                if (found := read_lineage(stored)).frozen:
                    self._frozen_at = None
                    now = self._clock.now().isoformat(timespec="seconds")
                    change = lift(now, "chaos", "looked at it", found.lifts)
                    await self._lineage.write(change, stored)
            except (KubeError, *NETWORK_ERRORS):
                pass
            await self._clock.sleep(1.0)


def _objects(backup: Snapshot, resource: str) -> list[Object]:
    return [record.obj for record in backup.records.get(resource, ())]
