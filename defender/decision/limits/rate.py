"""rate: the number of permits in a time, as a token bucket."""

from datetime import timedelta
from math import floor

from defender.decision.census import CensusTally
from defender.decision.coverage import ScopedLimit
from defender.decision.limits.case import LimitCase, LimitRefusal
from defender.decision.limits.demand import Demand
from defender.decision.limits.handler import LimitHandler, LimitReading, LimitTexts, LimitUse
from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit

SHORTEST_WAIT = timedelta(milliseconds=1)
"""Least time to ask again. The missing part of a token may be too small for the clock, and asking
again at the same instant would never end.
"""


def rate(
    case: LimitCase, bound: ScopedLimit, tally: CensusTally, required: Demand
) -> LimitRefusal | None:
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


def _measure(reading: LimitReading) -> LimitUse | None:
    rule, counts = reading.bound.limit.rate, reading.control.counts
    if rule is None:
        return None
    used = counts.bucket(reading.bound, rule).since(reading.now - rule.per)
    return LimitUse(used, rule.count, floor(counts.tokens(reading.bound, rule, reading.now)))


def _terms(limit: Limit) -> list[str]:
    rule = limit.rate
    if rule is None:
        return []
    return [f"rate {rule.count} per {format_duration(rule.per)}, burst {rule.burst}"]


HANDLER = LimitHandler(
    "rate",
    Reason.RATE_LIMIT,
    rate,
    _measure,
    _terms,
    LimitTexts(
        hold="The limit's permits per time are used up.",
        remedy="wait: the rate allows the next one later",
        heading="Rate",
        figure="of {limit}, {room} at once now",
    ),
)
