"""For whoever runs jobs whose steps ask for no machine: a simulation that plays them otherwise."""

from typing import NoReturn

from remedy.job.model import Job, JobAct, NodeSeen
from remedy.power.seen import PowerSeen, RequestOutcome

WHY = "no step asks for a machine here"


class NoPower:
    """These parts of remedy.job's World and Effects; nothing is ever asked of a machine."""

    async def power(self, job: Job, node: NodeSeen | None) -> PowerSeen:
        """A drain of a silent node would like to know; nobody knows."""
        return PowerSeen(outcome=RequestOutcome.REFUSED, why=WHY)

    async def replacing(self, job: Job, node: NodeSeen | None) -> NoReturn:
        raise AssertionError(WHY)

    async def rollback(self, job: Job) -> NoReturn:
        raise AssertionError(WHY)

    async def roll_back(self, job: Job) -> NoReturn:
        raise AssertionError(WHY)

    async def switch(self, job: Job, what: JobAct, node: NodeSeen | None) -> NoReturn:
        raise AssertionError(WHY)

    async def fence(self, job: Job) -> None:
        raise AssertionError(WHY)

    async def unfence(self, job: Job) -> None:
        raise AssertionError(WHY)

    async def replace(self, job: Job, node: NodeSeen | None) -> NoReturn:
        raise AssertionError(WHY)
