"""Counts corrections of drift and decides when to stop, because another writer is active. Pure.

Counts are kept for each component. A new revision or attempt starts with FRESH.
"""

from datetime import datetime, timedelta

import msgspec

from agent.components.drift.compare import HostDriftKind

CORRECTIONS, WITHIN = 3, timedelta(seconds=3600)
"""Corrections of one path within a time; after them it is a drift fight."""
STARTS, STARTS_WITHIN = 3, timedelta(seconds=600)
"""Starts of one stopped unit within a time; after them it is unhealthy, and rules take over."""
MOST_PATHS = 200


class DriftFights(msgspec.Struct, frozen=True):
    """Times of recent corrections by kind and path, oldest first."""

    corrected: dict[str, tuple[datetime, ...]] = {}

    def count(self, kind: HostDriftKind, path: str, now: datetime) -> int:
        """Return the number of corrections within the time that counts."""
        times = self.corrected.get(_key(kind, path), ())
        return sum(1 for at in times if now - at < _window(kind))

    def fighting(self, kind: HostDriftKind, path: str, now: datetime) -> bool:
        """Return whether it must not be corrected again."""
        most = STARTS if kind is HostDriftKind.RUN_STATE else CORRECTIONS
        return self.count(kind, path, now) >= most

    def corrected_now(self, kind: HostDriftKind, path: str, now: datetime) -> "DriftFights":
        key = _key(kind, path)
        times = {
            k: tuple(at for at in ats if now - at < WITHIN) for k, ats in self.corrected.items()
        }
        times[key] = (*times.get(key, ()), now)[-max(CORRECTIONS, STARTS) :]
        recent = sorted((k for k in times if times[k]), key=lambda k: times[k][-1])[-MOST_PATHS:]
        return DriftFights({k: times[k] for k in recent})


FRESH = DriftFights()


def _key(kind: HostDriftKind, path: str) -> str:
    return f"{kind} {path}"


def _window(kind: HostDriftKind) -> timedelta:
    return STARTS_WITHIN if kind is HostDriftKind.RUN_STATE else WITHIN
