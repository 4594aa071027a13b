"""Step `collect`: the agent saves evidence on the host before a repair destroys it. Pure.

A failure is not fatal: by default the next step follows. A host with a silent agent is not waited
for.
"""

from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.model import Job, JobObservation, NodeObservation
from remedy.job.moves import Move
from remedy.job.records import failed
from remedy.job.silence import already
from remedy.job.steps.agent import agent
from remedy.job.steps.handler import StepHandler
from rules.history import DAWN


def collect(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    if job.answer is None and node.agent_silent and already(observation, DAWN):
        why = f"agent {job.spec.agent} is silent: nothing could be collected"
        return failed(job, observation, step, record, why)
    return agent(job, observation, node, step, record)


HANDLERS = {"collect": StepHandler(collect)}
