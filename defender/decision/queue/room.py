"""Room that each limit has for further acts of one kind."""

from collections.abc import Iterator
from dataclasses import dataclass

from defender.decision.limits.case import LimitCase
from kubenode.api.v1alpha1 import Ask, Disruption, Reason
from kubenode.api.v1alpha1.defenderpolicy import LimitScope


@dataclass(frozen=True, slots=True)
class ScopeCapacity:
    """Of `limit` acts of `classes` in a scope, `remaining` may still be allowed."""

    reason: Reason
    scope: str
    classes: frozenset[Disruption]
    remaining: int
    limit: int


def rooms(case: LimitCase) -> Iterator[ScopeCapacity]:
    """Yield the limits that bound the number of such acts; none for an exempt act.

    Fleet limits are left out, because other clusters take their slots as well.
    """
    for bound in () if case.inevitable else case.bounds:
        if bound.limit.scope is LimitScope.FLEET:
            continue
        most = case.compute_demand(bound, case.census.tally(bound.group)).most
        if most is not None:
            remaining = most - case.used(bound)
            yield ScopeCapacity(
                Reason.CONCURRENCY_LIMIT, bound.scope, bound.classes, remaining, most
            )
        rate = bound.limit.rate
        if rate is not None:
            remaining = int(case.tokens(bound, rate))
            yield ScopeCapacity(
                Reason.RATE_LIMIT, bound.scope, bound.classes, remaining, rate.count
            )


def takes(other: Ask, case: LimitCase, room: ScopeCapacity) -> bool:
    """Return whether another request takes from the same room."""
    return (
        other.class_ in room.classes
        and other.operation in case.spec.operations
        and not other.inevitable
        and case.census.belongs(other.node, (case.policy.name, room.scope))
    )
