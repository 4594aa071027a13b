"""Wake-ups from Kube Defender for holders that are next in line.

A holder that is woken asks again at once, before the time that it was given.
"""

from collections.abc import Callable

from defender.client import Permits
from kubenode.api.v1alpha1.permit import Holder

Wake = Callable[[Holder], None]


class HolderWakes:
    """A part that receives wake-ups. A lost one only costs time.

    on_wake: callbacks for each holder; a controller enqueues what it would reconcile for the
        holder.
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
