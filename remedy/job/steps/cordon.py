"""Step `cordon`: sets unschedulable with our mark. A node that was cordoned before stays cordoned
after; a cordon of the Machine operator is shared. Pure.
"""

from kubenode.api.cordon import holders_in
from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.model import Job, JobAct, JobObservation, NodeObservation
from remedy.job.moves import Move
from remedy.job.records import disrupt, done, failed, late


def cordon(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    timeline = job.status.timeline.model_copy(
        update={"cordoned": job.status.timeline.cordoned or observation.now}
    )
    if node.unschedulable and node.cordoned_by == job.mark:
        return done(job, observation, record, "cordoned", timeline=timeline)
    if node.unschedulable and not holders_in(node.cordoned_by):
        owned = job.status.owned.model_copy(update={"cordon": False})
        why = "was cordoned already, not by us; it stays cordoned afterwards"
        return done(job, observation, record, why, timeline=timeline, owned=owned)
    if late(record, observation):
        return failed(job, observation, step, record, "the node could not be cordoned in time")
    if not job.finalizer:
        return job, JobAct.ADD_FINALIZER
    return disrupt(job, observation, JobAct.CORDON)
