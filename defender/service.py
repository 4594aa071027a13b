"""Kube Defender: the only authority on whether a node may be disrupted. Implements `Permits`.

It counts nodes by itself from what it watches, decides in one pure function (`verdict.judge`), and
enters what it grants into the ledger with no await in between; the Permit object is written before
the answer is given. Whatever it cannot see, read or write makes the answer no:

    its lease is not held, permits not loaded      StoreUnavailable
    nodes, permits or policies not current         StaleData
    the write of a permit failed or is unclear     StoreUnavailable, the slot stays taken meanwhile
    a policy that cannot be read or kept           PolicyInvalid

Recovery never asks: uncordoning, cancelling and giving back need no permit.
"""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry

from defender.census import STARTUP_GRACE
from defender.client import DefenderUnreachable
from defender.control import RiskControl
from defender.jobs import Job
from defender.keeper import ROUND_SECONDS, Keeper, turn_of
from defender.ledger import Held
from defender.limits.case import LOOK_AGAIN
from defender.metrics import Metrics
from defender.policies import Policy, covering, read_policy
from defender.reporter import Reporter
from defender.store import LIFE, PERMITS, NotWritten, PermitStore
from defender.turns import Turns
from defender.verdict import granted, judge, scopes_of
from defender.waking import Waker
from kubenode.api.v1alpha1 import (
    Ask,
    DefenderPolicy,
    Permit,
    Reason,
    RemedyOperationJob,
    Verdict,
)
from kubenode.api.v1alpha1.permit import Holder, PermitState
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import Fence, LeaseLost
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs
from kubenode.runtime.process import Part
from kubenode.runtime.telemetry.metrics import Metrics as RuntimeMetrics

log = logging.getLogger(__name__)

RETRY = timedelta(seconds=5)
LONGEST_LIFE = timedelta(hours=6)
"""No step may need more: its permit would be looked at too late."""
CLOCKS = timedelta(minutes=1)
"""A permit is renewed for this much longer than a step needs: checks come later, by other clocks."""


@dataclass(frozen=True, slots=True)
class DefenderSettings:
    """life        of a permit, from its grant or renewal until its holder is looked at
    look_again  to wait at least where nothing says when a limit will allow more
    grace       in which a new node need not be ready
    round       seconds between two rounds of housekeeping
    """

    life: timedelta = LIFE
    look_again: timedelta = LOOK_AGAIN
    grace: timedelta = STARTUP_GRACE
    round: float = ROUND_SECONDS


class Defender:
    """A Part, for whoever holds the lease; `ground` runs on every replica.

    kube      the API server
    fence     the lease; checked before every grant
    runtime   where the informers show themselves, if anywhere
    """

    name = "defender"

    def __init__(
        self,
        kube: Kube,
        fence: Fence,
        clock: Clock,
        registry: CollectorRegistry,
        settings: DefenderSettings | None = None,
        runtime: RuntimeMetrics | None = None,
        informer: type[Informer[Any]] = Informer,
    ) -> None:
        self.settings = settings or DefenderSettings()
        self._kube, self._fence, self._clock = kube, fence, clock
        self.control = RiskControl(self.settings.grace, self.settings.look_again)
        self.census, self.ledger = self.control.census, self.control.ledger
        self.store = PermitStore(kube, clock, self.ledger, self.settings.life)
        self._turns = Turns()
        self.waker = Waker(self.control, clock, lambda: not self._why_blind())
        self.nodes: Informer[Node] = informer(
            kube, paths.nodes(), structs(Node), clock=clock, name="nodes of defender"
        )
        self.permits: Informer[Permit] = informer(kube, PERMITS, Permit.from_server, clock=clock)
        self.policies: Informer[Policy] = informer(
            kube, paths.custom(DefenderPolicy.resource.plural), read_policy, clock=clock
        )
        self.jobs: Informer[Job] = informer(
            kube,
            paths.custom(RemedyOperationJob.resource.plural),
            structs(Job),
            clock=clock,
            name="jobs of defender",
        )
        self.nodes.add_handler(self._node_changed)
        self.permits.add_handler(self.store.changed)
        self.policies.add_handler(self._policy_changed)
        self.jobs.add_handler(self._job_changed)
        self.metrics = Metrics(registry, self.census, self.ledger, lambda: not self._why_blind())
        self.control.breakers.loaded = False
        self.reporter = Reporter(
            kube, clock, fence, self.policies, self.census, self.ledger, self.control.breakers
        )
        self.keeper = Keeper(
            kube,
            clock,
            fence,
            self.store,
            self._turns,
            self.control,
            self.nodes,
            self.jobs,
            self.metrics,
            self.control.remembered,
        )
        if runtime is not None:
            for each in self._informers:
                runtime.informer(each)

    # -- parts --------------------------------------------------------------------------------

    @property
    def _informers(self) -> tuple[Informer[Any], ...]:
        return self.nodes, self.permits, self.policies, self.jobs

    @property
    def ground(self) -> list[Part]:
        """What may run without the lease."""
        return [*self._informers]

    @property
    def parts(self) -> list[Part]:
        """What grants and keeps: to be started once the lease is held."""
        return [self, self.waker]

    async def run(self) -> None:
        """Load the record, then keep it, until cancelled. Nothing is granted before and after."""
        for informer in self._informers:
            await informer.synced.wait()
        try:
            await self.load()
            self.control.breakers.loaded = True
            while True:
                await self.keeper.round()
                await self.reporter.report()
                await self._clock.sleep(self.settings.round)
        finally:
            self.store.ready = False

    async def load(self) -> None:
        """Read the permits live: caches may lag behind what another leader granted last."""
        trouble = ""
        while True:
            try:
                self._fence.check()
                await self.reporter.ensure_policy()
                await self.store.load()
            except (KubeError, ValueError) as error:
                if trouble != str(error):
                    trouble = str(error)
                    log.error("permits cannot be loaded, trying again", extra={"why": trouble})
                await self._clock.sleep(1.0)
            else:
                return

    def ready(self) -> str:
        """ "" when questions can be answered, else why not."""
        why = self._why_blind()
        return why[1] if why else ""

    def _node_changed(self, name: str, old: Node | None, new: Node | None) -> None:
        self.control.node_changed(name, new, self._clock.now())

    def _job_changed(self, name: str, old: Job | None, new: Job | None) -> None:
        self.control.job_changed(old, new, self._clock.now())

    def _policy_changed(self, name: str, old: Policy | None, new: Policy | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self.control.govern(list(self.policies.cache.values()), self._clock.now())

    # -- the port -----------------------------------------------------------------------------

    async def ask(self, ask: Ask) -> Verdict:
        began = self._clock.monotonic()
        async with self._turns.of(f"{ask.holder.uid}/{ask.node}"):
            verdict = await self._ask(ask)
        self.metrics.seconds.observe(self._clock.monotonic() - began)
        if not ask.dry_run:
            self.reporter.granted += verdict.allowed
            self.reporter.refused += not verdict.allowed
        return self._said("ask", verdict)

    async def _ask(self, ask: Ask) -> Verdict:
        mine = self.ledger.open_of(ask.holder, ask.node)
        if mine is not None and not ask.dry_run and not self._why_blind():
            try:
                await self._bring_up_to_date(mine)
            except NotWritten as error:
                return self._unwritten(error)
        # From here to the ledger there is no await: what is counted is what is taken.
        if blind := self._blind():
            return blind
        if not self.nodes.readable(ask.node):
            return self._no(Reason.STALE_DATA, f"node {ask.node} cannot be read")
        now = self._clock.now()
        self.control.advance(now)
        self.waker.call(now)
        verdict = self.control.queue.answered(ask, judge(ask, self.control, now), now)
        if ask.dry_run:
            return verdict.model_copy(update={"permit": ""})
        if not verdict.allowed or verdict.permit:
            return verdict
        held = self._take(ask, now)
        try:
            await self.store.write(held)
        except NotWritten as error:
            return self._unwritten(error)
        return granted(held)

    async def _bring_up_to_date(self, mine: Held) -> None:
        """The asker's own permit: an unclear write is finished, a revoked one given back, one that
        is over prolonged, for the asker shows that it lives. Raises NotWritten.
        """
        await self.store.settle(mine)
        if mine.open and mine.expires_at <= self._clock.now():
            await self.store.renew(mine, self._clock.now())

    def _take(self, ask: Ask, now: datetime) -> Held:
        member = self.census.member(ask.node)
        assert member is not None  # judged a moment ago
        scopes = scopes_of(member, ask, self.control.policies, self.control.fallback)
        chosen = covering(
            self.control.policies, member.labels, ask.operation, self.control.fallback
        )
        return self.store.take(ask, scopes, chosen[0].metadata.generation, now)

    async def check(self, permit: str, seconds_needed: float) -> Verdict:
        return self._said("check", self._check(permit, seconds_needed))

    def _check(self, permit: str, seconds_needed: float) -> Verdict:
        if refusal := self._blind() or self._not_held(permit):
            return refusal
        held = self.ledger.get(permit)
        assert held is not None
        if held.unsure:
            return self._no(Reason.STORE_UNAVAILABLE, f"permit {permit} is being changed")
        if held.expires_at < self._clock.now() + timedelta(seconds=seconds_needed):
            return self._no(Reason.UNKNOWN, f"permit {permit} ends before the step would: renew it")
        return granted(held)

    async def renew(self, permit: str, seconds_needed: float = 0) -> Verdict:
        return self._said("renew", await self._renew(permit, seconds_needed))

    async def _renew(self, permit: str, seconds_needed: float) -> Verdict:
        if refusal := self._blind() or self._not_held(permit):
            return refusal
        held = self.ledger.get(permit)
        assert held is not None
        async with self._turns.of(turn_of(held)):
            if refusal := self._blind() or self._not_held(permit):
                return refusal
            if held.unsure:
                return self._no(Reason.STORE_UNAVAILABLE, f"permit {permit} is being changed")
            try:
                at_least = min(timedelta(seconds=seconds_needed) + CLOCKS, LONGEST_LIFE)
                await self.store.renew(held, self._clock.now(), at_least)
            except NotWritten as error:
                return self._unwritten(error)
        return granted(held)

    async def release(self, permit: str) -> None:
        """Raises DefenderUnreachable: the slot is still taken; housekeeping goes on freeing it."""
        if why := self._why_blind(stale_will_do=True):
            raise DefenderUnreachable(why[1])
        held = self.ledger.get(permit)
        if held is None:
            return
        async with self._turns.of(turn_of(held)):
            if not held.open or self.ledger.get(permit) is not held:
                return
            try:
                await self.store.release(held)
            except NotWritten as error:
                self.metrics.unclear.inc()
                raise DefenderUnreachable(f"the release could not be written: {error}") from error

    def wakes(self) -> AsyncIterator[Holder]:
        """Holders for whom a slot is free and kept for a moment: they shall ask now."""
        return self.waker.wakes()

    # -- saying no ----------------------------------------------------------------------------

    def _why_blind(self, *, stale_will_do: bool = False) -> tuple[Reason, str] | None:
        if not self.store.ready:
            return Reason.STORE_UNAVAILABLE, "Kube Defender has not loaded the permits yet"
        try:
            self._fence.check()
        except LeaseLost:
            return Reason.STORE_UNAVAILABLE, "this Kube Defender does not hold the lease"
        if stale_will_do:
            return None
        for informer in (self.nodes, self.permits, self.policies):
            if not informer.fresh():
                return Reason.STALE_DATA, f"{informer.path.rsplit('/', 1)[-1]} are not up to date"
        if self.permits.broken:
            name = min(self.permits.broken)
            return Reason.STORE_UNAVAILABLE, f"permit {name} cannot be read: repair or delete it"
        return None

    def _blind(self) -> Verdict | None:
        why = self._why_blind()
        return self._no(*why) if why else None

    def _not_held(self, permit: str) -> Verdict | None:
        held = self.ledger.get(permit)
        if held is None:
            return self._no(Reason.UNKNOWN, f"no permit {permit} is known")
        if not held.open or held.releasing:
            return self._no(Reason.UNKNOWN, f"permit {permit} was given back")
        if held.state is PermitState.REVOKED:
            return self._no(Reason.UNKNOWN, f"permit {permit} was revoked")
        return None

    def _unwritten(self, error: NotWritten) -> Verdict:
        self.metrics.unclear.inc()
        log.warning("permit not written", extra={"why": str(error)})
        return self._no(Reason.STORE_UNAVAILABLE, f"the permit could not be written: {error}")

    def _no(self, reason: Reason, message: str) -> Verdict:
        later = self._clock.now() + min(RETRY, self.settings.look_again)
        return Verdict(allowed=False, reason=reason, message=message[:1000], look_again_at=later)

    def _said(self, call: str, verdict: Verdict) -> Verdict:
        self.metrics.verdicts.labels(call, verdict.reason).inc()
        return verdict

    def status(self) -> dict[str, Any]:
        """For people: what `GET /v1/status` shows."""
        open_ = self.ledger.open()
        return {
            "ready": self.ready() or "yes",
            "nodes": {str(health): count for health, count in self.census.counts().items()},
            "permits": [
                {
                    "name": held.name,
                    "node": held.node,
                    "class": held.class_,
                    "state": held.state,
                    "holder": held.holder.to_dict(),
                    "scopes": sorted(held.scopes or ()),
                    "expiresAt": held.expires_at.isoformat(),
                }
                for held in sorted(open_, key=lambda held: held.granted_at)
            ],
            "policies": {policy.name: policy.problems for policy in self.control.policies},
        }
