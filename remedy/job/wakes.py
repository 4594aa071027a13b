"""Kube Defender wakes jobs that are next in line: they ask at once, whatever their hold says."""

from collections.abc import Callable

from defender.client import Permits
from kubenode.api.v1alpha1 import RemedyOperationJob

JOB = RemedyOperationJob.resource.kind


class JobWakes:
    """A Part. `wake` is told the names of jobs that shall ask now; losing one costs only time."""

    name = "wakes"

    def __init__(self, permits: Permits, wake: Callable[[str], None]) -> None:
        self._permits, self._wake = permits, wake

    async def run(self) -> None:
        async for holder in self._permits.wakes():
            if holder.kind == JOB:
                self._wake(holder.name)
