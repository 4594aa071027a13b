"""Replacement without other systems: no planned events, receivers or objects. For in-memory
programs.
"""

from remedy.handover.observation import Handed, HandedSeen
from remedy.job.model import Job, JobAct, JobActResult, JobObservation, NodeSeen
from remedy.plannedevents.observation import EventSeen
from remedy.power.observation import RequestOutcome

NOBODY = "nobody is there to be asked"


class NobodyOutside:
    """The methods for other systems in the job controller's ports, without any."""

    async def planned(self, job: Job, node: NodeSeen | None) -> tuple[EventSeen, ...]:
        return ()

    async def handed(self, job: Job, node: NodeSeen | None) -> HandedSeen:
        return HandedSeen(Handed.UNKNOWN, why=NOBODY, final=True)

    async def approve_event(self, job: Job, seen: JobObservation) -> JobActResult:
        return JobActResult(JobAct.APPROVE_EVENT, outcome=RequestOutcome.REFUSED, error=NOBODY)

    async def hand_over(self, job: Job, seen: JobObservation) -> JobActResult:
        return JobActResult(JobAct.HAND_OVER, outcome=RequestOutcome.REFUSED, error=NOBODY)

    async def take_back(self, job: Job) -> JobActResult:
        return JobActResult(JobAct.TAKE_BACK)
