"""minHealthy and othersHealthy: how many nodes of a scope must stay healthy while one is out."""

from defender.census import Tally
from defender.coverage import Bound
from defender.limits.case import Case, Refusal, is_small
from kubenode.api.share import is_ratio, share_of
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec


def min_healthy(case: Case, bound: Bound, tally: Tally) -> Refusal | None:
    """Healthy nodes that would stay, against those that must.

    Disrupting a node that is not healthy takes none away; but below the limit nothing more is
    disrupted at all, for then the trouble is larger than a node.
    """
    need, others = must_stay(case.spec, bound, tally), others_healthy(case, bound, tally)
    if not need and not others:
        return None
    stay = tally.free - (case.costs if case.costs and case.inside(bound) else 0)
    why = STAY if need >= others else OTHERS
    need = max(need, others)
    if stay >= need or _exempt(case, bound):
        return None
    message = f"{case.where(bound.scope)}: " + why.format(need=need, stay=stay)
    return Refusal(Reason.MIN_HEALTHY, message, case.later(), bound.scope, stay, need)


def others_healthy(case: Case, bound: Bound, tally: Tally) -> int:
    """Other nodes that must all be healthy: in a small group, and where the policy asks for it.

    There the starting ones too: who is not there yet gives a quorum no vote.
    """
    if bound.limit.others_healthy:
        return tally.everyone - case.inside(bound)
    if is_small(case.spec, bound, tally):
        return tally.members - (case.member.counted and case.inside(bound))
    return 0


def _exempt(case: Case, bound: Bound) -> bool:
    """A reserved slot of an open breaker needs no healthy fleet; a quorum it needs all the same."""
    return not bound.limit.others_healthy and case.control.breakers.exempt(case, bound.scope)


STAY = "{need} must stay healthy, {stay} would"
OTHERS = "all {need} other nodes must be healthy, {stay} are"


def must_stay(spec: DefenderPolicySpec, bound: Bound, tally: Tally) -> int:
    """Healthy nodes that minHealthy asks for: a percentage rounds down.

    In a small group a percentage does not apply: there all others must be healthy.
    """
    share = bound.limit.min_healthy
    if share is None or (is_ratio(share) and is_small(spec, bound, tally)):
        return 0
    return share_of(share, tally.members)
