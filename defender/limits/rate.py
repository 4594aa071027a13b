"""rate: how many permits in a time, as a token bucket."""

from datetime import timedelta

from defender.coverage import ScopedLimit
from defender.limits.case import LimitCase, LimitRefusal
from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Reason

SHORTEST_WAIT = timedelta(milliseconds=1)
"""What is missing of a token may be less than the clock can show: asking again now never ends."""


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
