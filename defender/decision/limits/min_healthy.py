"""minHealthy and othersHealthy: the number of nodes of a scope that must stay healthy."""

from defender.decision.census import CensusTally
from defender.decision.coverage import ScopedLimit
from defender.decision.limits.case import LimitCase, LimitRefusal
from defender.decision.limits.demand import Demand
from defender.decision.limits.handler import LimitHandler, LimitReading, LimitTexts, LimitUse
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit


def min_healthy(
    case: LimitCase, bound: ScopedLimit, tally: CensusTally, required: Demand
) -> LimitRefusal | None:
    """Compare the healthy nodes that would stay with those that must.

    Disrupting an unhealthy node takes none away. Below the limit even that is refused, because the
    problem is larger than one node.
    """
    others = others_healthy(case, bound, tally, required)
    need = max(required.stay, others)
    if not need or tally.free - case.costs >= need:
        return None
    stay = tally.free - (case.costs if case.costs and case.inside(bound) else 0)
    if stay >= need or _exempt(case, bound):
        return None
    why = STAY if required.stay >= others else OTHERS
    message = f"{case.where(bound.scope)}: " + why.format(need=need, stay=stay)
    return LimitRefusal(Reason.MIN_HEALTHY, message, case.later(), bound.scope, stay, need)


def others_healthy(
    case: LimitCase, bound: ScopedLimit, tally: CensusTally, required: Demand
) -> int:
    """Return how many other nodes must be healthy: in a small group, or if the policy demands it.

    With othersHealthy, nodes that start count as well, because they give a quorum no vote yet.
    """
    if bound.limit.others_healthy:
        return tally.everyone - case.inside(bound)
    if required.small:
        return tally.members - (case.member.counted and case.inside(bound))
    return 0


def _exempt(case: LimitCase, bound: ScopedLimit) -> bool:
    """Return whether a reserved slot of an open breaker exempts the act. Never from a quorum."""
    return not bound.limit.others_healthy and case.control.breakers.exempt(case, bound.scope)


STAY = "{need} must stay healthy, {stay} would"
OTHERS = "all {need} other nodes must be healthy, {stay} are"


def _measure(reading: LimitReading) -> LimitUse | None:
    need = _needed(reading.bound.limit, reading.tally, reading.required)
    return None if need is None else LimitUse(reading.tally.free, need, reading.tally.free - need)


def _needed(limit: Limit, tally: CensusTally, required: Demand) -> int | None:
    if limit.others_healthy:
        return max(0, tally.everyone - 1)
    if required.small:
        return max(0, tally.members - 1)
    return None if limit.min_healthy is None else required.stay


def _terms(limit: Limit) -> list[str]:
    least = [] if limit.min_healthy is None else [f"minHealthy {limit.min_healthy}"]
    return [*least, "othersHealthy"] if limit.others_healthy else least


HANDLER = LimitHandler(
    "minHealthy",
    Reason.MIN_HEALTHY,
    min_healthy,
    _measure,
    _terms,
    LimitTexts(
        hold="Too few nodes would stay healthy.",
        remedy="more nodes of {scope} must be healthy",
        heading="Healthy nodes",
        figure="healthy, {limit} must be",
    ),
    least=True,
    freed_by_health=True,
    storm=True,
)
