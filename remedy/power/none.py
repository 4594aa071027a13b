"""Replacement of machine access for programs without machines, such as the simulation."""

from typing import NoReturn

from remedy.job.model import Job, JobAct, NodeObservation
from remedy.power.observation import PowerObservation, RequestOutcome

WHY = "no step asks for a machine here"


class NoPower:
    """The machine methods of the job controller's ports, without any machine."""

    async def power(self, job: Job, node: NodeObservation | None) -> PowerObservation:
        """Return a refusal: the drain of a silent node may ask."""
        return PowerObservation(outcome=RequestOutcome.REFUSED, why=WHY)

    async def switch(self, job: Job, what: JobAct, node: NodeObservation | None) -> NoReturn:
        raise AssertionError(WHY)

    async def fence(self, job: Job) -> None:
        raise AssertionError(WHY)

    async def unfence(self, job: Job) -> None:
        raise AssertionError(WHY)
