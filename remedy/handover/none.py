"""Replacement without other systems: no planned events, receivers or objects. For in-memory
programs.
"""

from remedy.handover.observation import Handed, HandoverObservation
from remedy.job.model import Job, JobAct, JobActResult, JobObservation, NodeObservation
from remedy.plannedevents.observation import EventObservation
from remedy.power.observation import RequestOutcome

NOBODY = "nobody is there to be asked"


class NobodyOutside:
    """The methods for other systems in the job controller's ports, without any."""

    async def planned(self, job: Job, node: NodeObservation | None) -> tuple[EventObservation, ...]:
        return ()

    async def handed(self, job: Job, node: NodeObservation | None) -> HandoverObservation:
        return HandoverObservation(Handed.UNKNOWN, why=NOBODY, final=True)

    async def approve_event(self, job: Job, observation: JobObservation) -> JobActResult:
        return JobActResult(JobAct.APPROVE_EVENT, outcome=RequestOutcome.REFUSED, error=NOBODY)

    async def start_handover(self, job: Job, observation: JobObservation) -> JobActResult:
        return JobActResult(JobAct.START_HANDOVER, outcome=RequestOutcome.REFUSED, error=NOBODY)

    async def take_back(self, job: Job) -> JobActResult:
        return JobActResult(JobAct.TAKE_BACK)
