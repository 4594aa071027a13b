"""Metrics of releases, counted when they are scraped.

At most MOST_RELEASES releases that have not ended are shown, paused ones first.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kubenode.api.v1alpha1 import MemberCluster, Release
from kubenode.api.v1alpha1.membercluster import MemberPhase
from kubenode.api.v1alpha1.release import (
    ClusterPhase,
    ReleaseCluster,
    ReleasePhase,
    ReleaseStatus,
)
from kubenode.runtime.clock import Clock

MOST_RELEASES = 32
SECOND = timedelta(seconds=1)


class ReleaseCollector(Collector):
    """Collector of these metrics."""

    def __init__(
        self,
        releases: Callable[[], Iterable[Release]],
        members: Callable[[], Iterable[MemberCluster]],
        clock: Clock,
    ) -> None:
        self._releases, self._members, self._clock = releases, members, clock

    def collect(self) -> Iterator[GaugeMetricFamily]:
        releases = list(self._releases())
        phases = Counter(each.status.phase or ReleasePhase.PENDING for each in releases)
        tally = GaugeMetricFamily(
            "kubenode_captain_releases", "Number of releases by phase.", labels=["phase"]
        )
        for phase in ReleasePhase:
            tally.add_metric([phase], phases[phase])
        shown = select_open(releases)
        yield from (tally, *_collect_progress(shown), *self._collect_waits(shown))
        yield self._collect_unreachable(shown)

    def _collect_waits(self, shown: list[Release]) -> Iterator[GaugeMetricFamily]:
        waits = GaugeMetricFamily(
            "kubenode_captain_release_waiting_seconds",
            "Seconds for which a release has had its phase, stage and reason.",
            labels=["release", "reason"],
        )
        paused = GaugeMetricFamily(
            "kubenode_captain_release_paused",
            "1 for the reason for which a release is paused. User: by a person.",
            labels=["release", "reason"],
        )
        for release in shown:
            status, name = release.status, release.metadata.name
            if status.reason is None or status.reason_since is None:
                continue
            seconds = max(0.0, (self._clock.now() - status.reason_since) / SECOND)
            waits.add_metric([name, status.reason], seconds)
            if status.phase is ReleasePhase.PAUSED:
                paused.add_metric([name, status.reason], 1)
        yield from (waits, paused)

    def _collect_unreachable(self, shown: list[Release]) -> GaugeMetricFamily:
        unreachable = GaugeMetricFamily(
            "kubenode_captain_release_unreachable_clusters",
            "Number of clusters of a release that cannot be reached, without skipped ones.",
            labels=["release"],
        )
        lost = {
            member.metadata.name
            for member in self._members()
            if member.status.phase is MemberPhase.UNREACHABLE
        }
        for release in shown:
            count = sum(
                each.unreachable_since is not None or each.name in lost
                for each in _list_needed(release.status)
            )
            unreachable.add_metric([release.metadata.name], count)
        return unreachable


def select_open(releases: Iterable[Release]) -> list[Release]:
    """Return the releases that have not ended and are shown."""
    open_ = (each for each in releases if each.status.phase is None or not each.status.phase.ended)
    paused_first = sorted(
        open_, key=lambda each: (each.status.phase is not ReleasePhase.PAUSED, each.metadata.name)
    )
    return paused_first[:MOST_RELEASES]


def _collect_progress(shown: list[Release]) -> Iterator[GaugeMetricFamily]:
    stages = GaugeMetricFamily(
        "kubenode_captain_release_stage",
        "Number of the current stage of a release, from 1; 0 before its start.",
        labels=["release"],
    )
    clusters = GaugeMetricFamily(
        "kubenode_captain_release_clusters",
        "Number of clusters of a release, by phase.",
        labels=["release", "phase"],
    )
    for release in shown:
        status, name = release.status, release.metadata.name
        names = [stage.name for stage in status.stages]
        stages.add_metric([name], names.index(status.stage) + 1 if status.stage in names else 0)
        tally = Counter(cluster.phase for stage in status.stages for cluster in stage.clusters)
        for phase in ClusterPhase:
            clusters.add_metric([name, phase], tally[phase])
    yield from (stages, clusters)


def _list_needed(status: ReleaseStatus) -> Iterator[ReleaseCluster]:
    """Yield the clusters that the release, or its rollback, must reach."""
    for stage in status.stages:
        for cluster in stage.clusters:
            if status.rollback is not None or cluster.phase is not ClusterPhase.SKIPPED:
                yield cluster
