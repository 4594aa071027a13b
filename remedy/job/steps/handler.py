"""Describes how one kind of step is handled. Pure.

Each module of this folder declares its kinds in HANDLERS. Reads and acts outside are carried out by
the objects in `remedy.job.stepaccess.StepAccess`, so that a decision never does I/O.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.model import Job, JobObservation, NodeObservation, StepAct
from remedy.job.moves import Move

StepDecision = Callable[[Job, JobObservation, NodeObservation, Step, StepStatus], Move]
"""Decides how a running step proceeds: (job, observation, node, step, its record) -> Move."""


@dataclass(frozen=True, slots=True)
class StepHandler:
    """Handles one kind of step.

    decide: how the running step proceeds
    acts: acts that only this kind and its undoing have; None: it has none of its own
    polled: whether it shows progress only at a provider, or in another system's object, which send
        no event
    reads_power: whether it needs the provider's reading of the machine all the time
    """

    decide: StepDecision
    acts: type[StepAct] | None = None
    polled: bool = False
    reads_power: bool = False
