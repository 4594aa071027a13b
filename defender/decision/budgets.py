"""Usage of every limit, for people and metrics and not for verdicts. Pure.

The room does not consider a particular node. A budget with room may still refuse a node that would
be one too many; only `judge` decides that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import floor

from defender.decision.census import CensusTally
from defender.decision.control import RiskControl
from defender.decision.coverage import ScopedLimit, about
from defender.decision.limits.demand import Demand, demand
from kubenode.api.v1alpha1 import Disruption
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec, Limit, Rate


class BudgetKind(StrEnum):
    """Part of a limit, by its name in the policy."""

    CONCURRENCY = "maxConcurrent"
    HEALTHY = "minHealthy"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class LimitBudget:
    """One part of one limit in one scope.

    used: permits held; for a rate, grants within the last `per`; for minHealthy, nodes that are
        healthy.
    limit: the greatest number of permits; for minHealthy, the least number of healthy nodes.
    room: number of acts that the part still allows now.
    """

    policy: str
    index: int
    scope: str
    kind: BudgetKind
    classes: frozenset[Disruption]
    used: int
    limit: int
    room: int

    @property
    def label(self) -> str:
        """The label, if the scope is a value of one; else the scope."""
        return self.scope.partition("=")[0]


def budgets(control: RiskControl, now: datetime, *, fallback: bool = False) -> list[LimitBudget]:
    """Return the budgets of every policy.

    fallback: include the built-in policy. Without other policies it is always included.
    """
    rulers = control.policies or (control.fallback,)
    if fallback and control.policies:
        rulers = (*rulers, control.fallback)
    scopes: dict[str, list[str]] = {}
    for policy, scope in sorted(control.census.groups()):
        scopes.setdefault(policy, []).append(scope)
    control.counts.catch_up()
    coverage = control.census.coverage
    return [
        budget
        for policy in sorted(rulers, key=lambda policy: policy.name)
        if policy.spec is not None
        for index, limit in enumerate(policy.spec.limits)
        for scope in scopes.get(policy.name, ())
        if about(limit, scope)
        for bound in (coverage.bound(policy.name, index, limit, scope),)
        for budget in _Reading(control, policy.spec, bound, now).all()
    ]


@dataclass(frozen=True, slots=True)
class _Reading:
    control: RiskControl
    spec: DefenderPolicySpec
    bound: ScopedLimit
    now: datetime

    def all(self) -> Iterator[LimitBudget]:
        limit, tally = self.bound.limit, self.control.census.tally(self.bound.group)
        required = demand(
            limit.max_concurrent, limit.min_healthy, self.spec.small_pool.nodes, tally.members
        )
        most = required.most
        if most is not None:
            used = self.control.counts.used(self.bound)
            yield self._budget(BudgetKind.CONCURRENCY, used, most, most - used)
        need = self._healthy_needed(limit, tally, required)
        if need is not None:
            yield self._budget(BudgetKind.HEALTHY, tally.free, need, tally.free - need)
        if limit.rate is not None:
            yield self._rate(limit.rate)

    def _budget(self, kind: BudgetKind, used: int, limit: int, room: int) -> LimitBudget:
        policy, index, scope = self.bound.key
        return LimitBudget(
            policy, index, scope, kind, self.bound.classes, used, limit, max(0, room)
        )

    def _healthy_needed(self, limit: Limit, tally: CensusTally, required: Demand) -> int | None:
        if limit.others_healthy:
            return max(0, tally.everyone - 1)
        if required.small:
            return max(0, tally.members - 1)
        return None if limit.min_healthy is None else required.stay

    def _rate(self, rate: Rate) -> LimitBudget:
        counts = self.control.counts
        used = counts.bucket(self.bound, rate).since(self.now - rate.per)
        tokens = floor(counts.tokens(self.bound, rate, self.now))
        return self._budget(BudgetKind.RATE, used, rate.count, tokens)
