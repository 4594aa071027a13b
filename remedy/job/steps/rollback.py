"""Step `rollbackComponent`: returns a component of the machine to its previous revision. Pure.

The Machine operator does it, under the permit of this job. Done when the agent reports that the
host has the revision and is healthy with it.
"""

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.model import Job, JobObservation, NodeObservation, StepAct
from remedy.job.moves import Move, wait
from remedy.job.records import begun, done, failed
from remedy.job.steps.handler import StepHandler
from remedy.job.steps.provider_request import (
    ProviderRequest,
    away,
    free_to_ask,
    get_request_word,
    go_on,
    has_step_ended,
    never_shown,
    waits_for_provider,
    write,
)
from remedy.rollback.observation import Back, RollbackObservation


class RollbackAct(StepAct):
    ROLL_BACK = "RollBack"


ROLL_BACK = ProviderRequest("rollback", RollbackAct.ROLL_BACK, state=False)
FROM, TO, OF = "from", "to", "of"
"""Keys of the step's output: the revisions, and the Machine."""


def rollback_component(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Request the rollback and wait for it."""
    read = observation.step
    far = read if isinstance(read, RollbackObservation) else RollbackObservation(Back.UNKNOWN)

    def no(why: str) -> Move:
        return failed(job, observation, step, record, why)

    if far.state is Back.DONE and get_request_word(record):
        return done(job, observation, record, f"back at revision {far.to}: {far.why}")
    if far.state is Back.FAILED:
        return no(far.why)
    if has_step_ended(step, record, observation):
        within = format_duration(step.body.timeout)
        why = f"not back within {within}: {far.why or 'nobody could be asked'}"
        return never_shown(job, observation, step, record, why)
    if get_request_word(record):
        return go_on(job, observation, record, ROLL_BACK, no, repeatable=True)
    if far.state is Back.UNKNOWN:
        return (
            wait(job)
            if waits_for_provider(job, observation.now)
            else away(job, observation, record, far.why)
        )
    if (stop := free_to_ask(job, observation, evidence=not begun(job))) is not None:
        return stop
    to = {OF: far.machine, FROM: far.from_, TO: far.to}
    return write(job, observation, node, step, record, ROLL_BACK, **to)


HANDLERS = {"rollbackComponent": StepHandler(rollback_component, RollbackAct, polled=True)}
