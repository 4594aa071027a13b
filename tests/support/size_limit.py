"""Bounds how many nodes the rules of an operator fed by hand may match."""

from concurrent.futures import Executor

from support.remedy_hand import Hands

from remedy.registry.sizes import FleetSizeLimit
from remedy.webhook.webhook import CachedFleet


def bounded(hands: Hands, threads: Executor) -> Hands:
    """Give the operator the size limit that `kubenode run` gives it."""
    operator = hands.operator
    operator.rules.size_limit = FleetSizeLimit(CachedFleet(operator), hands.clock, threads)
    return hands
