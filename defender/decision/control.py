"""In-memory state from which verdicts are computed.

The service feeds it from its watches, simulations and tests from their own data. It does no I/O and
reads no clock, so all of them decide alike.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from defender.decision.breaker.breakers import BreakerRegistry
from defender.decision.breaker.step import PACE, BreakerTimes
from defender.decision.census import STARTUP_GRACE, Census
from defender.decision.counts import LimitCounts
from defender.decision.coverage import CLUSTER, EVERYBODYS, record
from defender.decision.deadlines import Deadlines
from defender.decision.fleet_view import FleetView
from defender.decision.jobs import ObservedJob
from defender.decision.ledger import PermitLedger
from defender.decision.limits.bucket import horizon
from defender.decision.limits.case import REQUEUE_AFTER
from defender.decision.pauses import common
from defender.decision.policies import BUILT_IN, LoadedPolicy
from defender.decision.queue import PermitQueue
from defender.decision.queue.times import QueueTimes
from kubenode.api.v1alpha1 import Ask, Verdict
from kubenode.runtime.kube.objects import Node

MOST_SCOPES = 64
"""Greatest number of scopes in a Permit's status, as the CRD allows."""


class RiskControl:
    """State from which verdicts are computed.

    grace: time in which a new node need not be ready.
    requeue_after: least time to wait if it is unknown when a limit will allow more.
    fallback: rules what none of the policies covers, so that there is always a limit.
    pace: times of the breakers that no policy sets.
    displaced: pending pods that our acts displaced, None if unknown.
    fleet: what is known of other clusters, None if limits are not shared.
    """

    def __init__(
        self,
        grace: timedelta = STARTUP_GRACE,
        requeue_after: timedelta = REQUEUE_AFTER,
        fallback: LoadedPolicy = BUILT_IN,
        pace: BreakerTimes = PACE,
    ) -> None:
        self.requeue_after = requeue_after
        self.fallback = fallback
        self.policies: tuple[LoadedPolicy, ...] = ()
        self.census = Census(grace)
        self.ledger = PermitLedger()
        self.counts = LimitCounts(self.census, self.ledger)
        self.breakers = BreakerRegistry(self.census, self.ledger, pace)
        self.queue = PermitQueue(self.census, self.ledger, QueueTimes(requeue_after))
        self.deadlines = Deadlines()
        self.displaced: int | None = 0
        self.fleet: FleetView | None = None
        self.census.govern([], fallback)

    def govern(self, policies: Sequence[LoadedPolicy], now: datetime) -> None:
        """Replace the policies."""
        self.policies = tuple(policies)
        self.fallback = self._paused_like(policies, now)
        self.census.govern(policies, self.fallback)
        self.breakers.govern([*policies, self.fallback], now)
        self.queue.governed()

    def _paused_like(self, policies: Sequence[LoadedPolicy], now: datetime) -> LoadedPolicy:
        """Return the fallback with the pauses that all policies share."""
        spec = self.fallback.spec
        pauses = common([p.spec.pauses for p in policies if p.spec is not None], now)
        if spec is None or spec.pauses == pauses:
            return self.fallback
        return replace(self.fallback, spec=spec.model_copy(update={"pauses": pauses}))

    def node_changed(self, name: str, node: Node | None, now: datetime) -> None:
        before = self.census.member(name)
        if node is None:
            self.census.remove(name)
        else:
            self.census.put(node, now)
        self.breakers.node_changed(name, now)
        self.queue.node_changed(name, before, self.census.member(name))

    def job_changed(self, old: ObservedJob | None, new: ObservedJob | None, now: datetime) -> None:
        self.breakers.job_changed(old, new, now)
        self.queue.job_changed(old, new)

    def answered(self, ask: Ask, verdict: Verdict, now: datetime) -> Verdict:
        """Record an answer before it is given. Return it with the time to ask again."""
        verdict = self.queue.answered(ask, verdict, now)
        if ask.deadline is not None:
            self.deadlines.answered(ask, verdict, self._ruling(ask), now)
        return verdict

    def _ruling(self, ask: Ask) -> tuple[str, ...]:
        place = self.census.place(ask.node)
        rulings = place.ruling(ask.operation) if place is not None else ()
        return tuple(ruling.policy.name for ruling in rulings)

    def scopes_of(self, ask: Ask) -> frozenset[str] | None:
        """Return all scopes in which a permit for this act counts, as its status names them.

        None means that it counts in every scope: the node is gone, or has more scopes than a status
        allows.
        """
        place = self.census.place(ask.node)
        if place is None:
            return None
        rulings = place.ruling(ask.operation)
        scopes = {CLUSTER} | {bound.scope for ruling in rulings for bound in ruling.bounds}
        policies = [ruling.policy.name for ruling in rulings]
        only_everybodys = all(name in EVERYBODYS for name in policies)
        recorded = record(scopes, () if only_everybodys else policies)
        return recorded if len(recorded) <= MOST_SCOPES else None

    def missed(self, policy: str) -> int:
        """Return the evacuations whose deadline passed without a permit, since the start."""
        return self.deadlines.missed.get(policy, 0)

    def advance(self, now: datetime) -> bool:
        """Let time pass. Return whether the state of a breaker changed."""
        self.census.advance(now)
        self.deadlines.advance(now)
        changed = self.breakers.advance(now)
        if changed:
            self.queue.breakers_changed()
        self.queue.advance(now)
        return changed

    def remembered(self) -> timedelta:
        """Return how long released permits count, in the longest rate and in perNode; at least an
        hour.
        """
        spans = [timedelta(hours=1)]
        for policy in (*self.policies, self.fallback):
            if policy.spec is not None:
                spans.append(policy.spec.per_node.within)
                spans += [horizon(each.rate) for each in policy.spec.limits if each.rate]
        return max(spans)
