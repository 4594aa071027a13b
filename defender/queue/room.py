"""How many more acts like this one each limit has room for."""

from collections.abc import Iterator
from dataclasses import dataclass

from defender.limits.case import LimitCase
from kubenode.api.v1alpha1 import Ask, Disruption, Reason
from kubenode.api.v1alpha1.defenderpolicy import LimitScope


@dataclass(frozen=True, slots=True)
class ScopeCapacity:
    """`left` acts of `classes` may still be allowed in a scope, of `limit`."""

    reason: Reason
    scope: str
    classes: frozenset[Disruption]
    left: int
    limit: int


def rooms(case: LimitCase) -> Iterator[ScopeCapacity]:
    """What bounds this act in number; nothing for one that is exempt. A fleet's slots are free or
    taken in other clusters too: none is kept here.
    """
    for bound in () if case.inevitable else case.bounds:
        if bound.limit.scope is LimitScope.FLEET:
            continue
        most = case.asked(bound, case.census.tally(bound.group)).most
        if most is not None:
            left = most - case.used(bound)
            yield ScopeCapacity(Reason.CONCURRENCY_LIMIT, bound.scope, bound.classes, left, most)
        rate = bound.limit.rate
        if rate is not None:
            left = int(case.tokens(bound, rate))
            yield ScopeCapacity(Reason.RATE_LIMIT, bound.scope, bound.classes, left, rate.count)


def takes(other: Ask, case: LimitCase, room: ScopeCapacity) -> bool:
    """Whether another's act would take of the same room."""
    return (
        other.class_ in room.classes
        and other.operation in case.spec.operations
        and not other.inevitable
        and case.census.belongs(other.node, (case.policy.name, room.scope))
    )
