"""maxConcurrent: how many nodes of a scope may be disrupted at once."""

from defender.census import Tally
from defender.coverage import Bound
from defender.limits.case import Case, Refusal, is_small
from kubenode.api.share import is_ratio, share_of
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec


def concurrency(case: Case, bound: Bound, tally: Tally) -> Refusal | None:
    most = at_most(case.spec, bound, tally)
    if most is None or case.inevitable:
        return None
    used = case.used(bound)
    if used < most:
        return None
    return Refusal(
        Reason.CONCURRENCY_LIMIT,
        f"{case.where(bound.scope)}: {used} of {most} permits are held",
        case.later(),
        bound.scope,
        used,
        most,
    )


def at_most(spec: DefenderPolicySpec, bound: Bound, tally: Tally) -> int | None:
    """Permits at once among the members of a group; None for no such limit.

    A percentage rounds down but to no less than 1; only "0%" and 0 mean none at all. In a small
    group shares do not apply: one at a time.
    """
    share, small = bound.limit.max_concurrent, is_small(spec, bound, tally)
    if share is None:
        return 1 if small else None
    if is_ratio(share):
        if share == "0%" or share == "00%":
            return 0
        return 1 if small else max(1, share_of(share, tally.members))
    return min(1, share_of(share, tally.members)) if small else share_of(share, tally.members)
