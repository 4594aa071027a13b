"""Leases of a simulated fleet: renewed continuously, unless the timeline says otherwise."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import NodeRemedier
from remedy.remedier.leases import bounds
from simulation.replay.clock import SetClock

TICK = timedelta(microseconds=1)


class Leases:
    """Implements remedy.remedier.leases.Ages. The age is unknown if no entry is about the node."""

    def __init__(self, clock: SetClock) -> None:
        self._clock = clock
        self._silent_since: dict[str, datetime | None] = {}
        self._bounds: tuple[float, ...] = ()

    def say(self, name: str, *, renewed: bool) -> None:
        """Set whether the Lease is renewed from now on.

        A silence that continues keeps its start.
        """
        if renewed:
            self._silent_since[name] = None
        elif self._silent_since.get(name) is None:
            self._silent_since[name] = self._clock.now()

    def booted(self, name: str) -> None:
        if name in self._silent_since:
            self.say(name, renewed=True)

    def forget(self, name: str) -> None:
        self._silent_since.pop(name, None)

    def rules_loaded(self, rules: Iterable[NodeRemedier]) -> None:
        self._bounds = tuple(sorted(bounds(rules)))

    def age(self, name: str) -> float | None:
        if name not in self._silent_since:
            return None
        since = self._silent_since[name]
        return 0.0 if since is None else (self._clock.now() - since).total_seconds()

    def changes_at(self, name: str) -> datetime | None:
        since, age = self._silent_since.get(name), self.age(name)
        if since is None or age is None:
            return None
        later = (since + timedelta(seconds=b) + TICK for b in self._bounds if b >= age)
        return next(later, None)
