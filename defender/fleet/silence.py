"""Which clusters of a group are silent: their beat stands still, by this reader's monotonic clock.

What we did not hear ourselves is no silence of others: after each gap of ours the lease of every
cluster begins anew. A cluster of an earlier version has no beat, and is never taken for silent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from defender.fleet.view import ClusterRow

LEASE = 60.0
"""Seconds without a beat after which a cluster is silent."""
BEAT = 10.0
"""Seconds between two beats."""
GAP = 5.0
"""Seconds between two looks of ours from which on we may have missed something."""


@dataclass(slots=True)
class Beats:
    """The last beat of each cluster, and when it was first seen, monotonic."""

    _seen: dict[str, tuple[int | None, float]] = field(default_factory=dict)
    _looked: float = float("-inf")

    def look(self, rows: Mapping[str, ClusterRow], me: str, now: float) -> frozenset[str]:
        """Take over the rows as they are now; who is silent."""
        if now - self._looked > GAP:
            self._seen.clear()
        self._looked = now
        self._seen = {
            name: before
            if (before := self._seen.get(name)) is not None and before[0] == row.beat
            else (row.beat, now)
            for name, row in rows.items()
            if name != me
        }
        return frozenset(
            name
            for name, (beat, since) in self._seen.items()
            if beat is not None and now - since > LEASE
        )
