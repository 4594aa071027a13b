"""Wake-ups from Kube Defender for holders that are next in line.

A holder that is woken asks for its permit again at once, before the time that it was given.
"""

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from kubenode.api.v1alpha1.permit import Holder

Wake = Callable[[Holder], None]


class WakeSource(Protocol):
    """A client of Kube Defender."""

    def wakes(self) -> AsyncIterator[Holder]:
        """Yield holders that are next in line."""
        ...


class HolderWakes:
    """A part that receives wake-ups. A lost one only costs time.

    source: None if there is no Kube Defender; then the part ends at once.
    on_wake: callbacks for each holder; a controller enqueues what it would reconcile for the
        holder.
    """

    def __init__(self, name: str, source: WakeSource | None, *on_wake: Wake) -> None:
        self.name = name
        self._source = source
        self.on_wake = list(on_wake)

    async def run(self) -> None:
        if self._source is None:
            return
        async for holder in self._source.wakes():
            for wake in self.on_wake:
                wake(holder)


def wake_by_name(kind: str, wake: Callable[[str], None]) -> Wake:
    """Return the callback that passes on the names of holders of this kind."""

    def on_wake(holder: Holder) -> None:
        if holder.kind == kind:
            wake(holder.name)

    return on_wake
