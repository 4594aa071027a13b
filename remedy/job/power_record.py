"""Reads from the records of a job's steps what the job did to the machine's power. Pure."""

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import StepState, StepStatus
from remedy.job.model import Job, StepAct


class PowerAct(StepAct):
    """Acts of the power steps. POWER_ON also undoes POWER_OFF when the job ends."""

    POWER_OFF = "PowerOff"
    POWER_ON = "PowerOn"
    RESET = "Reset"

    @property
    def asks_provider(self) -> bool:
        return True


class FenceAct(StepAct):
    """Acts of step `fence`. UNFENCE also undoes it before the machine runs again."""

    FENCE = "Fence"
    UNFENCE = "Unfence"


REQUEST, OUTCOME, WAS, MACHINE = "asked", "heard", "was", "machine"
"""Keys of a step's output: what was requested, the outcome, the machine's power before, and its
providerID.
"""
OFF_WORD, ON_WORD = "off", "on"
BACK = "back"
"""Key in the output of the step that switched a machine off: progress of switching it on again
before its job ends. The value is the time of the last request in RFC 3339, or INTENT or a value of
OVER.
"""
INTENT = "asked"
"""Value of BACK: the first request is about to be sent."""
BACK_FINAL = frozenset({"on", "gone", "called"})
"""Values of BACK that end it: the machine runs, it no longer exists, or a person was called."""


def switching_record(job: Job) -> StepStatus | None:
    """Return the record of the step by which this job switched the machine off; None if it did not,
    or has observed a boot since.
    """
    switching: StepStatus | None = None
    for record in job.status.steps:
        if record.output.get(REQUEST) in (OFF_WORD, ON_WORD):
            off = record.name == "powerOff" or record.state is not StepState.DONE
            switching = record if off else None
        elif record.name == "reboot" and record.state is StepState.DONE:
            switching = None
    return switching


def switched_off(job: Job) -> bool:
    """Report whether this job switched the machine off and has not observed that it runs again."""
    record = switching_record(job)
    return record is not None and record.output.get(BACK) not in BACK_FINAL


def is_replacement_requested(job: Job) -> bool:
    """Report whether this job requested a replacement of the machine."""
    return any(r.name == "replace" and r.asked_at is not None for r in job.status.steps)


def replaced(job: Job) -> bool:
    """Report whether this job replaced the machine."""
    return any(r.name == "replace" and r.state is StepState.DONE for r in job.status.steps)


def must_switch_on(job: Job) -> bool:
    """Report whether the job must not end before the machine runs again or a person was called.

    In NeedsHuman, and in Pending after a person's decision there, a person was called already.
    """
    if job.phase.closed or job.phase in (JobPhase.NEEDS_HUMAN, JobPhase.PENDING):
        return False
    return switched_off(job) and not replaced(job)


def machine_of_record(job: Job) -> str:
    """Return the providerID recorded before a request to a provider: of the current step, or of the
    last one with such a record; "" if there is none.
    """
    record = job.record
    if record is not None and record.output.get(MACHINE):
        return record.output[MACHINE]
    noted = [r.output[MACHINE] for r in job.status.steps if r.output.get(MACHINE)]
    return noted[-1] if noted else ""
