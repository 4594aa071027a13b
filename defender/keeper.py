"""Keeps the record true: what nobody gives back, what was left half written, what is long past.

A permit whose time is over is never freed by the time alone: its holder may be slow, and its node
still be down. The holder is looked at, live. If it is gone or over, or the node is gone, the slot
is free; else the permit is Overdue, still counts, and a person is told by the metrics. A holder or
node that the informers no longer show is looked at without waiting for the time; holders of kinds
that no informer follows are looked at now and then.
"""

import logging
from collections.abc import Callable
from datetime import timedelta

import msgspec

from defender.charge.charge import Charge
from defender.control import RiskControl
from defender.jobs import CLOSED, ObservedJob
from defender.ledger import LedgerPermit
from defender.metrics import DefenderMetrics
from defender.store import NotWritten, PermitStore
from defender.turns import KeyedLocks
from defender.webhook.acts import USER
from defender.webhook.lifetimes import over
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
from kubenode.runtime.kube.objects import Node, ObjectMeta

log = logging.getLogger(__name__)

ROUND_SECONDS = 5.0
LOOK_AGAIN = timedelta(seconds=30)
"""Between two looks at one holder that still lives."""
LOOK_UNSEEN = timedelta(minutes=2)
"""Between two looks at a holder of a kind that no informer shows us."""
DELETED_AT_ONCE = 100
JOB = RemedyOperationJob.resource.kind
PLURALS = {
    kind.resource.kind: kind.resource.plural
    for kind in (RemedyOperationJob, Machine, MachineSet, MachineComponentSet)
}
"""Holders that we may read. A kind is added with the right to. A holder names no group: whoever
asks for a kind of another group under the same name, as Cluster API's Machine, calls it otherwise.
"""
SERVED = f"/apis/{paths.GROUP}/{paths.VERSION}"


class _HolderStatus(msgspec.Struct):
    phase: str = ""


class PermitHolderObject(msgspec.Struct):
    """What Kube Defender reads of a holder: that it is there, and a job's phase."""

    metadata: ObjectMeta
    status: _HolderStatus = msgspec.field(default_factory=_HolderStatus)


class _ApiResource(msgspec.Struct):
    kind: str = ""


class _Resources(msgspec.Struct):
    """What the API server serves of our group."""

    resources: list[_ApiResource] = []


_holder = msgspec.json.Decoder(PermitHolderObject).decode
_resources = msgspec.json.Decoder(_Resources).decode


def turn_of(held: LedgerPermit) -> str:
    return f"{held.holder.uid}/{held.node}"


class PermitReaper:
    """`keep` tells how long released permits are remembered: the longest rate and perNode."""

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
        """Once over all permits. What fails is tried again in the next round."""
        self._control.advance(self._clock.now())
        for held in self._store.ledger:
            if not self._needs_care(held):
                continue
            async with self._turns.of(turn_of(held)):
                if self._store.ledger.get(held.name) is held and self._needs_care(held):
                    await self._care(held)
        await self._forget()

    def _needs_care(self, held: LedgerPermit) -> bool:
        if not held.open:
            return False
        undescribed = not held.status_written and not held.late
        unfinished = held.releasing or held.unsure or undescribed
        return bool(unfinished) or self._due(held)

    def _due(self, held: LedgerPermit) -> bool:
        """Whether it is time to look at the holder."""
        now = self._clock.now()
        if held.holder.kind == USER:  # nobody renews it, nobody can be looked at
            return self._nodes.fresh() and bool(over(held, self._nodes.get(held.node), now))
        if held.looked_at is not None and now < held.looked_at + LOOK_AGAIN:
            return False
        if held.expires_at <= now:
            return True
        if held.node and self._nodes.fresh() and self._nodes.get(held.node) is None:
            return True
        if held.holder.kind != JOB:
            seen_at = held.looked_at or held.renewed_at or held.granted_at
            return held.holder.kind in PLURALS and now >= seen_at + LOOK_UNSEEN
        if not self._jobs.fresh():
            return False
        job = self._jobs.get(held.holder.name)
        return job is None or job.metadata.uid != held.holder.uid or not job.open

    async def _care(self, held: LedgerPermit) -> None:
        self._fence.check()
        try:
            if held.releasing:
                await self._store.release(held)
                self._metrics.freed.labels("forgotten").inc()
            elif held.unsure:
                await self._store.clear_up(held, self._clock.now())
            elif self._due(held):
                await self._look(held)
            else:
                await self._store.describe(held)
        except (KubeError, NotWritten) as error:
            extra = {"permit": held.name, "why": str(error)}
            log.info("permit could not be looked after, trying again", extra=extra)
        await self._charge.tell(held)

    async def _look(self, held: LedgerPermit) -> None:
        why = await self._free(held)
        held.looked_at = self._clock.now()
        if why:
            held.releasing = True
            await self._charge.tell(held)  # no replica takes it for valid from here on
            await self._store.release(held)
            self._metrics.freed.labels(why).inc()
            log.info("permit freed", extra={"permit": held.name, "node": held.node, "why": why})
        elif held.holder.kind != USER and self._overdue(held):
            await self._store.overdue(held)
            extra = {"permit": held.name, "node": held.node, "holder": held.holder.name}
            log.warning("permit is overdue: its holder lives and does not renew it", extra=extra)

    def _overdue(self, held: LedgerPermit) -> bool:
        known = held.state is PermitState.GRANTED and not held.unreadable
        return known and held.expires_at <= self._clock.now()

    async def _free(self, held: LedgerPermit) -> str:
        """Why the slot may be freed, "" if it may not. Raises KubeError: then nobody knows."""
        if held.node and await self._node_is_gone(held):
            return "node"
        if held.holder.kind == USER:
            node, now = self._nodes.get(held.node), self._clock.now()
            return "outside" if self._nodes.fresh() and over(held, node, now) else ""
        plural = PLURALS.get(held.holder.kind)
        if plural is None:
            return ""  # a kind we cannot look at is taken to live
        path = paths.custom(plural, held.holder.name)
        try:
            holder = await self._kube.get(path, _holder)
        except NotFound:
            return "holder" if await self._is_gone(held.holder.kind, path) else ""
        return "holder" if _over(holder, held) else ""

    async def _node_is_gone(self, held: LedgerPermit) -> bool:
        """Whether the node of the permit is there no more, or another one has its name."""
        try:
            seen = await self._kube.get(paths.node(held.node), _holder)
        except NotFound:
            return True
        return await self._is_younger(seen, held)

    async def _is_gone(self, kind: str, path: str) -> bool:
        """Whether the object is gone, and not its definition: that no such path is served says
        nothing of what was, or is to be, behind it. Read again, as the definition may have come in
        between.
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

    async def _is_younger(self, node: PermitHolderObject, held: LedgerPermit) -> bool:
        """Whether the node is another one than the permit is for. Both instants are told by the API
        server, so that no two clocks are compared.
        """
        path = paths.custom(Permit.resource.plural, held.name)
        try:
            permit = await self._kube.get(path, _holder)
        except NotFound:
            return False
        born, made = node.metadata.creation_timestamp, permit.metadata.creation_timestamp
        return born is not None and made is not None and born > made

    async def _forget(self) -> None:
        """Delete released permits that no limit looks back to."""
        past = list(self._store.forgettable(self._clock.now() - self._keep()))
        for held in past[:DELETED_AT_ONCE]:
            self._fence.check()
            try:
                await self._store.delete(held)
            except KubeError as error:
                log.info("old permit not deleted", extra={"permit": held.name, "why": str(error)})
                return


def _over(holder: PermitHolderObject, held: LedgerPermit) -> bool:
    """Another object of the same name is not the holder."""
    if holder.metadata.uid != held.holder.uid:
        return True
    return held.holder.kind == JOB and holder.status.phase in CLOSED
