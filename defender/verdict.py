"""May this holder disrupt this node now? The whole decision, pure.

Every limit of every policy that covers the node is asked; one that refuses is enough. The answer
names the refusal that a person must see first: what only a person can lift, then what needs the
fleet to get better, then what time and other holders lift.
"""

from collections.abc import Sequence
from datetime import datetime

from defender.census import CLUSTER, Member, scope_of
from defender.control import RiskControl
from defender.ledger import Held
from defender.limits.case import Case, Refusal, look_again_at
from defender.limits.concurrency import concurrency
from defender.limits.min_healthy import min_healthy
from defender.limits.per_node import per_node
from defender.limits.rate import rate
from defender.limits.stops import excluded, paused
from defender.policies import BUILT_IN, Policy, covering
from kubenode.api.v1alpha1 import Ask, Disruption, Reason, Verdict
from kubenode.api.v1alpha1.permit import PermitState

ORDER = (
    Reason.UNKNOWN,
    Reason.NODE_BUSY,
    Reason.EXCLUDED,
    Reason.POLICY_INVALID,
    Reason.PAUSED,
    Reason.BREAKER_OPEN,
    Reason.COMMON_CAUSE,
    Reason.WINDOW_CLOSED,
    Reason.PER_NODE,
    Reason.DISPLACED_PODS,
    Reason.MIN_HEALTHY,
    Reason.CONCURRENCY_LIMIT,
    Reason.RATE_LIMIT,
)


def judge(ask: Ask, control: RiskControl, now: datetime) -> Verdict:
    """Allowed with `permit` named: the holder has it already. Allowed without: take it now."""
    member = control.census.member(ask.node)
    if member is None:
        return _unknown(ask, control, now, f"node {ask.node}: no such node is known")
    if ask.class_ is Disruption.NONE:
        return _unknown(ask, control, now, "class None disrupts nothing and needs no permit")
    mine = control.ledger.open_of(ask.holder, ask.node)
    if mine is not None and stands_for(mine, ask):
        return granted(mine)
    if busy := _busy(ask, control, now):
        return refused(busy)
    refusals: list[Refusal] = []
    cases: list[Case] = []
    for policy in covering(control.policies, member.labels, ask.operation, control.fallback):
        if policy.spec is None or policy.problem_for(ask.operation):
            refusals.append(_invalid(policy, ask, control, now))
            continue
        case = Case(ask, member, policy, policy.spec, control, now, mine)
        cases.append(case)
        refusals += _refusals(case)
    if not refusals:
        refusals = [no for case in cases if (no := control.queue.refuse(case))]
    if refusals:
        return refused(min(refusals, key=_place))
    return Verdict(allowed=True, reason=Reason.GRANTED, class_=ask.class_)


def _unknown(ask: Ask, control: RiskControl, now: datetime, message: str) -> Verdict:
    later = look_again_at(now, control.look_again, ask.node)
    return refused(Refusal(Reason.UNKNOWN, message, later))


def stands_for(held: Held, ask: Ask) -> bool:
    """Whether the permit already says what is asked for, and surely so."""
    return (
        held.state in (PermitState.GRANTED, PermitState.OVERDUE)
        and not held.unsure
        and not held.late
        and not held.releasing
        and held.class_.weight >= ask.class_.weight
    )


def _busy(ask: Ask, control: RiskControl, now: datetime) -> Refusal | None:
    """One permit per node: two holders on one node undo each other's work."""
    for held in control.ledger.open_on(ask.node):
        if not held.same_holder(ask.holder):
            who = f"{held.holder.kind} {held.holder.name}"
            return Refusal(
                Reason.NODE_BUSY,
                f"node {ask.node}: {who} holds permit {held.name}",
                look_again_at(now, control.look_again, ask.node),
                f"node={ask.node}",
                1,
                1,
            )
    return None


def _invalid(policy: Policy, ask: Ask, control: RiskControl, now: datetime) -> Refusal:
    message = f"policy {policy.name}: {policy.problem_for(ask.operation)}"
    return Refusal(Reason.POLICY_INVALID, message, look_again_at(now, control.look_again, ask.node))


def _refusals(case: Case) -> list[Refusal]:
    found = [excluded(case), paused(case), case.control.breakers.refuse(case), per_node(case)]
    for limit in case.spec.limits:
        scope = scope_of(limit, case.member.labels, case.member.control_plane)
        if scope is None or case.ask.class_ not in case.classes(limit):
            continue
        found += [ask(case, limit, scope) for ask in (min_healthy, concurrency, rate)]
    return [refusal for refusal in found if refusal is not None]


def _place(refusal: Refusal) -> tuple[int, int, str]:
    """Sorts the telling one first: by reason, then the tightest limit, then the scope's name."""
    return ORDER.index(refusal.reason), refusal.limit or 0, refusal.scope


def refused(refusal: Refusal) -> Verdict:
    return Verdict(
        allowed=False,
        reason=refusal.reason,
        message=refusal.message,
        scope=refusal.scope,
        used=refusal.used,
        limit=refusal.limit,
        look_again_at=refusal.look_again_at,
    )


def granted(held: Held) -> Verdict:
    return Verdict(
        allowed=True,
        reason=Reason.GRANTED,
        permit=held.name,
        class_=held.class_,
        granted_at=held.granted_at,
        expires_at=held.expires_at,
    )


def scopes_of(
    member: Member, ask: Ask, policies: Sequence[Policy], fallback: Policy = BUILT_IN
) -> frozenset[str]:
    """Every scope that a permit for this act counts in."""
    scopes = {CLUSTER}
    for policy in covering(policies, member.labels, ask.operation, fallback):
        for limit in policy.spec.limits if policy.spec is not None else ():
            scope = scope_of(limit, member.labels, member.control_plane)
            if scope is not None:
                scopes.add(scope)
    return frozenset(scopes)
