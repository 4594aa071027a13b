"""minHealthy and othersHealthy: how many nodes of a scope must stay healthy while one is out."""

from defender.census import CensusTally
from defender.coverage import ScopedLimit
from defender.limits.case import LimitCase, LimitRefusal
from defender.limits.demand import Demand
from kubenode.api.v1alpha1 import Reason


def min_healthy(
    case: LimitCase, bound: ScopedLimit, tally: CensusTally, asked: Demand
) -> LimitRefusal | None:
    """Healthy nodes that would stay, against those that must.

    Disrupting a node that is not healthy takes none away; but below the limit nothing more is
    disrupted at all, for then the trouble is larger than a node.
    """
    others = others_healthy(case, bound, tally, asked)
    need = max(asked.stay, others)
    if not need or tally.free - case.costs >= need:
        return None
    stay = tally.free - (case.costs if case.costs and case.inside(bound) else 0)
    if stay >= need or _exempt(case, bound):
        return None
    why = STAY if asked.stay >= others else OTHERS
    message = f"{case.where(bound.scope)}: " + why.format(need=need, stay=stay)
    return LimitRefusal(Reason.MIN_HEALTHY, message, case.later(), bound.scope, stay, need)


def others_healthy(case: LimitCase, bound: ScopedLimit, tally: CensusTally, asked: Demand) -> int:
    """Other nodes that must all be healthy: in a small group, and where the policy asks for it.

    There the starting ones too: who is not there yet gives a quorum no vote.
    """
    if bound.limit.others_healthy:
        return tally.everyone - case.inside(bound)
    if asked.small:
        return tally.members - (case.member.counted and case.inside(bound))
    return 0


def _exempt(case: LimitCase, bound: ScopedLimit) -> bool:
    """A reserved slot of an open breaker needs no healthy fleet; a quorum it needs all the same."""
    return not bound.limit.others_healthy and case.control.breakers.exempt(case, bound.scope)


STAY = "{need} must stay healthy, {stay} would"
OTHERS = "all {need} other nodes must be healthy, {stay} are"
