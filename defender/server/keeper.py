"""Housekeeping of permits: free those that are not released, finish half-written ones, delete old
ones.

Expiry alone never frees a permit: its holder may be slow and its node still down. The holder is
read live. If it or the node is gone, or the holder has ended, the slot is freed. Otherwise the
permit becomes Overdue, still counts, and metrics report it. A holder or node that the informers no
longer show is checked before the expiry; holders of kinds without an informer are checked
periodically.
"""

import logging
from collections.abc import Callable
from datetime import timedelta

import msgspec

from defender.decision.control import RiskControl
from defender.decision.jobs import CLOSED, ObservedJob
from defender.decision.ledger import LedgerPermit
from defender.metrics import DefenderMetrics
from defender.replicas.charge.charge import Charge
from defender.server.store import NotWritten, PermitStore
from defender.server.turns import KeyedLocks
from defender.webhook.acts import USER
from defender.webhook.lifetimes import explain_release
from kubenode.api.v1alpha1 import (
    Machine,
    MachineComponentSet,
    MachineSet,
    Permit,
    RemedyOperationJob,
)
from kubenode.api.v1alpha1.permit import PermitState
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import KubeObjectMeta, Node

log = logging.getLogger(__name__)

ROUND_SECONDS = 5.0
RECHECK_INTERVAL = timedelta(seconds=30)
"""Interval of checks of one holder that still exists."""
UNWATCHED_INTERVAL = timedelta(minutes=2)
"""Interval of checks of a holder whose kind no informer watches."""
DELETED_AT_ONCE = 100
"""Greatest number of old permits that one round deletes."""
JOB = RemedyOperationJob.resource.kind
PLURALS = {
    kind.resource.kind: kind.resource.plural
    for kind in (RemedyOperationJob, Machine, MachineSet, MachineComponentSet)
}
"""Kinds of holders that we may read. A new kind also needs the RBAC rule.

A holder does not name its API group. For a kind of another group with the same name, such as
Cluster API's Machine, use another kind name.
"""
SERVED = f"/apis/{paths.GROUP}/{paths.VERSION}"


class _HolderStatus(msgspec.Struct):
    phase: str = ""


class PermitHolderObject(msgspec.Struct):
    """What Kube Defender reads of a holder: its existence, and the phase of a job."""

    metadata: KubeObjectMeta
    status: _HolderStatus = msgspec.field(default_factory=_HolderStatus)


class _ApiResource(msgspec.Struct):
    kind: str = ""


class _Resources(msgspec.Struct):
    """The resources of our group that the API server serves."""

    resources: list[_ApiResource] = []


_holder = msgspec.json.Decoder(PermitHolderObject).decode
_resources = msgspec.json.Decoder(_Resources).decode


def turn_of(permit: LedgerPermit) -> str:
    """Return the key of the lock for requests about this permit."""
    return f"{permit.holder.uid}/{permit.node}"


class PermitReaper:
    """Housekeeper of permits.

    keep: returns how long released permits are kept, for the longest rate and perNode.
    """

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        fence: Fence,
        store: PermitStore,
        charge: Charge,
        turns: KeyedLocks,
        control: RiskControl,
        nodes: Informer[Node],
        jobs: Informer[ObservedJob],
        metrics: DefenderMetrics,
        keep: Callable[[], timedelta],
    ) -> None:
        self._kube, self._clock, self._fence = kube, clock, fence
        self._store, self._charge, self._turns, self._control = store, charge, turns, control
        self._nodes, self._jobs = nodes, jobs
        self._metrics, self._keep = metrics, keep

    async def round(self) -> None:
        """Check all permits once. What fails is tried again in the next round."""
        self._control.advance(self._clock.now())
        for permit in self._store.ledger:
            if not self._needs_care(permit):
                continue
            async with self._turns.of(turn_of(permit)):
                if self._store.ledger.get(permit.name) is permit and self._needs_care(permit):
                    await self._care(permit)
        await self._forget()

    def _needs_care(self, permit: LedgerPermit) -> bool:
        if not permit.open:
            return False
        undescribed = not permit.status_written and not permit.late
        unfinished = permit.releasing or permit.unsure or undescribed
        return bool(unfinished) or self._due(permit)

    def _due(self, permit: LedgerPermit) -> bool:
        """Return whether it is time to check the holder."""
        now = self._clock.now()
        if permit.holder.kind == USER:  # no object stands for a user, and no user renews a permit
            return self._nodes.fresh() and bool(
                explain_release(permit, self._nodes.get(permit.node), now)
            )
        if permit.looked_at is not None and now < permit.looked_at + RECHECK_INTERVAL:
            return False
        if permit.expires_at <= now:
            return True
        if permit.node and self._nodes.fresh() and self._nodes.get(permit.node) is None:
            return True
        if permit.holder.kind != JOB:
            checked_at = permit.looked_at or permit.renewed_at or permit.granted_at
            return permit.holder.kind in PLURALS and now >= checked_at + UNWATCHED_INTERVAL
        if not self._jobs.fresh():
            return False
        job = self._jobs.get(permit.holder.name)
        return job is None or job.metadata.uid != permit.holder.uid or not job.open

    async def _care(self, permit: LedgerPermit) -> None:
        self._fence.check()
        try:
            if permit.releasing:
                await self._store.release(permit)
                self._metrics.freed.labels("forgotten").inc()
            elif permit.unsure:
                await self._store.clear_up(permit, self._clock.now())
            elif self._due(permit):
                await self._check_holder(permit)
            else:
                await self._store.describe(permit)
        except (KubeError, NotWritten) as error:
            extra = {"permit": permit.name, "why": str(error)}
            log.info("permit could not be looked after, trying again", extra=extra)
        await self._charge.tell(permit)

    async def _check_holder(self, permit: LedgerPermit) -> None:
        why = await self._free(permit)
        permit.looked_at = self._clock.now()
        if why:
            permit.releasing = True
            await self._charge.tell(permit)  # no replica accepts it as valid from here on
            await self._store.release(permit)
            self._metrics.freed.labels(why).inc()
            log.info("permit freed", extra={"permit": permit.name, "node": permit.node, "why": why})
        elif permit.holder.kind != USER and self._overdue(permit):
            await self._store.overdue(permit)
            extra = {"permit": permit.name, "node": permit.node, "holder": permit.holder.name}
            log.warning("permit is overdue: its holder lives and does not renew it", extra=extra)

    def _overdue(self, permit: LedgerPermit) -> bool:
        known = permit.state is PermitState.GRANTED and not permit.unreadable
        return known and permit.expires_at <= self._clock.now()

    async def _free(self, permit: LedgerPermit) -> str:
        """Return why the slot may be freed, "" if it may not. Raises KubeError if that is
        unknown.
        """
        if permit.node and await self._node_is_gone(permit):
            return "node"
        if permit.holder.kind == USER:
            node, now = self._nodes.get(permit.node), self._clock.now()
            return "outside" if self._nodes.fresh() and explain_release(permit, node, now) else ""
        plural = PLURALS.get(permit.holder.kind)
        if plural is None:
            return ""  # assume that a holder of a kind that we cannot read exists
        path = paths.custom(plural, permit.holder.name)
        try:
            holder = await self._kube.get(path, _holder)
        except NotFound:
            return "holder" if await self._is_gone(permit.holder.kind, path) else ""
        return "holder" if _has_ended(holder, permit) else ""

    async def _node_is_gone(self, permit: LedgerPermit) -> bool:
        """Return whether the permit's node is gone, or another one has its name."""
        try:
            node = await self._kube.get(paths.node(permit.node), _holder)
        except NotFound:
            return True
        return await self._is_younger(node, permit)

    async def _is_gone(self, kind: str, path: str) -> bool:
        """Return whether the object is gone, and not just its CRD.

        If the kind is not served, nothing is known about its objects. The object is read again,
        because the CRD may have been created in between.
        """
        try:
            served = await self._kube.get(SERVED, _resources)
        except NotFound:
            return False
        if all(resource.kind != kind for resource in served.resources):
            return False
        try:
            await self._kube.get(path, _holder)
        except NotFound:
            return True
        return False

    async def _is_younger(self, node: PermitHolderObject, entry: LedgerPermit) -> bool:
        """Return whether the node was created after the permit, so that it is another node.

        The API server sets both times, so no two clocks are compared.
        """
        path = paths.custom(Permit.resource.plural, entry.name)
        try:
            permit = await self._kube.get(path, _holder)
        except NotFound:
            return False
        born, made = node.metadata.creation_timestamp, permit.metadata.creation_timestamp
        return born is not None and made is not None and born > made

    async def _forget(self) -> None:
        """Delete released permits that no limit counts any more."""
        past = list(self._store.forgettable(self._clock.now() - self._keep()))
        for permit in past[:DELETED_AT_ONCE]:
            self._fence.check()
            try:
                await self._store.delete(permit)
            except KubeError as error:
                log.info("old permit not deleted", extra={"permit": permit.name, "why": str(error)})
                return


def _has_ended(holder: PermitHolderObject, permit: LedgerPermit) -> bool:
    """Return whether the holder has ended. An object of the same name with another UID is not the
    holder.
    """
    if holder.metadata.uid != permit.holder.uid:
        return True
    return permit.holder.kind == JOB and holder.status.phase in CLOSED
