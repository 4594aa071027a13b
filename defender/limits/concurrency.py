"""maxConcurrent: how many nodes of a scope may be disrupted at once."""

from defender.limits.case import Case, Refusal
from kubenode.api.share import is_ratio, share_of
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit


def concurrency(case: Case, limit: Limit, scope: str) -> Refusal | None:
    group = (case.policy.name, scope)
    most = at_most(limit, case.census.tally(group).members, small=case.small(limit, group))
    if most is None or case.inevitable:
        return None
    classes = case.classes(limit)
    used = sum(
        held.counts_as(classes) and held.operation in case.spec.operations
        for held in case.others_in(group)
    )
    if used < most:
        return None
    return Refusal(
        Reason.CONCURRENCY_LIMIT,
        f"{case.where(scope)}: {used} of {most} permits are held",
        case.later(),
        scope,
        used,
        most,
    )


def at_most(limit: Limit, members: int, *, small: bool) -> int | None:
    """Permits at once among `members` nodes; None for no such limit.

    A percentage rounds down but to no less than 1; only "0%" and 0 mean none at all. In a small
    group shares do not apply: one at a time.
    """
    share = limit.max_concurrent
    if share is None:
        return 1 if small else None
    if is_ratio(share):
        if share == "0%" or share == "00%":
            return 0
        return 1 if small else max(1, share_of(share, members))
    return min(1, share_of(share, members)) if small else share_of(share, members)
