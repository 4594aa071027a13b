"""Kube Defender wakes holders that are next in line: they ask at once, whatever they were told."""

from collections.abc import Callable

from defender.client import Permits
from kubenode.api.v1alpha1.permit import Holder

Wake = Callable[[Holder], None]


class HolderWakes:
    """A Part. Losing a wake costs only time.

    on_wake  told each holder that asks now; a controller adds what it would reconcile for it
    """

    name = "wakes of machines"

    def __init__(self, permits: Permits | None, first: Wake) -> None:
        self._permits = permits
        self.on_wake = [first]

    async def run(self) -> None:
        if self._permits is None:
            return
        async for holder in self._permits.wakes():
            for tell in self.on_wake:
                tell(holder)
