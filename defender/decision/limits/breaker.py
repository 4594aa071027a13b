"""Limits of breakers: an open one refuses, a half-open one lets few acts pass, few slots are
reserved.

Breakers never block recovery, because uncordoning, cancelling, verifying and releasing need no
permit. An inevitable planned event passes, because a refusal would only lose the node without a
drain.
"""

from typing import TYPE_CHECKING

from defender.decision.breaker.step import BreakerTimes, ScopeState, half_opens_at, quota
from defender.decision.ledger import LedgerPermit
from defender.decision.limits.case import LimitCase, LimitRefusal, spread_requeue
from kubenode.api.v1alpha1 import Operation, Reason
from kubenode.api.v1alpha1.defenderpolicy import BreakerState

if TYPE_CHECKING:
    from defender.decision.breaker.control_path import ControlPath
    from defender.decision.breaker.group import BreakerGroup
    from defender.decision.breaker.watch import BreakerWatch

INDEPENDENT = frozenset({"HostEvent", "Provider", "BMC", "Redfish", "probe", "Probe"})
"""Sources of evidence that do not fail together with the reports of nodes."""
RARE = 10
"""A fault class belongs to the storm if at least one of this many faults is of this class."""


def frozen(case: LimitCase, path: "ControlPath", pace: BreakerTimes) -> LimitRefusal | None:
    """Refuse every act during a freeze, whatever its evidence: reports about nodes are unreliable
    then.
    """
    if path.frozen is None:
        return None
    message = f"control path: {path.frozen.why}; frozen until heartbeats are back"
    later = spread_requeue(case.now, pace.soon, case.ask.node)
    return LimitRefusal(Reason.BREAKER_OPEN, message, later, "cluster")


def breaker_open(case: LimitCase, watch: "BreakerWatch") -> LimitRefusal | None:
    """Refuse the act if a breaker of the node's scopes stops it."""
    if case.inevitable:
        return None
    for scope in watch.scopes(case.member.labels):
        state = watch.state(scope)
        if state.state is BreakerState.OPEN and not _reserved(case, watch, scope, state):
            return _refuse_open(case, scope, state, watch.pace)
        if state.state is BreakerState.HALF_OPEN:
            most, used = quota(state, case.spec.breaker.resume, case.now), _used(case, watch, scope)
            if used >= most:
                return _refuse_half_open(case, scope, used, most, watch.pace)
    return None


def _refuse_open(
    case: LimitCase, scope: str, state: ScopeState, pace: BreakerTimes
) -> LimitRefusal:
    opens = half_opens_at(state, case.spec.breaker, case.now, pace)
    # Spread the next requests over the time for which it must be calm.
    later = spread_requeue(opens - pace.calm, pace.calm, case.ask.node)
    message = f"{case.where(scope)}: the breaker is open: {state.why}"
    return LimitRefusal(Reason.BREAKER_OPEN, message, later, scope)


def _refuse_half_open(
    case: LimitCase, scope: str, used: int, most: int, pace: BreakerTimes
) -> LimitRefusal:
    message = f"{case.where(scope)}: the breaker is half open, {used} of {most} permits are held"
    later = spread_requeue(case.now, pace.soon, case.ask.node)
    return LimitRefusal(Reason.BREAKER_OPEN, message, later, scope, used, most)


def _used(case: LimitCase, watch: "BreakerWatch", scope: str) -> int:
    return sum(_counts(case, watch, scope, permit) for permit in case.ledger.open())


def _counts(case: LimitCase, watch: "BreakerWatch", scope: str, permit: LedgerPermit) -> bool:
    return permit is not case.mine and watch.inside(permit.node, scope)


# -- reserved slots -------------------------------------------------------------------------------


def passes_by_reserve(case: LimitCase, watch: "BreakerWatch", scope: str) -> bool:
    """Return whether a reserved slot of an open breaker of this or a narrower scope lets the act
    pass.
    """
    scopes = list(watch.scopes(case.member.labels))
    if scope not in scopes or case.inevitable:
        return False
    return any(
        (state := watch.state(each)).state is BreakerState.OPEN
        and _reserved(case, watch, each, state)
        for each in scopes[scopes.index(scope) :]
    )


def _reserved(case: LimitCase, watch: "BreakerWatch", scope: str, state: ScopeState) -> bool:
    if not independent(case, watch, watch.group(scope)):
        return False
    assert state.since is not None
    used = sum(
        _counts(case, watch, scope, permit)
        and permit.operation is not Operation.EVACUATE
        and permit.granted_at >= state.since
        for permit in case.ledger.open()
    )
    return used < case.spec.breaker.reserved


def independent(case: LimitCase, watch: "BreakerWatch", group: "BreakerGroup") -> bool:
    """Return whether the fault is unrelated to the storm, and confirmed by an independent source.

    A fault that no job has named yet may be of any class, so for a node that is itself not ready it
    is counted as the same class.
    """
    class_ = case.ask.fault_class
    if class_ in ("", "unknown") or INDEPENDENT.isdisjoint(case.ask.evidence):
        return False
    view = watch.view(case.ask.node)
    if view is None:
        return False
    mine = view.fault is not None and view.unhealthy and class_ in view.fault.classes
    others = group.classes[class_] - mine
    if not view.ready:
        others += group.unexplained - (view.unhealthy and not mine)
    return others <= 0 or RARE * (others + 1) < group.unhealthy
