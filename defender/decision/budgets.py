"""Usage of every limit, for people and metrics and not for verdicts. Pure.

The room does not consider a particular node. A budget with room may still refuse a node that would
be one too many; only `judge` decides that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from defender.decision.control import RiskControl
from defender.decision.coverage import ScopedLimit, about
from defender.decision.limits.demand import demand
from defender.decision.limits.handler import LimitHandler, LimitReading
from defender.decision.limits.table import DISPLAYED
from kubenode.api.v1alpha1 import Disruption
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec


@dataclass(frozen=True, slots=True)
class LimitBudget:
    """One part of one limit in one scope.

    kind: name of the part in the policy.
    used: permits held; for a rate, grants within the last `per`; for minHealthy, nodes that are
        healthy.
    limit: the greatest number of permits; for minHealthy, the least number of healthy nodes.
    room: number of acts that the part still allows now.
    """

    policy: str
    index: int
    scope: str
    kind: str
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
        for budget in _read(control, policy.spec, bound, now)
    ]


def _read(
    control: RiskControl, spec: DefenderPolicySpec, bound: ScopedLimit, now: datetime
) -> Iterator[LimitBudget]:
    limit, tally = bound.limit, control.census.tally(bound.group)
    required = demand(limit.max_concurrent, limit.min_healthy, spec.small_pool.nodes, tally.members)
    reading = LimitReading(control, bound, tally, required, now)
    for handler in DISPLAYED:
        yield from _budget(handler, reading)


def _budget(handler: LimitHandler, reading: LimitReading) -> Iterator[LimitBudget]:
    use, bound = handler.measure(reading), reading.bound
    if use is not None:
        figures = use.used, use.limit, max(0, use.room)
        yield LimitBudget(*bound.key, handler.name, bound.classes, *figures)
