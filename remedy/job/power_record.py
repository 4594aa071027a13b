"""What the records of a job's steps say of the machine's power. Pure."""

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import StepState, StepStatus
from remedy.job.model import Job

ASKED, HEARD, WAS, MACHINE = "asked", "heard", "was", "machine"
"""Keys of a step's output: the word of the wish, what came of it, the machine's power before, and
which machine.
"""
OFF_WORD, ON_WORD = "off", "on"
BACK = "back"
"""Key of the output of the step that switched a machine off: how far its job, which ends, is with
switching it on again. An instant: when that was asked for last; else one of the words below.
"""
INTENT = "asked"
"""Of BACK: it is about to be asked for, for the first time."""
OVER = frozenset({"on", "gone", "called"})
"""Of BACK: the machine runs, there is none any more, or a person was called."""


def switching_record(job: Job) -> StepStatus | None:
    """The record of the step by which this job switched the machine off; None when it did not, or
    has seen it boot since.
    """
    found: StepStatus | None = None
    for record in job.status.steps:
        if record.output.get(ASKED) in (OFF_WORD, ON_WORD):
            off = record.name == "powerOff" or record.state is not StepState.DONE
            found = record if off else None
        elif record.name == "reboot" and record.state is StepState.DONE:
            found = None
    return found


def switched_off(job: Job) -> bool:
    """Whether this job switched the machine off and has not seen it boot since."""
    record = switching_record(job)
    return record is not None and record.output.get(BACK) not in OVER


def replacement_asked(job: Job) -> bool:
    return any(r.name == "replace" and r.asked_at is not None for r in job.status.steps)


def replaced(job: Job) -> bool:
    return any(r.name == "replace" and r.state is StepState.DONE for r in job.status.steps)


def left_off(job: Job) -> bool:
    """Whether the job must not end before the machine runs again, or a person was called.

    A person who leads a job out of NeedsHuman was called already.
    """
    if job.phase.closed or job.phase in (JobPhase.NEEDS_HUMAN, JobPhase.PENDING):
        return False
    return switched_off(job) and not replaced(job)


def machine_of_record(job: Job) -> str:
    """providerID as it was written before a provider was asked, "" if none was: of the step under
    way, or of the last one that asked.
    """
    record = job.record
    if record is not None and record.output.get(MACHINE):
        return record.output[MACHINE]
    noted = [r.output[MACHINE] for r in job.status.steps if r.output.get(MACHINE)]
    return noted[-1] if noted else ""
