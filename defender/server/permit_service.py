"""Permit service: ask, check, renew and release.

A grant is judged and entered into the ledger with no await in between. Then it is taken where other
replicas see it, written as a Permit and confirmed, and only then answered.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from defender.client import DefenderUnreachable
from defender.decision.control import RiskControl
from defender.decision.coverage import BY_DEFAULT
from defender.decision.ledger import LedgerPermit
from defender.decision.verdict import granted, judge
from defender.metrics import DefenderMetrics
from defender.replicas.charge.charge import Charge, NotInCharge
from defender.replicas.fleet.budget import Sharing
from defender.server.blind import Sight, Why
from defender.server.keeper import turn_of
from defender.server.store import NotWritten, PermitStore
from defender.server.turns import KeyedLocks
from defender.server.waker import Waker
from kubenode.api.v1alpha1 import Ask, Reason, Verdict
from kubenode.api.v1alpha1.permit import PermitState
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node

log = logging.getLogger(__name__)

RETRY = timedelta(seconds=5)
"""Time after which to ask again, if Kube Defender itself is the cause of the refusal."""
LONGEST_LIFE = timedelta(hours=6)
"""Greatest time of a renewal. With a longer one, the holder would be checked too late."""
CLOCKS = timedelta(minutes=1)
"""Time that a renewal adds to what the step needs, for later checks by other clocks."""
TRIES = 20
"""How often a request is judged again because other replicas granted something meanwhile."""


class Asking:
    """The permit service.

    look_again: upper bound of the time to ask again, if Kube Defender is the cause of the refusal.
    restored: returns why a restore of etcd from a backup freezes, "" if none does.
    """

    def __init__(
        self,
        control: RiskControl,
        store: PermitStore,
        charge: Charge,
        fleet: Sharing,
        sight: Sight,
        waker: Waker,
        nodes: Informer[Node],
        turns: KeyedLocks,
        clock: Clock,
        metrics: DefenderMetrics,
        requeue_after: timedelta,
        restored: Callable[[], str],
    ) -> None:
        self._control, self._ledger = control, control.ledger
        self._store, self._charge, self._sight = store, charge, sight
        self._fleet = fleet
        self._waker, self._nodes, self._turns = waker, nodes, turns
        self._clock, self._metrics = clock, metrics
        self._retry, self._restored = min(RETRY, requeue_after), restored

    # -- ask ----------------------------------------------------------------------------------

    async def ask(self, ask: Ask) -> Verdict:
        async with self._turns.of(f"{ask.holder.uid}/{ask.node}"):
            try:
                for _ in range(TRIES):
                    if verdict := await self._try(ask):
                        return verdict
            except NotWritten as error:
                return self._unwritten(error)
            except NotInCharge as error:
                return self.no(Reason.STORE_UNAVAILABLE, str(error))
        return self.no(Reason.STORE_UNAVAILABLE, "others were granted permits faster: ask again")

    async def _try(self, ask: Ask) -> Verdict | None:
        """Judge the request once. Return None if other replicas granted something meanwhile.

        Raises NotWritten and NotInCharge.
        """
        mark = self._charge.mark()
        mine = self._ledger.open_of(ask.holder, ask.node)
        if mine is not None and not ask.dry_run and not self._sight.blind():
            await self._bring_up_to_date(mine)
        async with self._charge.gate():
            # No await from here to the ledger: the counts must still hold when the permit is taken.
            if unseen := self._unseen(ask.node):
                return unseen
            now = self._clock.now()
            self._control.advance(now)
            self._waker.call(now)
            mine = self._ledger.open_of(ask.holder, ask.node)
            ask = _as_heavy_as(mine, ask)
            if uncounted := self._uncounted(ask, mine):
                return uncounted
            verdict = judge(ask, self._control, now)
            taken = None
            if verdict.allowed and not verdict.permit and not ask.dry_run:
                mark, taken = self._charge.mark(), self._take(ask, now)
                if not await self._shared(taken):
                    return None
            verdict = self._control.answered(ask, verdict, now)
        if taken is not None:
            return await self._write(taken, mark)
        if mine is not None and mine.late and not verdict.allowed and not ask.dry_run:
            await self._give_back_if_untold(mine)
        return verdict.model_copy(update={"permit": ""}) if ask.dry_run else verdict

    async def _shared(self, permit: LedgerPermit) -> bool:
        """Return whether the permit was also taken with other clusters and replicas. Raises
        NotInCharge.
        """
        try:
            of_fleet = await self._fleet.take(permit)
        except NotInCharge:
            self._store.leave(permit)
            raise
        if not of_fleet:
            self._store.leave(permit)
            return False
        taken = False
        try:
            taken = await self._charge.take(permit)
        finally:
            if not taken:
                await self._fleet.drop(permit)
        return taken

    async def _bring_up_to_date(self, mine: LedgerPermit) -> None:
        """Bring the asker's own permit up to date.

        A write with unclear outcome is repeated and the permit judged again, because it was never
        announced and policies may have changed. A revoked permit is released. An expired one is
        renewed, because the request shows that the holder is alive. Raises NotWritten and
        NotInCharge.
        """
        await self._charge.sync_ledger()
        if self._ledger.get(mine.name) is not mine or mine.unreadable:
            return
        if mine.releasing or mine.state is PermitState.REVOKED:
            await self._give_back(mine)
        elif mine.unsure:
            await self._finish(mine)
        if mine.open and not mine.late and mine.expires_at <= self._clock.now():
            await self._prolong(mine)

    def _take(self, ask: Ask, now: datetime) -> LedgerPermit:
        place = self._control.census.place(ask.node)
        ruling = place.ruling(ask.operation) if place is not None else ()
        generation = ruling[0].policy.metadata.generation if ruling else 0
        return self._store.take(ask, self._control.scopes_of(ask), generation, now)

    async def _finish(self, mine: LedgerPermit) -> None:
        """Repeat a write whose outcome is unclear. Raises NotWritten."""
        try:
            await self._store.write(mine, again=True)
        finally:
            mine.late = True
            await self._charge.tell(mine)

    async def _write(self, permit: LedgerPermit, mark: object) -> Verdict:
        """Write and confirm the permit. Raises NotWritten and NotInCharge."""
        try:
            if permit.unsure:
                await self._store.write(permit)
        except NotWritten:
            await self._charge.tell(permit)
            if self._ledger.get(permit.name) is not permit:
                await self._fleet.drop(permit)
            raise
        await self._charge.confirm(permit, mark)
        await self._store.describe(permit)
        return granted(permit)

    async def _give_back_if_untold(self, late: LedgerPermit) -> None:
        """Release a late permit without a status. It was never announced, so no act uses it.

        Raises NotWritten.
        """
        if not late.status_written:
            await self._give_back(late)

    # -- check, renew, release ----------------------------------------------------------------

    async def check(self, permit: str, seconds_needed: float) -> Verdict:
        try:
            await self._charge.sync_ledger()
        except NotInCharge as error:
            return self.no(Reason.STORE_UNAVAILABLE, str(error))
        if refusal := self._blind() or self._refuse_invalid(permit):
            return refusal
        entry = self._ledger.get(permit)
        assert entry is not None
        if entry.expires_at < self._clock.now() + timedelta(seconds=seconds_needed):
            return self.no(Reason.UNKNOWN, f"permit {permit} ends before the step would: renew it")
        return granted(entry)

    async def renew(self, permit: str, seconds_needed: float = 0) -> Verdict:
        at_least = min(timedelta(seconds=seconds_needed) + CLOCKS, LONGEST_LIFE)
        entry = self._ledger.get(permit)
        async with self._turns.of(turn_of(entry) if entry else f"/{permit}"):
            try:
                await self._charge.sync_ledger()
                if refusal := self._blind() or self._refuse_invalid(permit):
                    return refusal
                entry = self._ledger.get(permit)
                assert entry is not None
                await self._prolong(entry, at_least)
            except NotWritten as error:
                return self._unwritten(error)
            except NotInCharge as error:
                return self.no(Reason.STORE_UNAVAILABLE, str(error))
            if refusal := self._blind() or self._refuse_invalid(permit):
                return refusal
        return granted(entry)

    async def release(self, permit: str) -> None:
        """Release the permit. Raises DefenderUnreachable: the slot is still taken, and housekeeping
        retries.
        """
        if why := self._sight.blind(stale_will_do=True):
            raise DefenderUnreachable(why[1])
        try:
            if self._ledger.get(permit) is None:
                await self._charge.sync_ledger()
            entry = self._ledger.get(permit)
            if entry is None:
                return
            async with self._turns.of(turn_of(entry)):
                if entry.open and self._ledger.get(permit) is entry:
                    await self._give_back(entry)
        except NotInCharge as error:
            raise DefenderUnreachable(str(error)) from error
        except NotWritten as error:
            self._metrics.unclear.inc()
            raise DefenderUnreachable(f"the release could not be written: {error}") from error

    async def _give_back(self, permit: LedgerPermit) -> None:
        """Release the permit. First mark it as releasing on all replicas, so that none accepts it
        any more.

        Raises NotWritten.
        """
        permit.releasing = True
        await self._charge.tell(permit)
        await self._store.release(permit)

    async def _prolong(self, permit: LedgerPermit, at_least: timedelta = timedelta(0)) -> None:
        """Renew the permit. Raises NotWritten."""
        await self._store.renew(permit, self._clock.now(), at_least)
        await self._charge.tell(permit)

    # -- saying no ----------------------------------------------------------------------------

    def _unseen(self, node: str) -> Verdict | None:
        """Return a refusal if caches are stale or the node is unreadable."""
        if blind := self._blind():
            return blind
        if not self._nodes.readable(node):
            return self.no(Reason.STALE_DATA, f"node {node} cannot be read")
        return None

    def _uncounted(self, ask: Ask, mine: LedgerPermit | None) -> Verdict | None:
        """Refuse a new disruptive permit after a restore of etcd.

        Permits granted since the backup are unknown, so limits would not count them.
        """
        counted = mine is not None and mine.counts_as(BY_DEFAULT)
        if ask.class_ not in BY_DEFAULT or counted or not (why := self._restored()):
            return None
        return self.no(
            Reason.STALE_DATA,
            f"{why}; permits granted since the backup are unknown until `kubenode freeze lift`",
        )

    def _blind(self) -> Verdict | None:
        why: Why | None = self._sight.blind()
        return self.no(*why) if why else None

    def _refuse_invalid(self, permit: str) -> Verdict | None:
        """Return a refusal if the permit is not valid."""
        entry = self._ledger.get(permit)
        if entry is None:
            return self.no(Reason.UNKNOWN, f"no permit {permit} is known")
        if not entry.open or entry.releasing:
            return self.no(Reason.UNKNOWN, f"permit {permit} was given back")
        if entry.state is PermitState.REVOKED:
            return self.no(Reason.UNKNOWN, f"permit {permit} was revoked")
        if entry.unreadable:
            return self.no(Reason.UNKNOWN, f"permit {permit} cannot be read")
        if entry.late:
            return self.no(Reason.UNKNOWN, f"permit {permit} came late: ask for it again")
        if entry.unsure:
            return self.no(Reason.STORE_UNAVAILABLE, f"permit {permit} is being changed")
        return None

    def _unwritten(self, error: NotWritten) -> Verdict:
        self._metrics.unclear.inc()
        log.warning("permit not written", extra={"why": str(error)})
        return self.no(Reason.STORE_UNAVAILABLE, f"the permit could not be written: {error}")

    def no(self, reason: Reason, message: str) -> Verdict:
        """Return a refusal with a time to ask again."""
        later = self._clock.now() + self._retry
        return Verdict(allowed=False, reason=reason, message=message[:1000], look_again_at=later)


def _as_heavy_as(mine: LedgerPermit | None, ask: Ask) -> Ask:
    """Return the request with the class of a late permit, if that is higher."""
    if mine is None or not mine.late or mine.class_.weight <= ask.class_.weight:
        return ask
    return ask.model_copy(update={"class_": mine.class_})
