"""maxPerClient: the number of nodes of a scope that one client may disrupt at once."""

from defender.decision.census import CensusTally
from defender.decision.clients import client_of
from defender.decision.coverage import ScopedLimit
from defender.decision.limits.case import LimitCase, LimitRefusal
from defender.decision.limits.demand import Demand
from defender.decision.limits.handler import LimitHandler, LimitReading, LimitTexts, LimitUse
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit


def max_per_client(
    case: LimitCase, bound: ScopedLimit, tally: CensusTally, required: Demand
) -> LimitRefusal | None:
    """Compare the permits of the client that asks with those that it may hold at once."""
    limit, client = bound.limit.max_per_client, client_of(case.ask.holder)
    if limit is None or client is None or case.inevitable:
        return None
    used = case.control.counts.used_by(client, bound, case.mine)
    if used < limit:
        return None
    message = f"{case.where(bound.scope)}: {client or 'a client'} holds {used} of {limit} permits"
    return LimitRefusal(Reason.CLIENT_LIMIT, message, case.later(), bound.scope, used, limit)


def _measure(reading: LimitReading) -> LimitUse | None:
    """Measure the client that holds the most permits."""
    limit = reading.bound.limit.max_per_client
    if limit is None:
        return None
    used = reading.control.counts.greatest_use_by_client(reading.bound)
    return LimitUse(used, limit, limit - used)


def _terms(limit: Limit) -> list[str]:
    return [] if limit.max_per_client is None else [f"maxPerClient {limit.max_per_client}"]


HANDLER = LimitHandler(
    "maxPerClient",
    Reason.CLIENT_LIMIT,
    max_per_client,
    _measure,
    _terms,
    LimitTexts(
        hold="The client holds as many permits as the limit allows for one client.",
        remedy="the client must give back a permit of {scope}",
        heading="Permits of one client",
        figure="of {limit}",
    ),
)
