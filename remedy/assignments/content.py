"""Computes the content of an AgentAssignment, and how soon it must be written. Pure.

If the assignment were always exact, each write of a job would cause one of its assignment. So only
what an agent must know now is written now: a request or a probe that it does not know. Other
changes wait for such a write, or are written together after `LATER`.
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
"""Delay after which an open job without a request is added, and a closed one removed."""
MOST_OLD_PROBES = 16
"""Answered probes that may stay listed until something else is written."""
BY_OTHERS = frozenset({ProbeName.POWER, ProbeName.READY})
"""Probes that the operator answers."""
ADDRESS = "address"
"""Argument of a probe of a witness; without it the operator answers `peers`."""


def wanted(
    jobs: Iterable[RemedyOperationJob],
    probes: Iterable[HostProbe],
    have: AgentAssignmentSpec,
    now: datetime,
) -> AgentAssignmentSpec:
    """Return the assignment for the jobs and probes of one agent, in a stable order.

    An answered request stays listed until there is a newer one or the job is closed.
    """
    named = {job.name: job.request for job in have.jobs}
    opened = [
        AssignedJob(
            name=job.metadata.name, request=_request(job) or named.get(job.metadata.name, "")
        )
        for job in jobs
        if not job.status.phase.closed
    ]
    listed = sorted(opened, key=lambda job: (not job.request, job.name))[:MOST_JOBS]
    questions = sorted(
        probe.metadata.name
        for probe in probes
        if probe.status.answered_at is None and now < probe.spec.expires_at and _for_agent(probe)
    )
    return AgentAssignmentSpec(
        jobs=sorted(listed, key=lambda job: job.name), probes=questions[:MOST_PROBES]
    )


def due(have: AgentAssignmentSpec, want: AgentAssignmentSpec) -> timedelta | None:
    """Return within which time `want` must be written; None: `have` is good enough."""
    named = {job.name: job.request for job in have.jobs}
    requests = {job.name: job.request for job in want.jobs}
    if any(request and named.get(name) != request for name, request in requests.items()):
        return timedelta(0)
    if not set(want.probes) <= set(have.probes):
        return timedelta(0)
    if named.keys() != requests.keys() or len(have.probes) - len(want.probes) > MOST_OLD_PROBES:
        return LATER
    return None


def _request(job: RemedyOperationJob) -> str:
    """Return the last request to the agent that has not ended; "" for none."""
    requests = (
        step.request_id
        for step in reversed(job.status.steps)
        if step.by is StepBy.AGENT and step.state is StepState.RUNNING
    )
    return next(requests, "")


def _for_agent(probe: HostProbe) -> bool:
    if probe.spec.name is ProbeName.PEERS:
        return ADDRESS in probe.spec.args
    return probe.spec.name not in BY_OTHERS
