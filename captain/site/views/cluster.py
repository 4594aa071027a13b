"""One member cluster: its connection, and its part in every release."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from captain.site.marks import ProgressMark, mark_progress
from captain.site.scene import CaptainScene, list_clusters
from captain.site.views.clusters import MemberRow, build_row
from captain.site.views.releases import rank_release
from kubenode.runtime.site.parts import View

MOST_RELEASES = 100


@dataclass(frozen=True, slots=True)
class ClusterHead:
    """The cluster in short. kinds: what Captain may release to it."""

    template: ClassVar[str] = "parts/cluster_head.html"
    row: MemberRow
    secret: str
    kinds: str
    key: str = "cluster"


@dataclass(frozen=True, slots=True)
class MemberConditionRow:
    template: ClassVar[str] = "parts/condition_row.html"
    key: str
    status: str
    reason: str
    message: str
    since: datetime


@dataclass(frozen=True, slots=True)
class ClusterRelease:
    """A release that has the cluster in a stage."""

    template: ClassVar[str] = "parts/cluster_release.html"
    key: str
    phase: str
    stage: str
    mark: ProgressMark
    reason: str
    evidence: str
    drift: tuple[str, ...]


def view_cluster(scene: CaptainScene, params: Mapping[str, str]) -> View | None:
    cluster = scene.clusters.get(params["name"])
    if cluster is None:
        return None
    head = ClusterHead(
        build_row(scene, cluster), cluster.spec.kubeconfig_ref, ", ".join(cluster.status.kinds)
    )
    conditions = [
        MemberConditionRow(
            each.type, each.status, each.reason, each.message, each.last_transition_time
        )
        for each in cluster.status.conditions
    ]
    releases = list(_list_releases(scene, cluster.metadata.name))[:MOST_RELEASES]
    return {"cluster": [head], "conditions": conditions, "releases": releases}


def _list_releases(scene: CaptainScene, name: str) -> Iterator[ClusterRelease]:
    for release in sorted(scene.releases.values(), key=rank_release):
        for stage, cluster in list_clusters(release):
            if cluster.name == name:
                yield ClusterRelease(
                    release.metadata.name,
                    release.status.phase or "Pending",
                    stage.name,
                    mark_progress(cluster),
                    cluster.reason or "",
                    cluster.evidence,
                    tuple(cluster.drift),
                )
