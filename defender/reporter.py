"""What Kube Defender says in its policies: figures, and which parts of them it does not enforce.

It also makes the policy `default` where there is none, so that a pause has a place.
"""

import logging
from datetime import datetime, timedelta

from defender.census import CLUSTER, Census
from defender.ledger import Ledger
from defender.limits.case import healthy_in
from defender.policies import NOT_ENFORCED, Policy
from kubenode.api.meta import Condition, ConditionStatus
from kubenode.api.v1alpha1 import DefenderPolicy, default_policy
from kubenode.api.v1alpha1.defenderpolicy import Decisions, DefenderPolicyStatus
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, KubeError
from kubenode.runtime.kube.informer import Informer

log = logging.getLogger(__name__)

EVERY = timedelta(seconds=10)
"""Figures change with every permit; a policy is written no more often than this."""
POLICIES = paths.custom(DefenderPolicy.resource.plural)


class Reporter:
    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        fence: Fence,
        policies: Informer[Policy],
        census: Census,
        ledger: Ledger,
    ) -> None:
        self.granted = self.refused = 0
        self._kube, self._clock, self._fence = kube, clock, fence
        self._policies, self._census, self._ledger = policies, census, ledger
        self._before: dict[str, Decisions] = {}
        self._written_at: datetime | None = None

    async def ensure_policy(self) -> None:
        """Create `default` if the server has no policy at all. Raises KubeError."""
        listed = await self._kube.get(POLICIES)
        if listed["items"]:
            return
        self._fence.check()
        try:
            await self._kube.create(POLICIES, default_policy().to_dict())
        except AlreadyExists:
            return
        log.info("no DefenderPolicy was there: created the default")

    async def report(self) -> None:
        """Write each policy's status if it changed, at most once in EVERY."""
        now = self._clock.now()
        if self._written_at is not None and now < self._written_at + EVERY:
            return
        self._written_at = now
        for policy in list(self._policies.cache.values()):
            status = self.status(policy, now)
            if status == policy.status:
                continue
            self._fence.check()
            path = paths.custom(DefenderPolicy.resource.plural, policy.name, "status")
            try:
                await self._kube.patch(path, {"status": status.to_dict()})
            except KubeError as error:
                extra = {"policy": policy.name, "why": str(error)}
                log.info("policy status not written", extra=extra)

    def status(self, policy: Policy, now: datetime) -> DefenderPolicyStatus:
        group = (policy.name, CLUSTER)
        before = self._before.setdefault(policy.name, policy.status.decisions)
        healthy = healthy_in(self._census, self._ledger, group)
        return DefenderPolicyStatus(
            observed_generation=policy.metadata.generation,
            healthy=max(0, healthy),
            unhealthy=max(0, self._census.tally(group).members - healthy),
            permits=sum(self._census.belongs(h.node, group) for h in self._ledger.open()),
            breaker=policy.status.breaker,
            decisions=Decisions(
                granted=before.granted + self.granted, refused=before.refused + self.refused
            ),
            missed_deadline=policy.status.missed_deadline,
            conditions=_conditions(policy, now),
        )


def _conditions(policy: Policy, now: datetime) -> list[Condition]:
    """NotEnforced, beside the conditions of others."""
    explicit = policy.problems
    parts = ", ".join(NOT_ENFORCED)
    message = f"not enforced in this version: {parts}"
    if explicit:
        message = f"everything that this policy covers is refused: {'; '.join(explicit)}. {message}"
    reason = "Refusing" if explicit else "NotInThisVersion"
    old = next((c for c in policy.status.conditions if c.type == "NotEnforced"), None)
    since = old.last_transition_time if old is not None else now
    ours = Condition(
        type="NotEnforced",
        status=ConditionStatus.TRUE,
        reason=reason,
        message=message[:32000],
        observed_generation=policy.metadata.generation,
        last_transition_time=since,
    )
    return [*(c for c in policy.status.conditions if c.type != "NotEnforced"), ours]
