"""How a step asks whoever runs the machine for something, at most once where it must be. Pure."""

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import StepBy, StepState
from remedy.job.model import Job, NodeSeen

POWER = frozenset({"powerOff", "powerOn", "powerCycle", "fence"})


def asks_power(job: Job, node: NodeSeen | None) -> bool:
    """Whether the provider's word on the machine is needed now."""
    step, record = job.step, job.record
    if job.close_reason is not None:
        return False
    if job.phase is not JobPhase.RUNNING or step is None or record is None:
        return False
    if record.state is not StepState.RUNNING:
        return False
    if step.reboot is not None:
        return record.by is not StepBy.AGENT
    return step.name in POWER or step.name == "replace"


def asks_replacing(job: Job) -> bool:
    """Whether it is needed who can replace the machine, or how far that is."""
    record = job.record
    return (
        job.close_reason is None
        and job.phase is JobPhase.RUNNING
        and record is not None
        and record.name == "replace"
        and record.state is StepState.RUNNING
    )
