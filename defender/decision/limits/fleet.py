"""Fleet limits: one budget for several clusters.

While the clusters see each other, everything that they hold or have reserved counts. Otherwise
`onUnreachable` decides: Closed grants nothing, LocalShare only what this cluster has reserved. A
rate then grants nothing, because tokens that others took are unknown and rates have no reserve.
"""

from defender.decision.coverage import ScopedLimit
from defender.decision.fleet_view import FleetGroup, key_of
from defender.decision.limits.bucket import tokens_at
from defender.decision.limits.case import LimitCase, LimitRefusal
from kubenode.api.share import is_ratio, share_of
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit

LOCAL_SHARE = "LocalShare"


def fleet(case: LimitCase, bound: ScopedLimit) -> LimitRefusal | None:
    view = case.control.fleet
    group = view.groups.get(bound.limit.group or "") if view is not None else None
    if view is None or group is None:
        return _no(case, bound, "the fleet's store was not asked yet")
    if group.online:
        return _together(case, bound, group)
    if view.alone() and bound.limit.on_unreachable == LOCAL_SHARE:
        return _alone(case, bound, group)
    return _no(case, bound, f"the other clusters cannot be seen: {group.why}")


def at_most(limit: Limit, members: int) -> int | None:
    """Return the permits at once among the members of all clusters, None without such a limit."""
    share = limit.max_concurrent
    if share is None:
        return None
    most = share_of(share, members)
    return max(1, most) if is_ratio(share) and str(share).strip("0%") else most


def _together(case: LimitCase, bound: ScopedLimit, group: FleetGroup) -> LimitRefusal | None:
    return (
        _concurrency(case, bound, group)
        or _healthy(case, bound, group)
        or _rate(case, bound, group)
    )


def _concurrency(case: LimitCase, bound: ScopedLimit, group: FleetGroup) -> LimitRefusal | None:
    most = at_most(bound.limit, group.total)
    if most is None or case.inevitable:
        return None
    operations = frozenset(case.spec.operations)
    mine = _mine(case, bound, group)
    others = group.claimed_by_others(bound.classes, operations)
    if mine < group.known.reserves.get(key_of(bound.classes), 0) and others + mine < most:
        return None  # within our reserve, which all clusters count already
    if waits := group.missing() or group.strangers():
        return _no(case, bound, f"not all clusters have told what they hold: {', '.join(waits)}")
    if others + mine < most:
        return None
    message = (
        f"{case.where(bound.scope)}: {mine} of {most} permits are held here, {others} elsewhere"
    )
    return LimitRefusal(
        Reason.CONCURRENCY_LIMIT,
        f"{message} or reserved",
        case.later(),
        bound.scope,
        others + mine,
        most,
    )


def _mine(case: LimitCase, bound: ScopedLimit, group: FleetGroup) -> int:
    """Return our permits by the ledger or by the fleet's log, whichever are more."""
    logged = group.used(group.me, bound.classes, frozenset(case.spec.operations))
    own = case.mine is not None and (group.me, case.mine.name) in group.shares
    return max(case.used(bound), logged - own)


def _healthy(case: LimitCase, bound: ScopedLimit, group: FleetGroup) -> LimitRefusal | None:
    share = bound.limit.min_healthy
    if share is None:
        return None
    if waits := group.missing():
        return _no(case, bound, f"not all clusters have told of their nodes: {', '.join(waits)}")
    need, stay = share_of(share, group.total_active), group.healthy() - case.costs
    return None if stay >= need else _too_few(case, bound, need, stay)


def _rate(case: LimitCase, bound: ScopedLimit, group: FleetGroup) -> LimitRefusal | None:
    rule = bound.limit.rate
    if rule is None or case.inevitable:
        return None
    if waits := group.missing() or group.doubters():
        return _no(case, bound, f"not all clusters have told their grants: {', '.join(waits)}")
    granted = list(group.granted(bound.classes, frozenset(case.spec.operations)))
    tokens = tokens_at(case.now, granted, rule)
    if tokens >= 1:
        return None
    later = case.now + (1 - tokens) * (rule.per / rule.count)
    used = sum(at > case.now - rule.per for at in granted)
    message = f"{case.where(bound.scope)}: the rate of all clusters is used up"
    return LimitRefusal(Reason.RATE_LIMIT, message, later, bound.scope, used, rule.count)


def _alone(case: LimitCase, bound: ScopedLimit, group: FleetGroup) -> LimitRefusal | None:
    """Decide by our own API server, because the other clusters cannot be reached."""
    if bound.limit.rate is not None and not case.inevitable:
        return _no(case, bound, "a rate of all clusters is closed while they cannot be seen")
    if bound.limit.max_concurrent is not None and not case.inevitable:
        most = group.known.reserves.get(key_of(bound.classes), 0)
        if (used := case.used(bound)) >= most:
            message = (
                f"{case.where(bound.scope)}: {used} of this cluster's share of {most} are held"
            )
            return LimitRefusal(
                Reason.CONCURRENCY_LIMIT, message, case.later(), bound.scope, used, most
            )
    share = bound.limit.min_healthy
    if share is None:
        return None
    tally = case.census.tally(bound.group)
    need, stay = local_need(share, tally.members, group.known.total), tally.free - case.costs
    return None if stay >= need else _too_few(case, bound, need, stay)


def local_need(share: int | str, members: int, total: int) -> int:
    """Return this cluster's part of the nodes that must stay healthy in all clusters, rounded
    up.
    """
    if is_ratio(share):
        return -(-int(str(share)[:-1]) * members // 100)
    return -(-int(share) * members // total) if total >= members else int(share)


def _too_few(case: LimitCase, bound: ScopedLimit, need: int, stay: int) -> LimitRefusal:
    message = f"{case.where(bound.scope)}: {need} must stay healthy, {stay} would"
    return LimitRefusal(Reason.MIN_HEALTHY, message, case.later(), bound.scope, stay, need)


def _no(case: LimitCase, bound: ScopedLimit, why: str) -> LimitRefusal:
    message = f"{case.where(bound.scope)}: {why}"
    return LimitRefusal(Reason.STORE_UNAVAILABLE, message, case.later(), bound.scope)
