"""Step `fence`: sets the out-of-service taint, by which Kubernetes releases pods and volumes of the
node. Pure.

Only for a machine that its provider reports as off or gone: on a running one, two pods could write
to one volume.
"""

from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.providers.port import PowerState
from remedy.job.model import Job, JobAct, JobObservation, NodeObservation
from remedy.job.moves import Move, wait
from remedy.job.power_record import FenceAct
from remedy.job.records import disrupt, done, failed, late
from remedy.job.steps.handler import StepHandler
from remedy.job.steps.provider_request import proven_dark, unread
from remedy.job.undo import disowned


def fence(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Set the taint once the machine is proven off; wait until its pods are gone."""

    def no(why: str) -> Move:
        return failed(job, observation, step, record, why)

    ended = late(record, observation)
    if node.out_of_service and node.fenced_by == job.mark:
        return _until_free(job, observation, record, ended)
    if node.out_of_service:
        why = "was fenced already, not by us; it stays fenced afterwards"
        return done(disowned(job, "fenced"), observation, record, why)
    if ended:
        return no("the node could not be fenced in time")
    power = observation.power
    if not proven_dark(job, power):
        if power is None or power.power is None:
            return unread(job, observation, record, no)
        if power.power.state is PowerState.STOPPING:
            return wait(job)
        return no(
            f"not fenced: {power.provider} does not prove that it is off, it says"
            f" {power.description}"
        )
    if not job.finalizer:
        return job, JobAct.ADD_FINALIZER
    if not job.status.owned.fenced:
        owned = job.status.owned.model_copy(update={"fenced": True})
        return job.having(owned=owned), JobAct.NONE
    return disrupt(job, observation, FenceAct.FENCE)


def _until_free(job: Job, observation: JobObservation, record: StepStatus, ended: bool) -> Move:
    """Wait until the pods are gone: the next step may delete the Node, and the taint that releases
    its volumes soon goes with it.
    """
    remaining = observation.pods.remaining if observation.pods is not None else 0
    if remaining and not ended:
        return wait(job)
    reading = observation.power.description if observation.power is not None else ""
    rest = f"; {remaining} pods are still there" if remaining else ""
    return done(job, observation, record, f"fenced, proven dark: {reading}{rest}")


HANDLERS = {"fence": StepHandler(fence, FenceAct, polled=True, reads_power=True)}
