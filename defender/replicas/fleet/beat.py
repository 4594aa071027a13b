"""Compute what a cluster reports to the others at each beat, from its own risk control. Pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from defender.decision.census import NodeHealth
from defender.decision.control import RiskControl
from defender.decision.coverage import ScopedLimit, classes_of, fleet_scope
from defender.decision.fleet_view import ClusterRow, FleetGroup, Share, StoredFleet, key_of
from defender.decision.ledger import LedgerPermit
from defender.decision.limits.bucket import horizon
from defender.decision.limits.fleet import LOCAL_SHARE, at_most
from kubenode.api.v1alpha1 import Disruption
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec, Limit, LimitScope


def fleet_limits(control: RiskControl) -> Iterator[tuple[str, DefenderPolicySpec, Limit]]:
    """Yield each Fleet limit with its policy and the policy's name."""
    for policy in control.policies:
        for limit in policy.spec.limits if policy.spec is not None else ():
            if limit.scope is LimitScope.FLEET:
                assert policy.spec is not None
                yield policy.name, policy.spec, limit


def groups_of(control: RiskControl) -> set[str]:
    """Return the names of the groups that policies use."""
    return {limit.group or "" for _, _, limit in fleet_limits(control)}


def fleet_bounds(control: RiskControl, node: str) -> list[ScopedLimit]:
    """Return the Fleet limits that apply to the node, for any act."""
    place = control.census.place(node)
    rulings = place.rulings if place is not None else ()
    return [
        bound
        for ruling in rulings
        for bound in ruling.bounds
        if bound.limit.scope is LimitScope.FLEET
    ]


def in_group(control: RiskControl, permit: LedgerPermit, group: str) -> bool:
    """Return whether the permit counts in the group, by where it was granted or by its node now."""
    scope = f"fleet({group})"
    if permit.scopes is None or any(each.rpartition(":")[2] == scope for each in permit.scopes):
        return True
    return any(bound.scope == scope for bound in fleet_bounds(control, permit.node))


def share_of_permit(control: RiskControl, permit: LedgerPermit) -> Share:
    """Return the share for a permit. It takes a healthy node away, unless the node is not healthy
    or is gone.
    """
    member = control.census.member(permit.node)
    every = bool(permit.unreadable)
    classes = frozenset(Disruption) if every else frozenset({permit.class_}) | permit.also
    healthy = permit.open and member is not None and member.health is NodeHealth.HEALTHY
    return Share(classes, permit.operation, tuple(permit.grants), permit.open, healthy, every)


def shares(control: RiskControl, group: str, now: datetime) -> dict[str, Share]:
    """Return the shares of permits that are open, or whose grants a rate of the group counts."""
    since = now - remembered(control, group)
    return {
        permit.name: share_of_permit(control, permit)
        for permit in control.ledger
        if (permit.open or permit.grants[-1][1] > since) and in_group(control, permit, group)
    }


def remembered(control: RiskControl, group: str) -> timedelta:
    """Return how long grants count in rates of the group."""
    spans = [
        horizon(limit.rate)
        for _, _, limit in fleet_limits(control)
        if limit.rate is not None and limit.group == group
    ]
    return max(spans, default=timedelta(0))


def row(control: RiskControl, group: str, known: StoredFleet, mine: dict[str, Share]) -> ClusterRow:
    """Return this cluster's row.

    If several policies use the group, the one with most nodes is used, so that each node counts
    once.

    mine: the shares of this cluster.
    """
    control.counts.catch_up()
    tallies = [
        control.census.tally((policy, fleet_scope(limit)))
        for policy, _, limit in fleet_limits(control)
        if limit.group == group
    ]
    widest = max(tallies, key=lambda tally: tally.members, default=None)
    return ClusterRow(
        widest.members if widest else 0,
        max(0, widest.free) if widest else 0,
        dict(known.reserves),
        known.roster,
        frozenset(name for name, share in mine.items() if share.open),
        silent=frozenset(known.silent),
    )


def wanted_reserves(
    control: RiskControl, group: FleetGroup, name: str, members: int
) -> dict[str, int]:
    """Return this cluster's part of each limit, which it reserves as far as it is free."""
    if group.missing() or group.strangers():
        return dict(group.known.reserves)
    others = sum(each.members for of, each in group.rows.items() if of != group.me)
    others += sum(last.row.members for last in group.last_claims().values())
    total, wanted = members + others, dict[str, int]()
    for _, spec, limit in fleet_limits(control):
        most = at_most(limit, total)
        if limit.group != name or limit.on_unreachable != LOCAL_SHARE or most is None:
            continue
        classes = classes_of(limit)
        free = most - group.claimed_by_others(classes, frozenset(spec.operations))
        part = max(0, min(most * members // total if total else 0, free))
        wanted[key_of(classes)] = min(wanted.get(key_of(classes), part), part)
    return wanted
