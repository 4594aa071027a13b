"""Detect silent clusters of a group: their beat has not changed, by this reader's monotonic clock.

A gap in our own reading is not the silence of others: after it the lease of every cluster starts
anew. A cluster of an earlier version has no beat and never counts as silent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from defender.decision.fleet_view import ClusterRow

LEASE = 60.0
"""Seconds without a beat after which a cluster is silent."""
BEAT = 10.0
"""Seconds between two beats."""
GAP = 5.0
"""Seconds between two of our reads above which we may have missed beats."""


@dataclass(slots=True)
class Beats:
    """The last beat of each cluster, with the monotonic time at which it was first observed."""

    _last_beats: dict[str, tuple[int | None, float]] = field(default_factory=dict)
    _looked: float = float("-inf")

    def observe_rows(self, rows: Mapping[str, ClusterRow], me: str, now: float) -> frozenset[str]:
        """Record the rows and return the silent clusters."""
        if now - self._looked > GAP:
            self._last_beats.clear()
        self._looked = now
        self._last_beats = {
            name: before
            if (before := self._last_beats.get(name)) is not None and before[0] == row.beat
            else (row.beat, now)
            for name, row in rows.items()
            if name != me
        }
        return frozenset(
            name
            for name, (beat, since) in self._last_beats.items()
            if beat is not None and now - since > LEASE
        )
