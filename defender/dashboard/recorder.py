"""Recording of what no object stores, for the plots."""

from defender.decision.budgets import budgets
from defender.overview.usage import UsageHistory
from defender.service import Defender
from kubenode.runtime.clock import Clock

RECORD_SECONDS, RETRY_SECONDS = 15.0, 1.0


class UsageRecorder:
    """A part that records the use of budgets while this replica knows the permits."""

    name = "usage of dashboard"

    def __init__(self, defender: Defender, usage: UsageHistory, clock: Clock) -> None:
        self._defender, self._usage, self._clock = defender, usage, clock

    async def run(self) -> None:
        while True:
            await self._clock.sleep(RECORD_SECONDS if self.record() else RETRY_SECONDS)

    def record(self) -> bool:
        """Record the present use. Return False if this replica cannot answer requests: it does
        not know the use then.
        """
        if self._defender.ready():
            return False
        now = self._clock.now()
        self._usage.record(now, budgets(self._defender.control, now))
        return True
