"""Receives wake-ups from Kube Defender for jobs that are next in line: they ask for a permit at
once, whatever their hold says.
"""

from collections.abc import Callable

from defender.client import Permits
from kubenode.api.v1alpha1 import RemedyOperationJob

JOB = RemedyOperationJob.resource.kind


class JobWakes:
    """A Part that calls `wake` with the name of each job that shall ask now. A lost wake-up only
    costs time.
    """

    name = "wakes"

    def __init__(self, permits: Permits, wake: Callable[[str], None]) -> None:
        self._permits, self._wake = permits, wake

    async def run(self) -> None:
        async for holder in self._permits.wakes():
            if holder.kind == JOB:
                self._wake(holder.name)
