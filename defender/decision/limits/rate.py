"""rate: the number of permits in a time, as a token bucket."""

from datetime import timedelta

from defender.decision.coverage import ScopedLimit
from defender.decision.limits.case import LimitCase, LimitRefusal
from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Reason

SHORTEST_WAIT = timedelta(milliseconds=1)
"""Least time to ask again. The missing part of a token may be too small for the clock, and asking
again at the same instant would never end.
"""


def rate(case: LimitCase, bound: ScopedLimit) -> LimitRefusal | None:
    rule = bound.limit.rate
    if rule is None or case.inevitable:
        return None
    tokens = case.tokens(bound, rule)
    if tokens >= 1:
        return None
    wait = max((1 - tokens) * (rule.per / rule.count), SHORTEST_WAIT)
    used = case.control.counts.bucket(bound, rule).since(case.now - rule.per)
    message = (
        f"{case.where(bound.scope)}: the rate of {rule.count} permits per"
        f" {format_duration(rule.per)}, {rule.burst} at once, is used up"
    )
    return LimitRefusal(Reason.RATE_LIMIT, message, case.now + wait, bound.scope, used, rule.count)
