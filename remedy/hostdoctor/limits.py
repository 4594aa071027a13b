"""Limits the rate of deliveries per caller."""

from collections import OrderedDict

from kubenode.runtime.clock import Clock
from kubenode.runtime.rate import TokenBucket
from remedy.hostdoctor.gate import DeliveryCaller

RATE, BURST = 50.0, 500.0
"""Deliveries per second, and burst, of one caller."""
AGENT_RATE, AGENT_BURST = 1.0, 30.0
"""The same for an agent."""
MOST_CALLERS = 16_384
"""Callers that are remembered; the least recent one is forgotten, and then has a full
burst again.
"""


class Rates:
    """Token buckets by caller."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def allow(self, caller: DeliveryCaller) -> bool:
        """Report whether the caller may deliver now."""
        bucket = self._buckets.get(caller.name)
        if bucket is None:
            rate, burst = (AGENT_RATE, AGENT_BURST) if caller.agent else (RATE, BURST)
            bucket = self._buckets[caller.name] = TokenBucket(rate, burst, self._clock)
            if len(self._buckets) > MOST_CALLERS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(caller.name)
        return bucket.allow()
