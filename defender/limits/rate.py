"""rate: how many permits in a time, as a token bucket that is replayed from the record.

Nothing but the grants on record is needed, so a restart changes no answer. The replay starts with
an empty bucket one filling and one `per` ago and never goes below zero; both make it hold at most
what the true bucket holds, so it errs on the side of no.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from defender.limits.case import Case, Refusal
from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit, Rate


def rate(case: Case, limit: Limit, scope: str) -> Refusal | None:
    if limit.rate is None or case.inevitable:
        return None
    group, classes = (case.policy.name, scope), case.classes(limit)
    granted = [
        at
        for at, class_ in case.granted_in(group, case.now - horizon(limit.rate))
        if class_ in classes
    ]
    tokens = tokens_at(case.now, granted, limit.rate)
    if tokens >= 1:
        return None
    per = limit.rate.per
    wait = (1 - tokens) * (per / limit.rate.count)
    used = sum(at > case.now - per for at in granted)
    message = (
        f"{case.where(scope)}: the rate of {limit.rate.count} permits per {format_duration(per)},"
        f" {limit.rate.burst} at once, is used up"
    )
    later = case.now + wait
    return Refusal(Reason.RATE_LIMIT, message, later, scope, used, limit.rate.count)


def horizon(rate: Rate) -> timedelta:
    """How far back grants matter: one `per`, and the time in which the bucket fills."""
    return rate.per + rate.per * (rate.burst / rate.count)


def tokens_at(now: datetime, granted: Iterable[datetime], rate: Rate) -> float:
    """Tokens left at `now` after taking one at each instant of `granted`, oldest first.

    Instants after `now` (a clock that was set back) count as now.
    """
    per_second = rate.count / rate.per.total_seconds()
    tokens, at = 0.0, now - horizon(rate)
    for taken in (*granted, None):
        then = now if taken is None or taken > now else taken
        tokens = min(rate.burst, tokens + (then - at).total_seconds() * per_second)
        at = then
        if taken is not None:
            tokens = max(0.0, tokens - 1)
    # A token that refills exactly now must not be lost to the last bit of a float.
    return tokens + 1e-6
