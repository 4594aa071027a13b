"""How much of every limit is used: for people and metrics, not for verdicts. Pure.

A limit binds an act that stands for itself, without the node that asks: so a budget that shows
room may still refuse a node that would be the one too many, and only `judge` answers that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import floor

from defender.control import RiskControl
from defender.coverage import BY_DEFAULT, CLUSTER, CONTROL_PLANE, Group
from defender.ledger import Held
from defender.limits.case import healthy_in
from defender.limits.concurrency import at_most
from defender.limits.rate import horizon, tokens_at
from defender.policies import Policy
from kubenode.api.share import is_ratio, share_of
from kubenode.api.v1alpha1 import Disruption
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec, Limit, LimitScope


class Kind(StrEnum):
    """The part of a limit, named as in the policy."""

    CONCURRENCY = "maxConcurrent"
    HEALTHY = "minHealthy"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class Budget:
    """One part of one limit in one scope.

    used   permits held; grants in the last `per`; for minHealthy nodes that are healthy now
    limit  as many there may be; for minHealthy as many there must be
    room   acts that it still allows now
    """

    policy: str
    index: int
    scope: str
    kind: Kind
    classes: frozenset[Disruption]
    used: int
    limit: int
    room: int

    @property
    def label(self) -> str:
        """The label of a scope that is a label's value, else the scope."""
        return self.scope.partition("=")[0]


def budgets(control: RiskControl, now: datetime) -> list[Budget]:
    """Of every policy; of what rules where there is none only while there is none."""
    rulers = control.policies or (control.fallback,)
    scopes: dict[str, list[str]] = {}
    for policy, scope in sorted(control.census.groups()):
        scopes.setdefault(policy, []).append(scope)
    return [
        budget
        for policy in sorted(rulers, key=lambda policy: policy.name)
        if policy.spec is not None
        for index, limit in enumerate(policy.spec.limits)
        for scope in scopes.get(policy.name, ())
        if _about(limit, scope)
        for budget in _Reading(control, policy, policy.spec, index, limit, scope, now).all()
    ]


def _about(limit: Limit, scope: str) -> bool:
    match limit.scope:
        case LimitScope.CLUSTER:
            return scope == CLUSTER
        case LimitScope.CONTROL_PLANE:
            return scope == CONTROL_PLANE
        case LimitScope.LABEL:
            return scope.partition("=")[0] == limit.label and "=" in scope
        case LimitScope.FLEET:
            return False


@dataclass(frozen=True, slots=True)
class _Reading:
    control: RiskControl
    policy: Policy
    spec: DefenderPolicySpec
    index: int
    limit: Limit
    scope: str
    now: datetime

    @property
    def group(self) -> Group:
        return self.policy.name, self.scope

    @property
    def classes(self) -> frozenset[Disruption]:
        return frozenset(self.limit.classes) if self.limit.classes else BY_DEFAULT

    def all(self) -> Iterator[Budget]:
        members = self.control.census.tally(self.group).members
        shares = (self.limit.max_concurrent, self.limit.min_healthy)
        small = members <= self.spec.small_pool.nodes and any(
            share is not None and is_ratio(share) for share in shares
        )
        most = at_most(self.limit, members, small=small)
        if most is not None:
            used = sum(held.counts_as(self.classes) for held in self._open())
            yield self._budget(Kind.CONCURRENCY, used, most, most - used)
        need = self._healthy_needed(members, small=small)
        if need is not None:
            healthy = self._healthy()
            yield self._budget(Kind.HEALTHY, healthy, need, healthy - need)
        if self.limit.rate is not None:
            yield self._rate()

    def _budget(self, kind: Kind, used: int, limit: int, room: int) -> Budget:
        name = self.policy.name
        return Budget(name, self.index, self.scope, kind, self.classes, used, limit, max(0, room))

    def _healthy_needed(self, members: int, *, small: bool) -> int | None:
        tally = self.control.census.tally(self.group)
        if self.limit.others_healthy:
            return max(0, tally.everyone - 1)
        if small:
            return max(0, members - 1)
        return None if self.limit.min_healthy is None else share_of(self.limit.min_healthy, members)

    def _healthy(self) -> int:
        return healthy_in(self.control.census, self.control.ledger, self.group)

    def _rate(self) -> Budget:
        rate = self.limit.rate
        assert rate is not None
        granted = [
            at
            for at, held, place in self.control.ledger.grants_since(self.now - horizon(rate))
            if self._counts(held) and held.grants[place][0] in self.classes
        ]
        used = sum(at > self.now - rate.per for at in granted)
        return self._budget(Kind.RATE, used, rate.count, floor(tokens_at(self.now, granted, rate)))

    def _open(self) -> Iterator[Held]:
        return (held for held in self.control.ledger.open() if self._counts(held))

    def _counts(self, held: Held) -> bool:
        """As limits count: where the node is now, and where it was when the permit was given."""
        inside = (
            self.control.census.belongs(held.node, self.group)
            or held.scopes is None
            or self.scope in held.scopes
        )
        return inside and held.operation in self.spec.operations
