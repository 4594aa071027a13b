"""Kube Defender: the only authority on whether a node may be disrupted. Implements `Permits`.

It counts nodes from its own watches, decides in one pure function (`verdict.judge`), and enters a
grant into the ledger with no await in between. It writes the Permit before it answers. If it cannot
observe, read or write something, it refuses:

    its lease is not held, permits not loaded      StoreUnavailable
    nodes, permits or policies not current         StaleData
    a permit on the node cannot be read            NodeBusy, and it counts in every limit
    the write of a permit failed or is unclear     StoreUnavailable, the slot stays taken meanwhile
    a policy that cannot be read or enforced       PolicyInvalid

Recovery needs no permit: uncordoning, cancelling and releasing.
"""

import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from defender.answers import READY
from defender.audit import Auditing
from defender.dashboard.rule import RuleView
from defender.decision.breaker.step import PACE, BreakerTimes
from defender.decision.census import STARTUP_GRACE
from defender.decision.control import RiskControl
from defender.decision.jobs import ObservedJob
from defender.decision.limits.case import REQUEUE_AFTER
from defender.decision.permit_reader import read_permit
from defender.decision.policies import LoadedPolicy, read_policy
from defender.decision.requests import Requests
from defender.metrics import DefenderMetrics
from defender.overview.records import RecordView
from defender.replicas.charge.charge import MakeCharge, NotInCharge, Solo
from defender.replicas.fleet.budget import MakeFleet, NoFleet, Sharing
from defender.replicas.lifesigns import LifeSigns
from defender.server.blind import Sight
from defender.server.calendar import Calendar
from defender.server.displacement import Displacing, Recording
from defender.server.keeper import ROUND_SECONDS, PermitReaper
from defender.server.permit_service import Asking
from defender.server.reporter import PolicyReporter
from defender.server.revocation import Revoking
from defender.server.store import LIFE, PERMITS, PermitStore
from defender.server.thaw import thaw_in
from defender.server.ticker import Ticking
from defender.server.turns import KeyedLocks
from defender.server.waker import Waker
from defender.shadow import ShadowFaults
from kubenode.api.v1alpha1 import (
    Ask,
    DefenderPolicy,
    Permit,
    RemedyOperationJob,
    Verdict,
)
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.audit import SILENT, Audit
from kubenode.runtime.clock import Clock
from kubenode.runtime.disruption.guard import never_frozen
from kubenode.runtime.fence import Fence, leads
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.informers import MakeInformer
from kubenode.runtime.kube.objects import Node, structs
from kubenode.runtime.process import Part
from kubenode.runtime.recorder import EventRecorder
from kubenode.runtime.telemetry.metrics import RuntimeMetrics as RuntimeMetrics
from kubenode.runtime.telemetry.tracing import here, span

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DefenderSettings:
    """Settings of Kube Defender.

    life: time from the grant or renewal of a permit until its holder is checked.
    requeue_after: least time to wait if it is unknown when a limit will allow more.
    grace: time in which a new node need not be ready.
    round: seconds between two rounds of housekeeping.
    pace: times of the breakers that no policy sets.
    """

    life: timedelta = LIFE
    requeue_after: timedelta = REQUEUE_AFTER
    grace: timedelta = STARTUP_GRACE
    round: float = ROUND_SECONDS
    pace: BreakerTimes = PACE


class Defender:
    """A part for the holder of the lease. The parts in `ground` run on every replica.

    kube: client of the API server.
    fence: the lease, checked before every grant.
    runtime: metrics of the informers, None for none.
    informer: makes informers. `Informers` shares them with other parts of the process.
    charge: decides which replica answers. None: the holder of the lease.
    fleet: shares limits with other clusters. None: policies with such limits refuse.
    audit: the audit log of grants and refusals.
    restored: returns why a restore of etcd from a backup freezes, "" if none does.
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
        informer: MakeInformer = Informer,
        charge: MakeCharge | None = None,
        fleet: MakeFleet | None = None,
        audit: Audit = SILENT,
        restored: Callable[[], str] = never_frozen,
    ) -> None:
        self.settings = settings or DefenderSettings()
        self._kube, self._fence, self._clock = kube, fence, clock
        self.informer = informer
        self.control = RiskControl(
            self.settings.grace, self.settings.requeue_after, pace=self.settings.pace
        )
        self.census, self.ledger = self.control.census, self.control.ledger
        self.store = PermitStore(kube, clock, self.ledger, self.settings.life)
        self._turns = KeyedLocks()
        self.waker = Waker(self.control, clock, lambda: not self.ready())
        self.nodes: Informer[Node] = informer(
            kube, paths.nodes(), structs(Node), clock=clock, name="nodes of defender"
        )
        self.permits: Informer[Permit] = informer(kube, PERMITS, read_permit, clock=clock)
        self.policies: Informer[LoadedPolicy] = informer(
            kube,
            paths.custom(DefenderPolicy.resource.plural),
            partial(read_policy, fleet=fleet is not None),
            clock=clock,
        )
        self.jobs: Informer[ObservedJob] = informer(
            kube,
            paths.custom(RemedyOperationJob.resource.plural),
            structs(ObservedJob),
            clock=clock,
            name="jobs of defender",
        )
        self.shadows = ShadowFaults(
            self.nodes,
            informer(
                kube,
                paths.custom("noderemediers"),
                structs(RuleView),
                clock=clock,
                name="rules of defender",
            ),
            informer(
                kube,
                paths.custom("noderecords"),
                structs(RecordView),
                clock=clock,
                name="node records of defender",
            ),
        )
        self.control.breakers.shadows = self.shadows
        self.displacement = Displacing(kube, clock, self.control, informer)
        self.recording = Recording(kube, clock, fence, self.control)
        self.calendar = Calendar(clock, lambda: self.control.policies, self.control.queue.governed)
        self.charge = (charge or Solo)(self.store, fence, self.permits)
        self.fleet: Sharing = NoFleet()
        if fleet is not None:
            self.fleet = fleet(self.control, self.charge, fence)
        self.fleet.on_departure = lambda each: self.auditing.departed(each, clock.now())
        needed = (self.nodes, self.permits, self.policies)
        self.sight = Sight(self.charge, needed)
        self.nodes.add_handler(self._node_changed)
        self.permits.add_handler(self.store.changed)
        kube.on_went_back.append(self.store.went_back)
        self.policies.add_handler(self._policy_changed)
        self.jobs.add_handler(self._job_changed)
        self.metrics = DefenderMetrics(
            registry,
            self.control,
            lambda: not self.ready(),
            clock,
            lambda: self.jobs.cache.values(),
        )
        self.metrics.stores.update(self.charge.stores())
        self.requests = Requests(clock.now())
        self.auditing = Auditing(audit)
        self.control.breakers.loaded = False
        self.recorder = EventRecorder(kube, "kubenode-defender", clock)
        self.reporter = PolicyReporter(
            kube, clock, fence, self.policies, self.control, self.recorder, self.auditing.thawed
        )
        self.life_signs = LifeSigns(kube, clock, self.control, self.nodes.fresh)
        self.keeper = PermitReaper(
            kube,
            clock,
            fence,
            self.store,
            self.charge,
            self._turns,
            self.control,
            self.nodes,
            self.jobs,
            self.metrics,
            self.control.remembered,
        )
        self.revoking = Revoking(
            kube,
            clock,
            self.store,
            self.charge,
            self._turns,
            self.control,
            count=lambda cause: self.metrics.revoked.labels(cause).inc(),
        )
        self.asking = Asking(
            self.control,
            self.store,
            self.charge,
            self.fleet,
            self.sight,
            self.waker,
            self.nodes,
            self._turns,
            clock,
            self.metrics,
            self.settings.requeue_after,
            restored,
        )
        if runtime is not None:
            for each in (*self._informers, self.displacement.pending):
                runtime.informer(each)
            runtime.recorder(self.recorder)

    # -- parts --------------------------------------------------------------------------------

    @property
    def _informers(self) -> tuple[Informer[Any], ...]:
        return self.nodes, self.permits, self.policies, self.jobs

    @property
    def ground(self) -> list[Part]:
        """Parts that run on every replica."""
        own = (self.recorder, self.life_signs, self.waker, Ticking(self._tick, self._clock))
        shown = (*self.charge.parts, *self.fleet.parts, *self.displacement.parts)
        shadows = (self.shadows.rules, self.shadows.records)
        return [*self._informers, *shadows, *shown, *own]

    @property
    def parts(self) -> list[Part]:
        """Parts for the holder of the lease, which maintain the permits."""
        return [self, self.revoking, self.recording, self.calendar]

    async def run(self) -> None:
        """Load the permits, then maintain them until cancelled."""
        for informer in self._informers:
            await informer.synced.wait()
        try:
            await self.load()
            while True:
                await self._keep()
                await self._clock.sleep(self.settings.round)
        finally:
            self.store.ready = False

    async def load(self) -> None:
        """Load the permits from the API server. Caches may lag behind the grants of an earlier
        leader.
        """
        trouble = ""
        while True:
            try:
                self._fence.check()
                await self.reporter.ensure_policy()
                await self.charge.begin()
            except (KubeError, ValueError) as error:
                if trouble != str(error):
                    trouble = str(error)
                    log.error("permits cannot be loaded, trying again", extra={"why": trouble})
                await self._clock.sleep(1.0)
            else:
                self.control.breakers.loaded = True
                return

    async def _keep(self) -> None:
        """Run a round of housekeeping, if this replica is in charge and current."""
        if self.charge.why_not():
            return
        try:
            await self.charge.sync_ledger()
        except NotInCharge:
            return
        await self.keeper.round()

    async def _tick(self) -> None:
        """Advance the breakers once a second on every replica, so that they open in time without
        requests.
        """
        if not all(informer.synced.is_set() for informer in self._informers):
            return
        self.control.advance(self._clock.now())
        self.control.breakers.loaded |= not self.charge.why_not()
        if leads(self._fence) and not self.charge.why_not():
            await self.reporter.report()

    def ready(self) -> str:
        """Return "" if requests can be answered, else why not."""
        why = self.sight.blind()
        return why[1] if why else ""

    def well(self) -> str:
        """Return "" if this replica works, also as a standby that could take over; else why not."""
        stands_by = isinstance(self.charge, Solo) and not leads(self._fence)
        why = self.sight.cannot_see() if stands_by else self.sight.blind()
        return why[1] if why else ""

    def _node_changed(self, name: str, old: Node | None, new: Node | None) -> None:
        self.control.node_changed(name, new, self._clock.now())

    def _job_changed(self, name: str, old: ObservedJob | None, new: ObservedJob | None) -> None:
        self.control.job_changed(old, new, self._clock.now())

    def _policy_changed(
        self, name: str, old: LoadedPolicy | None, new: LoadedPolicy | None
    ) -> None:
        if new is not None:
            self._thaw(new)
        if old is None or new is None or old.spec != new.spec:
            self.control.govern(list(self.policies.cache.values()), self._clock.now())
            self.calendar.reschedule()
        elif not leads(self._fence):
            self.control.breakers.adopt(new, self._clock.now())

    def _thaw(self, policy: LoadedPolicy) -> None:
        """Apply a person's thaw of the control path, on every replica and after a restart."""
        try:
            thaw = thaw_in(policy.metadata.annotations)
        except ValueError as error:
            extra = {"policy": policy.name, "why": str(error)}
            log.error("a thaw of the control path cannot be read", extra=extra)
            return
        if thaw is not None:
            self.control.breakers.lift(thaw)

    # -- the port -----------------------------------------------------------------------------

    async def ask(self, ask: Ask) -> Verdict:
        began = self._clock.monotonic()
        with span("verdict", self._clock, here()) as doing:
            verdict = await self.asking.ask(ask)
            doing.about = {
                "kubenode.allowed": verdict.allowed,
                "kubenode.reason": str(verdict.reason),
                "kubenode.permit": verdict.permit,
                "kubenode.disruption": str(ask.class_),
            }
        self.metrics.seconds.observe(self._clock.monotonic() - began)
        if not ask.dry_run:
            self.reporter.granted += verdict.allowed
            self.reporter.refused += not verdict.allowed
        self.requests.answered(ask, verdict, self._clock.now())
        self.auditing.answered(ask, verdict, self._clock.now())
        return self._count_verdict("ask", verdict)

    async def check(self, permit: str, seconds_needed: float) -> Verdict:
        return self._count_verdict("check", await self.asking.check(permit, seconds_needed))

    async def renew(self, permit: str, seconds_needed: float = 0) -> Verdict:
        return self._count_verdict("renew", await self.asking.renew(permit, seconds_needed))

    async def release(self, permit: str) -> None:
        """Release the permit. Raises DefenderUnreachable: the slot is still taken, and housekeeping
        retries.
        """
        await self.asking.release(permit)

    def wakes(self) -> AsyncIterator[Holder]:
        """Yield holders for which there is a slot and which should ask at once."""
        return self.waker.wakes()

    def _count_verdict(self, call: str, verdict: Verdict) -> Verdict:
        self.metrics.verdicts.labels(call, verdict.reason).inc()
        return verdict

    def status(self) -> dict[str, Any]:
        """Return the content of `GET /v1/status`."""
        open_ = self.ledger.open()
        return {
            "ready": self.ready() or READY,
            "nodes": {str(health): count for health, count in self.census.counts().items()},
            "permits": [
                {
                    "name": permit.name,
                    "node": permit.node,
                    "class": permit.class_,
                    "state": permit.state,
                    "holder": permit.holder.to_dict(),
                    "scopes": sorted(permit.scopes or ()),
                    "expiresAt": permit.expires_at.isoformat(),
                }
                for permit in sorted(open_, key=lambda permit: permit.granted_at)
            ],
            "policies": {policy.name: policy.problems for policy in self.control.policies},
        }
