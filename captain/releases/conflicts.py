"""Releases that change the same objects: the later one waits. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime

from captain.releases.decision import returns_after_end
from kubenode.api.names import list_first
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import ReleasePhase

SHOWN = 3
"""Objects that a message names before the rest is counted."""
FIRST = datetime.min.replace(tzinfo=UTC)


def find_blocker(release: Release, others: Iterable[Release]) -> str:
    """Return why another release goes first, "" if none does.

    A release waits before its start, and before the rollback of a release that has ended. In
    between it goes first itself, since all later ones wait for it.
    """
    for other in sorted(others, key=_order):
        shared = _keys(release) & _keys(other)
        if other.metadata.name == release.metadata.name or not shared:
            continue
        objects = list_first(sorted(shared), SHOWN)
        if release.status.snapshot is None and _goes_first(other, release):
            return f"release {other.metadata.name} changes {objects} and has not ended"
        if _has_ended(release) and returns_after_end(release) and _came_later(other, release):
            return f"release {other.metadata.name} changed {objects} since: roll it back first"
    return ""


def _goes_first(other: Release, release: Release) -> bool:
    started = other.status.snapshot is not None
    return not _has_ended(other) and (started or _order(other) < _order(release))


def _came_later(other: Release, release: Release) -> bool:
    rolled_back = other.status.phase is ReleasePhase.ROLLED_BACK
    started, before = other.status.started_at, release.status.started_at
    return not rolled_back and started is not None and before is not None and started > before


def _has_ended(release: Release) -> bool:
    return release.status.phase is not None and release.status.phase.ended


def _keys(release: Release) -> set[str]:
    return {each.key for each in release.spec.payload}


def _order(release: Release) -> tuple[datetime, str]:
    return release.metadata.creation_timestamp or FIRST, release.metadata.name
