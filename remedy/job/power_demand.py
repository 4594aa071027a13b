"""When the provider's reading of a job's machine is needed. Pure."""

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.ladder import PowerPath
from remedy.job.model import Job, NodeObservation
from remedy.job.power_record import OUTCOME, must_switch_on, switched_off
from remedy.job.steps.provider_request import (
    ON,
    RESET,
    TAKEN,
    fence_failed,
    get_request_word,
    next_path,
)
from remedy.job.steps.table import STEPS

OPEN = (JobPhase.AWAITING_PERMIT, JobPhase.RUNNING, JobPhase.VERIFYING, JobPhase.NEEDS_HUMAN)
"""Phases in which it matters that this job switched the machine off."""


def asks_power(job: Job, node: NodeObservation | None) -> bool:
    """Report whether the provider's reading of the machine is needed now."""
    step, record = job.step, job.running_record
    if job.close_reason is not None:
        return must_switch_on(job)
    if switched_off(job) and job.phase in OPEN:
        return True
    if job.phase is JobPhase.NEEDS_HUMAN:
        return fence_failed(job)
    if job.phase is not JobPhase.RUNNING or step is None or record is None:
        return False
    if step.migrate is not None:
        # A node that is not Ready may be off: then no pod on it has to be waited for.
        return node is not None and node.ready not in ("True", "")
    if step.reboot is None and step.power_cycle is None:
        return STEPS[step.name].reads_power
    if step.reboot is not None and not get_request_word(record):
        return record.asked_at is None and next_path(step, record) is PowerPath.PROVIDER
    # The step then waits for a boot, which the provider's reading cannot prove.
    return not (
        get_request_word(record) in (ON.word, RESET.word) and record.output.get(OUTCOME) == TAKEN
    )
