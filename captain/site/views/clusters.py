"""The fleet of clusters, with filters and an order."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from captain.site.marks import (
    MEMBER_RANKS,
    MarkCounts,
    MemberMark,
    count_members,
    ends_soon,
    mark_member,
)
from captain.site.scene import CaptainScene, InvolvedRelease
from kubenode.api.conditions import find_condition
from kubenode.api.v1alpha1 import MemberCluster
from kubenode.api.v1alpha1.membercluster import MEMBER_INSTALLED, MEMBER_REACHABLE
from kubenode.runtime.site.parts import View

MOST_ROWS = 1000
SORTS = {
    "state": "State",
    "name": "Name",
    "version": "Version",
    "machines": "Machines",
    "credential": "Credential",
}
SHOWS = {"all": "All", "trouble": "Not connected", "releasing": "In a release"}
FILTERS = ("q", "show", "sort")
NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReleaseLink:
    """A release in progress, as a cluster shows it."""

    name: str
    stage: str
    phase: str


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member cluster.

    machines: None if unknown.
    why: why it is not connected, "" if it is.
    ends_soon: whether its credential ends within two weeks.
    """

    template: ClassVar[str] = "parts/cluster_row.html"
    key: str
    mark: MemberMark
    why: str
    version: str
    machines: int | None
    labels: str
    releases: tuple[ReleaseLink, ...]
    expires_at: datetime | None
    ends_soon: bool
    contact: datetime | None


@dataclass(frozen=True, slots=True)
class ClustersHead:
    """The first sentence, and the number of clusters in each state."""

    template: ClassVar[str] = "parts/clusters_head.html"
    sentence: str
    counts: MarkCounts
    key: str = "clusters-head"


def view_clusters(scene: CaptainScene, params: Mapping[str, str]) -> View:
    rows = [build_row(scene, cluster) for cluster in scene.clusters.values()]
    counts = count_members(row.mark for row in rows)
    total = len(rows)
    rows = [row for row in rows if fits(row, params)]
    rows.sort(key=lambda row: rank(row, params.get("sort", "state")))
    sentence = describe(total, len(rows))
    return {
        "clusters-head": [ClustersHead(sentence, counts)],
        "clusters": rows[:MOST_ROWS],
    }


def describe(total: int, fitting: int) -> str:
    noun = "cluster" if total == 1 else "clusters"
    sentence = f"{total or 'No'} member {noun}"
    sentence += f", {fitting} of them below." if fitting != total else "."
    if fitting > MOST_ROWS:
        sentence += f" The first {MOST_ROWS} are shown: narrow it down."
    return sentence


def build_row(scene: CaptainScene, cluster: MemberCluster) -> MemberRow:
    name, status = cluster.metadata.name, cluster.status
    return MemberRow(
        name,
        mark_member(cluster, scene.now),
        explain_mark(cluster, scene.now),
        status.version,
        status.machines,
        ", ".join(f"{key}={value}" for key, value in sorted(cluster.metadata.labels.items())),
        tuple(_link(involved) for involved in scene.open_releases.get(name, ())),
        status.credentials_expire_at,
        ends_soon(cluster, scene.now),
        status.last_contact,
    )


def _link(involved: InvolvedRelease) -> ReleaseLink:
    release, stage, cluster = involved
    return ReleaseLink(release.metadata.name, stage.name, cluster.phase)


def explain_mark(cluster: MemberCluster, now: datetime) -> str:
    """Return why the cluster is not connected, "" if it is."""
    types = {
        MemberMark.UNREACHABLE: MEMBER_REACHABLE,
        MemberMark.PAUSED: MEMBER_REACHABLE,
        MemberMark.INCOMPLETE: MEMBER_INSTALLED,
    }
    type_ = types.get(mark_member(cluster, now))
    condition = None if type_ is None else find_condition(cluster.status.conditions, type_)
    if condition is None:
        return ""
    return ": ".join(filter(None, (condition.reason, condition.message)))


def fits(row: MemberRow, params: Mapping[str, str]) -> bool:
    """Return whether the row is among those that the address asks for."""
    text = params.get("q", "").strip().lower()
    if text and not any(text in each.lower() for each in (row.key, row.labels, row.version)):
        return False
    match params.get("show"):
        case "trouble":
            return row.mark is not MemberMark.CONNECTED
        case "releasing":
            return bool(row.releases)
        case _:
            return True


def rank(row: MemberRow, sort: str) -> tuple[Any, ...]:
    """Return the key of the order. Clusters with equal values are ordered by name."""
    match sort:
        case "name":
            return (row.key,)
        case "version":
            return (row.version, row.key)
        case "machines":
            return (row.machines is None, -(row.machines or 0), row.key)
        case "credential":
            return (row.expires_at or NEVER, row.key)
        case _:
            return (MEMBER_RANKS[row.mark], row.key)
