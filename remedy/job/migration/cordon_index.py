"""Index of the jobs that may act and have not cordoned their nodes yet. Pure.

While there are such jobs no job evicts: a pod that leaves one node of an incident must not land on
the next. This applies to jobs that hold their permits, and for PATIENCE at most; jobs without a
permit keep their nodes schedulable, as those may recover by themselves.
"""

from datetime import timedelta

from kubenode.api.v1alpha1 import JobPhase, RemedyOperationJob
from kubenode.api.v1alpha1.remedyoperationjob import StepState

CORDONING = "cordoning"
"""Name of the index, and its only value."""
PATIENCE = timedelta(seconds=10)
"""Longest delay of evictions for other jobs' cordons."""


def cordoning(obj: RemedyOperationJob) -> list[str]:
    """Return [CORDONING] for a job that is about to cordon its node, else an empty list."""
    status = obj.status
    if status.phase is not JobPhase.RUNNING or status.rung >= len(obj.spec.ladder):
        return []
    steps = obj.spec.ladder[status.rung].steps
    done = {
        r.index
        for r in status.steps
        if r.rung == status.rung and r.state not in (StepState.WAITING, StepState.RUNNING)
    }
    pending = (i for i, step in enumerate(steps) if step.cordon is not None and i not in done)
    return [CORDONING] if next(pending, len(steps)) <= _first_migrate(obj) else []


def _first_migrate(obj: RemedyOperationJob) -> int:
    """Return the index of the rung's first drain, -1 for none: evictions do not wait for a later
    cordon.
    """
    steps = obj.spec.ladder[obj.status.rung].steps
    return next((i for i, step in enumerate(steps) if step.migrate is not None), -1)
