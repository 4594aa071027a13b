"""What an agent's AgentAssignment has to name, and how soon it has to be written: pure.

Each write of a job would be followed by one of its assignment, if the assignment were always exact.
Only what an agent has to know now is written now: a request or a question that it has not seen.
What else has changed waits for such a write, or is written together after `LATER`.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import HostProbe, RemedyOperationJob
from kubenode.api.v1alpha1.agentassignment import (
    MOST_JOBS,
    MOST_PROBES,
    AgentAssignmentSpec,
    AssignedJob,
)
from kubenode.api.v1alpha1.hostprobe import ProbeName
from kubenode.api.v1alpha1.remedyoperationjob import StepBy, StepState

LATER = timedelta(seconds=15)
"""After which an open job without a request is named, and a closed one no more."""
MOST_OLD_PROBES = 16
"""Answered questions that may stay named until something else is written."""
BY_OTHERS = frozenset({ProbeName.POWER, ProbeName.READY})
ADDRESS = "address"
"""Argument of a question to a witness; without it the operator answers `peers`."""


def wanted(
    jobs: Iterable[RemedyOperationJob],
    probes: Iterable[HostProbe],
    have: AgentAssignmentSpec,
    now: datetime,
) -> AgentAssignmentSpec:
    """Of the jobs and questions of one agent; the same order for the same objects.

    A request stays named after it was answered, until there is a newer one or the job is closed.
    """
    named = {job.name: job.request for job in have.jobs}
    opened = [
        AssignedJob(
            name=job.metadata.name, request=_request(job) or named.get(job.metadata.name, "")
        )
        for job in jobs
        if not job.status.phase.closed
    ]
    asked = sorted(opened, key=lambda job: (not job.request, job.name))[:MOST_JOBS]
    questions = sorted(
        probe.metadata.name
        for probe in probes
        if probe.status.answered_at is None and now < probe.spec.expires_at and _for_agent(probe)
    )
    return AgentAssignmentSpec(
        jobs=sorted(asked, key=lambda job: job.name), probes=questions[:MOST_PROBES]
    )


def due(have: AgentAssignmentSpec, want: AgentAssignmentSpec) -> timedelta | None:
    """In which time `want` has to be written; None: `have` will do."""
    named = {job.name: job.request for job in have.jobs}
    asked = {job.name: job.request for job in want.jobs}
    if any(request and named.get(name) != request for name, request in asked.items()):
        return timedelta(0)
    if not set(want.probes) <= set(have.probes):
        return timedelta(0)
    if named.keys() != asked.keys() or len(have.probes) - len(want.probes) > MOST_OLD_PROBES:
        return LATER
    return None


def _request(job: RemedyOperationJob) -> str:
    """What was asked of the agent last and is not known to have ended."""
    asked = (
        step.request_id
        for step in reversed(job.status.steps)
        if step.by is StepBy.AGENT and step.state is StepState.RUNNING
    )
    return next(asked, "")


def _for_agent(probe: HostProbe) -> bool:
    if probe.spec.name is ProbeName.PEERS:
        return ADDRESS in probe.spec.args
    return probe.spec.name not in BY_OTHERS
