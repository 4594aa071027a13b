"""How soon a set looks at its machines after one of them has changed.

A look costs what the set has machines, so it waits for more changes, longer the more machines
there are and the more sets wait to look: all looks together leave most of the loop to others.
"""

SOON = 0.2
PER_LOOK = 1 / 8000
"""Seconds for each machine and each set that waits. Looking and deciding takes some 30 us."""


class ObservationPace:
    """When each set looks next, by the clock that is given."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def delay(self, set_: str, machines: int, now: float) -> float:
        """Seconds until it looks, the same instant until it has come."""
        for name in [name for name, due in self._due.items() if due <= now]:
            del self._due[name]
        waiting = len(self._due.keys() - {set_}) + 1
        return self._due.setdefault(set_, now + SOON + machines * PER_LOOK * waiting) - now
