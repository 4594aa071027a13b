"""Step `fence`: sets the out-of-service taint, by which Kubernetes releases pods and volumes of the
node. Pure.

Only for a machine that its provider reports as off or gone: on a running one, two pods could write
to one volume.
"""

from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.providers.port import PowerState
from remedy.job.model import Job, JobAct, JobObservation, NodeSeen
from remedy.job.moves import Move, wait
from remedy.job.records import disrupt, done, failed, late
from remedy.job.steps.provider_request import proven_dark, unread
from remedy.job.undo import disowned


def fence(job: Job, seen: JobObservation, node: NodeSeen, step: Step, record: StepStatus) -> Move:
    """Set the taint once the machine is proven off; wait until its pods are gone."""

    def no(why: str) -> Move:
        return failed(job, seen, step, record, why)

    ended = late(record, seen)
    if node.out_of_service and node.fenced_by == job.mark:
        return _until_free(job, seen, record, ended)
    if node.out_of_service:
        why = "was fenced already, not by us; it stays fenced afterwards"
        return done(disowned(job, "fenced"), seen, record, why)
    if ended:
        return no("the node could not be fenced in time")
    power = seen.power
    if not proven_dark(job, power):
        if power is None or power.power is None:
            return unread(job, seen, record, no)
        if power.power.state is PowerState.STOPPING:
            return wait(job)
        return no(
            f"not fenced: {power.provider} does not prove that it is off, it says {power.told}"
        )
    if not job.finalizer:
        return job, JobAct.ADD_FINALIZER
    if not job.status.owned.fenced:
        owned = job.status.owned.model_copy(update={"fenced": True})
        return job.having(owned=owned), JobAct.NONE
    return disrupt(job, seen, JobAct.FENCE)


def _until_free(job: Job, seen: JobObservation, record: StepStatus, ended: bool) -> Move:
    """Wait until the pods are gone: the next step may delete the Node, and the taint that releases
    its volumes soon goes with it.
    """
    left = seen.pods.left if seen.pods is not None else 0
    if left and not ended:
        return wait(job)
    told = seen.power.told if seen.power is not None else ""
    rest = f"; {left} pods are still there" if left else ""
    return done(job, seen, record, f"fenced, proven dark: {told}{rest}")
