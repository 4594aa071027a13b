"""The list of releases, those in progress first."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from captain.site.marks import MarkCounts, count_progress, mark_progress
from captain.site.scene import CaptainScene, is_open, list_clusters
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import ReleasePhase
from kubenode.runtime.site.parts import Summary, View

MOST_ROWS = 500
NEEDS_PERSON = (ReleasePhase.PAUSED, ReleasePhase.AWAITING_APPROVAL)


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """One release.

    waits: whether it waits for a person.
    settled: number of clusters for which no stage waits any more.
    """

    template: ClassVar[str] = "parts/release_row.html"
    key: str
    pipeline: str
    phase: str
    waits: bool
    stage: str
    reason: str
    message: str
    settled: int
    clusters: int
    share: float
    counts: MarkCounts
    started: datetime | None
    ended: datetime | None


def view_releases(scene: CaptainScene, params: Mapping[str, str]) -> View:
    releases = sorted(scene.releases.values(), key=rank_release)
    rows = [build_release_row(release) for release in releases[:MOST_ROWS]]
    progressing = sum(is_open(each) for each in releases)
    waiting = sum(row.waits for row in rows)
    sentence = f"{len(releases) or 'No'} {'release' if len(releases) == 1 else 'releases'}"
    sentence += f", {progressing} in progress" if progressing else ""
    sentence += f", {waiting} waiting for a person." if waiting else "."
    return {"found": [Summary(sentence, not waiting, "found")], "releases": rows}


def rank_release(release: Release) -> tuple[bool, bool, float, str]:
    """Return the key of the order: those that wait for a person, those in progress, the latest."""
    created = release.metadata.creation_timestamp
    return (
        release.status.phase not in NEEDS_PERSON,
        not is_open(release),
        -created.timestamp() if created is not None else 0.0,
        release.metadata.name,
    )


def build_release_row(release: Release) -> ReleaseRow:
    status = release.status
    clusters = [cluster for _, cluster in list_clusters(release)]
    settled = sum(cluster.phase.settled for cluster in clusters)
    return ReleaseRow(
        release.metadata.name,
        release.spec.pipeline_ref,
        status.phase or ReleasePhase.PENDING,
        status.phase in NEEDS_PERSON,
        status.stage,
        status.reason or "",
        status.message,
        settled,
        len(clusters),
        round(100 * settled / len(clusters), 1) if clusters else 0.0,
        count_progress(map(mark_progress, clusters)),
        status.started_at,
        status.ended_at,
    )
