"""Step `notify`: notifies people. It is done once the notification was taken. Pure."""

from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.model import Job, JobObservation, NodeObservation, StepAct
from remedy.job.moves import Move
from remedy.job.steps.handler import StepHandler
from remedy.job.steps.single_act import act_until


class NotifyAct(StepAct):
    NOTIFY = "Notify"


def notify(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    result = observation.act_result
    taken = result is not None and result.act is NotifyAct.NOTIFY and not result.error
    return act_until(job, observation, step, record, NotifyAct.NOTIFY, shown=taken)


HANDLERS = {"notify": StepHandler(notify, NotifyAct)}
