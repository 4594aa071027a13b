"""Detection of drift fights: another writer undid our write three times within an hour."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

TIMES, WITHIN_SECONDS = 3, 3600.0
"""TIMES: overwrites that make a fight. WITHIN_SECONDS: the time within which they count."""


@dataclass(slots=True)
class _Round:
    """The Node versions in which a key was overwritten, and the monotonic times."""

    versions: set[str] = field(default_factory=set)
    at: list[float] = field(default_factory=list)


class NodeFights:
    """Overwrites by Machine and key. A restart forgets them, so a fight takes longer to detect.

    now: returns monotonic seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._rounds: dict[str, dict[str, _Round]] = {}

    def record_overwrites(self, machine: str, version: str, keys: Iterable[str]) -> tuple[str, ...]:
        """Record keys that were overwritten in this version of the Node. Return all keys in a
        fight.
        """
        rounds = self._rounds.setdefault(machine, {})
        now = self._now()
        for key in keys:
            overwrites = rounds.setdefault(key, _Round())
            if version not in overwrites.versions:
                overwrites.versions.add(version)
                overwrites.at.append(now)
        for key, overwrites in list(rounds.items()):
            overwrites.at = [at for at in overwrites.at if at > now - WITHIN_SECONDS]
            if not overwrites.at:
                del rounds[key]
        if not rounds:
            del self._rounds[machine]
        return tuple(
            sorted(key for key, overwrites in rounds.items() if len(overwrites.at) >= TIMES)
        )

    def forget(self, machine: str) -> None:
        """Forget a Machine that is gone, or whose desired state has changed."""
        self._rounds.pop(machine, None)
