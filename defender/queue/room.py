"""How many more acts like this one each limit has room for."""

from collections.abc import Iterator
from dataclasses import dataclass

from defender.census import scope_of
from defender.limits.case import Case
from defender.limits.concurrency import at_most
from defender.limits.rate import horizon, tokens_at
from kubenode.api.v1alpha1 import Ask, Disruption, Reason


@dataclass(frozen=True, slots=True)
class Room:
    """`left` acts of `classes` may still be allowed in a scope, of `limit`."""

    reason: Reason
    scope: str
    classes: frozenset[Disruption]
    left: int
    limit: int


def rooms(case: Case) -> Iterator[Room]:
    """What bounds this act in number; nothing for one that is exempt."""
    for limit in () if case.inevitable else case.spec.limits:
        scope = scope_of(limit, case.member.labels, case.member.control_plane)
        classes = case.classes(limit)
        if scope is None or case.ask.class_ not in classes:
            continue
        group = (case.policy.name, scope)
        most = at_most(limit, case.census.tally(group).members, small=case.small(limit, group))
        if most is not None:
            used = sum(
                held.counts_as(classes) and held.operation in case.spec.operations
                for held in case.others_in(group)
            )
            yield Room(Reason.CONCURRENCY_LIMIT, scope, classes, most - used, most)
        if limit.rate is not None:
            since = case.now - horizon(limit.rate)
            granted = [at for at, class_ in case.granted_in(group, since) if class_ in classes]
            tokens = int(tokens_at(case.now, granted, limit.rate))
            yield Room(Reason.RATE_LIMIT, scope, classes, tokens, limit.rate.count)


def takes(other: Ask, case: Case, room: Room) -> bool:
    """Whether another's act would take of the same room."""
    return (
        other.class_ in room.classes
        and other.operation in case.spec.operations
        and not other.inevitable
        and case.census.belongs(other.node, (case.policy.name, room.scope))
    )
