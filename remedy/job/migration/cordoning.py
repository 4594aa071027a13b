"""Which jobs may act and have not cordoned their nodes yet. Pure.

While there are such jobs nobody evicts: a pod that leaves one node of an incident must not land on
the next. That holds for jobs that hold their permits at the time, and for PATIENCE at most; jobs
that are still refused keep their nodes open, as those may yet heal by themselves.
"""

from datetime import timedelta

from kubenode.api.v1alpha1 import JobPhase, RemedyOperationJob
from kubenode.api.v1alpha1.remedyoperationjob import StepState

CORDONING = "cordoning"
"""Name of an index of jobs, and its only value."""
PATIENCE = timedelta(seconds=10)


def cordoning(obj: RemedyOperationJob) -> list[str]:
    """[CORDONING] for a job that is about to cordon its node."""
    status = obj.status
    if status.phase is not JobPhase.RUNNING or status.rung >= len(obj.spec.ladder):
        return []
    steps = obj.spec.ladder[status.rung].steps
    done = {
        r.index
        for r in status.steps
        if r.rung == status.rung and r.state not in (StepState.WAITING, StepState.RUNNING)
    }
    left = (i for i, step in enumerate(steps) if step.cordon is not None and i not in done)
    return [CORDONING] if next(left, len(steps)) <= _first_migrate(obj) else []


def _first_migrate(obj: RemedyOperationJob) -> int:
    """Index of the rung's first drain: a cordon after it is none that anybody waits for."""
    steps = obj.spec.ladder[obj.status.rung].steps
    return next((i for i, step in enumerate(steps) if step.migrate is not None), -1)
