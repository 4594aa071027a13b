"""Data of the pages: the caches of Captain, and what a cluster has to do with releases."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from kubenode.api.v1alpha1 import MemberCluster, Release, ReleasePipeline
from kubenode.api.v1alpha1.release import ReleaseCluster, ReleaseStage
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.informer import Informer

InvolvedRelease = tuple[Release, ReleaseStage, ReleaseCluster]
"""A release, and the stage and progress of one cluster in it."""


@dataclass(frozen=True)
class CaptainScene:
    """Data from which pages are computed.

    loaded: False until every list was read once.
    late: names of the caches that are not current.
    """

    clusters: Mapping[str, MemberCluster]
    pipelines: Mapping[str, ReleasePipeline]
    releases: Mapping[str, Release]
    now: datetime
    loaded: bool = True
    late: tuple[str, ...] = ()

    @cached_property
    def open_releases(self) -> Mapping[str, tuple[InvolvedRelease, ...]]:
        """The releases that have not ended, by the name of a cluster."""
        involvements: dict[str, list[InvolvedRelease]] = {}
        releases = (each for each in self.releases.values() if is_open(each))
        for each in sorted(releases, key=lambda release: release.metadata.name):
            for stage, cluster in list_clusters(each):
                involvements.setdefault(cluster.name, []).append((each, stage, cluster))
        return {name: tuple(involved) for name, involved in involvements.items()}


def is_open(release: Release) -> bool:
    phase = release.status.phase
    return phase is None or not phase.ended


def list_clusters(release: Release) -> Iterator[tuple[ReleaseStage, ReleaseCluster]]:
    for stage in release.status.stages:
        for cluster in stage.clusters:
            yield stage, cluster


class CaptainBoard:
    """Follows the informers. `scene` returns the current data; each change sets `changed`."""

    def __init__(
        self,
        clusters: Informer[MemberCluster],
        pipelines: Informer[ReleasePipeline],
        releases: Informer[Release],
        clock: Clock,
    ) -> None:
        self.changed = asyncio.Event()
        self.version = 0
        self._clusters, self._pipelines, self._releases = clusters, pipelines, releases
        self._clock = clock
        clusters.add_handler(self._change)
        pipelines.add_handler(self._change)
        releases.add_handler(self._change)

    def scene(self) -> CaptainScene:
        informers: Mapping[str, Informer[Any]] = {
            "clusters": self._clusters,
            "pipelines": self._pipelines,
            "releases": self._releases,
        }
        return CaptainScene(
            self._clusters.cache,
            self._pipelines.cache,
            self._releases.cache,
            self._clock.now(),
            all(each.synced.is_set() for each in informers.values()),
            tuple(_list_late(informers.items())),
        )

    def _change(self, name: str, old: object, new: object) -> None:
        self.version += 1
        self.changed.set()


def _list_late(informers: Iterable[tuple[str, Informer[Any]]]) -> Iterator[str]:
    for name, informer in informers:
        if informer.synced.is_set() and not informer.fresh():
            yield name
