"""Since when everybody is heard without a gap, by the caches through which they speak."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from kubenode.runtime.clock import Clock


class Hears(Protocol):
    """A cache; kubenode.runtime.kube.informer.Informer is one."""

    def hearing_since(self) -> float | None: ...


class Hearing:
    """caches     without them nobody is heard
    witnesses  hear often, and so notice short gaps; one that cannot be read tells of none
    """

    def __init__(self, caches: Sequence[Hears], witnesses: Sequence[Hears], clock: Clock) -> None:
        self._caches, self._witnesses, self._clock = caches, witnesses, clock

    def since(self) -> datetime | None:
        """None: somebody may speak whom we do not hear."""
        needed = [cache.hearing_since() for cache in self._caches]
        if any(at is None for at in needed):
            return None
        told = [*needed, *(witness.hearing_since() for witness in self._witnesses)]
        last = max(at for at in told if at is not None)
        return self._clock.now() - timedelta(seconds=self._clock.monotonic() - last)
