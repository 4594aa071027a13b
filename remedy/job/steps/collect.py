"""Step `collect`: the agent saves evidence on the host before a repair destroys it. Pure.

A failure is not fatal: by default the next step follows. A host with a silent agent is not waited
for.
"""

from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.model import Job, JobObservation, NodeSeen
from remedy.job.moves import Move
from remedy.job.records import failed
from remedy.job.silence import already
from remedy.job.steps.agent import agent
from rules.history import DAWN


def collect(job: Job, seen: JobObservation, node: NodeSeen, step: Step, record: StepStatus) -> Move:
    if job.answer is None and node.agent_silent and already(seen, DAWN):
        why = f"agent {job.spec.agent} is silent: nothing could be collected"
        return failed(job, seen, step, record, why)
    return agent(job, seen, node, step, record)
