"""minHealthy and othersHealthy: how many nodes of a scope must stay healthy while one is out."""

from defender.limits.case import Case, Refusal
from kubenode.api.share import is_ratio, share_of
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit


def min_healthy(case: Case, limit: Limit, scope: str) -> Refusal | None:
    """Healthy nodes that would stay, against those that must.

    Disrupting a node that is not healthy takes none away; but below the limit nothing more is
    disrupted at all, for then the trouble is larger than a node.
    """
    group = (case.policy.name, scope)
    tally = case.census.tally(group)
    inside = case.census.belongs(case.member.name, group)
    stay = case.healthy_in(group) - (inside and case.healthy_itself)
    need, why = _asked_for(limit, tally.members, small=(small := case.small(limit, group))), STAY
    others = tally.members - (inside and case.member.counted) if small else 0
    if limit.others_healthy:
        others = tally.everyone - inside
    if others > need:
        need, why = others, OTHERS
    if stay >= need:
        return None
    message = f"{case.where(scope)}: " + why.format(need=need, stay=stay)
    return Refusal(Reason.MIN_HEALTHY, message, case.later(), scope, stay, need)


STAY = "{need} must stay healthy, {stay} would"
OTHERS = "all {need} other nodes must be healthy, {stay} are"


def _asked_for(limit: Limit, members: int, *, small: bool) -> int:
    """A percentage rounds down; in a small group it does not apply."""
    share = limit.min_healthy
    if share is None or (small and is_ratio(share)):
        return 0
    return share_of(share, members)
