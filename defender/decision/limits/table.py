"""The handler of each kind of limit. Pure."""

from defender.decision.limits import concurrency, max_per_client, min_healthy, rate
from defender.decision.limits.handler import LimitHandler
from kubenode.api.v1alpha1 import Reason

LIMITS: tuple[LimitHandler, ...] = (
    min_healthy.HANDLER,
    concurrency.HANDLER,
    max_per_client.HANDLER,
    rate.HANDLER,
)
"""Kinds of limits by the importance of their refusals, the most important first."""
DISPLAYED: tuple[LimitHandler, ...] = (
    concurrency.HANDLER,
    max_per_client.HANDLER,
    min_healthy.HANDLER,
    rate.HANDLER,
)
"""Kinds of limits in the order in which people see them."""
BY_REASON: dict[Reason, LimitHandler] = {each.reason: each for each in LIMITS}
BY_NAME: dict[str, LimitHandler] = {each.name: each for each in LIMITS}
