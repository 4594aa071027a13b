"""Decide whether a holder may disrupt a node now. Pure.

Every limit of every policy that covers the node is evaluated; one refusal suffices. The verdict
names the most important refusal: first what only a person can lift, then what needs a healthier
fleet, then what time or other holders lift.
"""

from datetime import datetime

from defender.decision.census import NodeHealth
from defender.decision.control import RiskControl
from defender.decision.ledger import JOB, LedgerPermit
from defender.decision.limits.case import LimitCase, LimitRefusal, spread_requeue
from defender.decision.limits.displacement import displaced
from defender.decision.limits.fleet import fleet
from defender.decision.limits.foreign import foreign
from defender.decision.limits.per_node import per_node
from defender.decision.limits.stops import excluded, paused
from defender.decision.limits.table import LIMITS
from defender.decision.limits.windows import window_closed
from defender.decision.policies import LoadedPolicy
from kubenode.api.v1alpha1 import Ask, Disruption, Reason, Verdict
from kubenode.api.v1alpha1.defenderpolicy import LimitScope
from kubenode.api.v1alpha1.permit import PermitState

ORDER = (
    Reason.UNKNOWN,
    Reason.STORE_UNAVAILABLE,
    Reason.STALE_DATA,
    Reason.NODE_BUSY,
    Reason.FOREIGN_OWNER,
    Reason.EXCLUDED,
    Reason.POLICY_INVALID,
    Reason.PAUSED,
    Reason.BREAKER_OPEN,
    Reason.COMMON_CAUSE,
    Reason.WINDOW_CLOSED,
    Reason.PER_NODE,
    Reason.DISPLACED_PODS,
    *(each.reason for each in LIMITS),
)
"""Reasons by importance, the most important first."""


def judge(ask: Ask, control: RiskControl, now: datetime) -> Verdict:
    """Return the verdict. Allowed with a `permit`: the holder has it already. Without: take
    it now.
    """
    mine = control.ledger.open_of(ask.holder, ask.node)
    if mine is not None and stands_for(mine, ask) and control.census.member(ask.node) is not None:
        return granted(mine)
    if objections := refusals(ask, control, now):
        return refused(min(objections, key=_place))
    return Verdict(allowed=True, reason=Reason.GRANTED, class_=ask.class_)


def refusals(ask: Ask, control: RiskControl, now: datetime) -> list[LimitRefusal]:
    """Return all reasons against this act now, apart from a permit that the holder has already."""
    member, place = control.census.member(ask.node), control.census.place(ask.node)
    if member is None or place is None:
        return [_unknown(ask, control, now, f"node {ask.node}: no such node is known")]
    if ask.class_ is Disruption.NONE:
        return [_unknown(ask, control, now, "class None disrupts nothing and needs no permit")]
    control.counts.catch_up()
    mine = control.ledger.open_of(ask.holder, ask.node) or _predecessor(ask, control)
    objections = [no for no in (_busy(ask, control, now), foreign(ask, member, control, now)) if no]
    healthy = member.health is NodeHealth.HEALTHY and not control.census.is_taken(member.name)
    costs, cases = int(healthy), list[LimitCase]()
    for ruling in place.ruling(ask.operation):
        policy = ruling.policy
        if ruling.spec is None or policy.problem:
            objections.append(_invalid(policy, ask, control, now))
            continue
        case = LimitCase(ask, member, policy, ruling.spec, control, now, mine, ruling, costs)
        cases.append(case)
        objections += _refusals(case)
    return objections or [no for case in cases if (no := control.queue.refuse(case))]


def _unknown(ask: Ask, control: RiskControl, now: datetime, message: str) -> LimitRefusal:
    later = spread_requeue(now, control.requeue_after, ask.node)
    return LimitRefusal(Reason.UNKNOWN, message, later)


def stands_for(permit: LedgerPermit, ask: Ask) -> bool:
    """Return whether the permit is certain to cover the request."""
    return (
        permit.state in (PermitState.GRANTED, PermitState.OVERDUE)
        and not permit.unsure
        and not permit.late
        and not permit.releasing
        and not permit.unreadable
        and permit.class_.weight >= ask.class_.weight
    )


def _predecessor(ask: Ask, control: RiskControl) -> LedgerPermit | None:
    """Return the permit of the job that the holder supersedes, None for none.

    It is released once the holder has its own, so the two count as one disruption.
    """
    return next(
        (
            permit
            for permit in control.ledger.open_on(ask.node)
            if ask.successor_of
            and (permit.holder.kind, permit.holder.name) == (JOB, ask.successor_of)
        ),
        None,
    )


def _busy(ask: Ask, control: RiskControl, now: datetime) -> LimitRefusal | None:
    """Return a refusal if another holder has the node. Two holders would undo each other's work."""
    for permit in control.ledger.open_on(ask.node):
        if permit.unreadable:
            return LimitRefusal(
                Reason.NODE_BUSY,
                f"node {ask.node}: permit {permit.name} cannot be read ({permit.unreadable}):"
                " repair it, or delete it when nothing acts on the node",
                spread_requeue(now, control.requeue_after, ask.node),
                f"node={ask.node}",
                1,
                1,
            )
        if not permit.same_holder(ask.holder) and permit is not _predecessor(ask, control):
            who = f"{permit.holder.kind} {permit.holder.name}"
            return LimitRefusal(
                Reason.NODE_BUSY,
                f"node {ask.node}: {who} holds permit {permit.name}",
                spread_requeue(now, control.requeue_after, ask.node),
                f"node={ask.node}",
                1,
                1,
            )
    return None


def _invalid(policy: LoadedPolicy, ask: Ask, control: RiskControl, now: datetime) -> LimitRefusal:
    message = f"policy {policy.name}: {policy.problem or 'cannot be read'}"
    return LimitRefusal(
        Reason.POLICY_INVALID, message, spread_requeue(now, control.requeue_after, ask.node)
    )


def _refusals(case: LimitCase) -> list[LimitRefusal]:
    objections = [
        excluded(case),
        paused(case),
        window_closed(case),
        case.control.breakers.refuse(case),
        per_node(case),
        displaced(case),
    ]
    for bound in case.bounds:
        if bound.limit.scope is LimitScope.FLEET:
            objections.append(fleet(case, bound))
            continue
        tally = case.census.tally(bound.group)
        required = case.compute_demand(bound, tally)
        objections += [each.refuse(case, bound, tally, required) for each in LIMITS]
    return [refusal for refusal in objections if refusal is not None]


def _place(refusal: LimitRefusal) -> tuple[int, int, str]:
    """Return the sort key of a refusal: its reason, then the tightest limit, then the scope's
    name.
    """
    return ORDER.index(refusal.reason), refusal.limit or 0, refusal.scope


def refused(refusal: LimitRefusal) -> Verdict:
    return Verdict(
        allowed=False,
        reason=refusal.reason,
        message=refusal.message,
        scope=refusal.scope,
        used=refusal.used,
        limit=refusal.limit,
        look_again_at=refusal.requeue_at,
    )


def granted(permit: LedgerPermit) -> Verdict:
    return Verdict(
        allowed=True,
        reason=Reason.GRANTED,
        permit=permit.name,
        class_=permit.class_,
        granted_at=permit.granted_at,
        expires_at=permit.expires_at,
    )
