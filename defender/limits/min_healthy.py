"""minHealthy and othersHealthy: how many nodes of a scope must stay healthy while one is out."""

from defender.census import Tally
from defender.coverage import Bound
from defender.limits.case import Case, Refusal, is_small
from kubenode.api.share import is_ratio, share_of
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec, Limit


def min_healthy(case: Case, bound: Bound) -> Refusal | None:
    """Healthy nodes that would stay, against those that must.

    Disrupting a node that is not healthy takes none away; but below the limit nothing more is
    disrupted at all, for then the trouble is larger than a node.
    """
    limit, tally = bound.limit, case.census.tally(bound.group)
    need, why = must_stay(case.spec, limit, tally), STAY
    small = is_small(case.spec, limit, tally)
    if not (need or small or limit.others_healthy):
        return None
    stay = case.stay(bound)
    inside = case.census.counted_in(case.member, bound.group)
    others = tally.members - (inside and case.member.counted) if small else 0
    if limit.others_healthy:
        others = tally.everyone - inside
    if others > need:
        need, why = others, OTHERS
    if stay >= need or _exempt(case, bound):
        return None
    message = f"{case.where(bound.scope)}: " + why.format(need=need, stay=stay)
    return Refusal(Reason.MIN_HEALTHY, message, case.later(), bound.scope, stay, need)


def _exempt(case: Case, bound: Bound) -> bool:
    """A reserved slot of an open breaker needs no healthy fleet; a quorum it needs all the same."""
    return not bound.limit.others_healthy and case.control.breakers.exempt(case, bound.scope)


STAY = "{need} must stay healthy, {stay} would"
OTHERS = "all {need} other nodes must be healthy, {stay} are"


def must_stay(spec: DefenderPolicySpec, limit: Limit, tally: Tally) -> int:
    """Healthy nodes that minHealthy asks for: a percentage rounds down.

    In a small group a percentage does not apply: there all others must be healthy.
    """
    share = limit.min_healthy
    if share is None or (is_ratio(share) and is_small(spec, limit, tally)):
        return 0
    return share_of(share, tally.members)
