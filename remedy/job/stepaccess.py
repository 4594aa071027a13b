"""Reads and acts that belong to kinds of steps, by kind. I/O, no decisions.

A kind that needs nothing from outside but its Node has no entry. `remedy.operator` fills the tables
for a cluster, tests and replays with their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kubenode.api.v1alpha1 import JobPhase
from remedy.job.model import Job, JobActResult, JobObservation, NodeObservation, StepAct


class StepReader(Protocol):
    async def observe(self, job: Job, node: NodeObservation | None) -> object:
        """Return what the current step must know, in the type that its decision expects."""
        ...


class StepActor(Protocol):
    async def act(self, job: Job, what: StepAct, observation: JobObservation) -> JobActResult:
        """Do one act; it is idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class StepAccess:
    """What kinds of steps read and do.

    readers: by the name of the step, for kinds that read something of their own
    actors: by the kind of act
    """

    readers: Mapping[str, StepReader] = field(default_factory=dict)
    actors: Mapping[type[StepAct], StepActor] = field(default_factory=dict)

    async def observe(self, job: Job, node: NodeObservation | None) -> object | None:
        """Read for the step under way; None: its kind reads nothing, or no step is."""
        record = job.running_record
        is_running = job.phase is JobPhase.RUNNING and job.close_reason is None
        reader = self.readers.get(record.name) if record is not None and is_running else None
        return await reader.observe(job, node) if reader is not None else None

    async def act(self, job: Job, what: StepAct, observation: JobObservation) -> JobActResult:
        """Do the act. Raises LookupError if nothing here can do it."""
        actor = self.actors.get(type(what))
        if actor is None:
            raise LookupError(f"nothing carries out act {what}: add it to StepAccess.actors")
        return await actor.act(job, what, observation)
