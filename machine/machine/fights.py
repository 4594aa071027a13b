"""How often another writer undid what we wrote: three times in an hour is a fight."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

TIMES, WITHIN_SECONDS = 3, 3600.0


@dataclass(slots=True)
class _Round:
    versions: set[str] = field(default_factory=set)
    at: list[float] = field(default_factory=list)


class NodeFights:
    """By Machine and key. A restart forgets them: then a fight is noticed once more.

    now  monotonic seconds
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._rounds: dict[str, dict[str, _Round]] = {}

    def told(self, machine: str, version: str, keys: Iterable[str]) -> tuple[str, ...]:
        """Keys that are fought over, now that these were found changed in the Node's `version`."""
        rounds = self._rounds.setdefault(machine, {})
        now = self._now()
        for key in keys:
            found = rounds.setdefault(key, _Round())
            if version not in found.versions:
                found.versions.add(version)
                found.at.append(now)
        for key, found in list(rounds.items()):
            found.at = [at for at in found.at if at > now - WITHIN_SECONDS]
            if not found.at:
                del rounds[key]
        if not rounds:
            del self._rounds[machine]
        return tuple(sorted(key for key, found in rounds.items() if len(found.at) >= TIMES))

    def forget(self, machine: str) -> None:
        """It is given up, or what is wanted has changed."""
        self._rounds.pop(machine, None)
