"""Start of the time in which our caches had no gap, so that reports could arrive."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from kubenode.runtime.clock import Clock


class Hears(Protocol):
    """A cache that knows since when it has no gap;
    kubenode.runtime.kube.informer.Informer is one.
    """

    def hearing_since(self) -> float | None:
        """Return the monotonic time in seconds since which there was no gap; None: there is one
        now.
        """
        ...


class Hearing:
    """Combines several caches into one start time.

    caches: each is needed; a gap in one is a gap in all
    witnesses: caches that get frequent updates and so notice short gaps; one without a value is
        ignored
    """

    def __init__(self, caches: Sequence[Hears], witnesses: Sequence[Hears], clock: Clock) -> None:
        self._caches, self._witnesses, self._clock = caches, witnesses, clock

    def since(self) -> datetime | None:
        """Return the start by the wall clock; None: a needed cache has a gap now."""
        needed = [cache.hearing_since() for cache in self._caches]
        if any(at is None for at in needed):
            return None
        starts = [*needed, *(witness.hearing_since() for witness in self._witnesses)]
        last = max(at for at in starts if at is not None)
        return self._clock.now() - timedelta(seconds=self._clock.monotonic() - last)
