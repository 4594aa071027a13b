"""maxConcurrent: the number of nodes of a scope that may be disrupted at once."""

from defender.decision.census import CensusTally
from defender.decision.coverage import ScopedLimit
from defender.decision.limits.case import LimitCase, LimitRefusal
from defender.decision.limits.demand import Demand
from defender.decision.limits.handler import LimitHandler, LimitReading, LimitTexts, LimitUse
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit


def concurrency(
    case: LimitCase, bound: ScopedLimit, tally: CensusTally, required: Demand
) -> LimitRefusal | None:
    most = required.most
    if most is None or case.inevitable:
        return None
    used = case.used(bound)
    if used < most:
        return None
    return LimitRefusal(
        Reason.CONCURRENCY_LIMIT,
        f"{case.where(bound.scope)}: {used} of {most} permits are held",
        case.later(),
        bound.scope,
        used,
        most,
    )


def _measure(reading: LimitReading) -> LimitUse | None:
    most = reading.required.most
    if most is None:
        return None
    used = reading.control.counts.used(reading.bound)
    return LimitUse(used, most, most - used)


def _terms(limit: Limit) -> list[str]:
    return [] if limit.max_concurrent is None else [f"maxConcurrent {limit.max_concurrent}"]


HANDLER = LimitHandler(
    "maxConcurrent",
    Reason.CONCURRENCY_LIMIT,
    concurrency,
    _measure,
    _terms,
    LimitTexts(
        hold="As many permits as the limit allows are held in its scope.",
        remedy="a permit of {scope} must come back",
        heading="Permits held",
        figure="of {limit}",
    ),
)
