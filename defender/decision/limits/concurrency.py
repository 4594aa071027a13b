"""maxConcurrent: the number of nodes of a scope that may be disrupted at once."""

from defender.decision.coverage import ScopedLimit
from defender.decision.limits.case import LimitCase, LimitRefusal
from defender.decision.limits.demand import Demand
from kubenode.api.v1alpha1 import Reason


def concurrency(case: LimitCase, bound: ScopedLimit, required: Demand) -> LimitRefusal | None:
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
