"""One release: clusters and stages at a glance, why it waits, and what a rollback restores."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import ClassVar

from captain.site.marks import (
    PROGRESS_RANKS,
    MarkCounts,
    ProgressMark,
    count_progress,
    mark_progress,
)
from captain.site.scene import CaptainScene, list_clusters
from captain.site.views.actions import ReleaseActionsPart, list_choices, list_unapproved
from captain.site.views.releases import ReleaseRow, build_release_row
from kubenode.api.names import list_first
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import ApprovalSubject, ReleaseCluster, ReleaseStage, StagePhase
from kubenode.api.v1alpha1.releasepipeline import PipelineStage, StageApproval
from kubenode.runtime.site.grid import columns, draw_states
from kubenode.runtime.site.parts import View

MOST_ROWS, MOST_CONTENTS, MOST_NAMES = 1000, 8, 20
CONTENT_LENGTH = 4000
"""Characters of the content of one object on a page."""


@dataclass(frozen=True, slots=True)
class ReleaseHead:
    """The release in short.

    rollback: why it returns to what stood there before, "" if it does not.
    joined, departed: clusters that came or went since the start.
    """

    template: ClassVar[str] = "parts/release_head.html"
    row: ReleaseRow
    digest: str
    state: str
    rollback: str
    objects: tuple[str, ...]
    joined: str
    departed: str
    key: str = "release"


@dataclass(frozen=True, slots=True)
class StageTile:
    """The clusters of a stage in their order.

    rules: its settings in words.
    bake_until: end of the bake time while it bakes.
    """

    template: ClassVar[str] = "parts/release_stage.html"
    key: str
    phase: StagePhase
    current: bool
    rules: tuple[str, ...]
    bake_until: datetime | None
    wide: int
    high: int
    counts: MarkCounts
    paths: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ProgressRow:
    """A cluster in the release. previous: start of the digest of what a rollback restores."""

    template: ClassVar[str] = "parts/release_cluster.html"
    name: str
    stage: str
    mark: ProgressMark
    reason: str
    evidence: str
    unreachable_since: datetime | None
    drift: tuple[str, ...]
    previous: str

    @property
    def key(self) -> str:
        return f"{self.stage}/{self.name}"


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """An approval of a stage, or the lack of one that the stage needs."""

    template: ClassVar[str] = "parts/release_approval.html"
    key: str
    by: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class PreviousPart:
    """What stood in some clusters before the release.

    objects: by KIND/NAME, the content as text; "" for an object that did not exist.
    """

    template: ClassVar[str] = "parts/release_previous.html"
    key: str
    clusters: str
    objects: tuple[tuple[str, str], ...]


def view_release(scene: CaptainScene, params: Mapping[str, str]) -> View | None:
    release = scene.releases.get(params["name"])
    if release is None:
        return None
    choices = list(list_choices(release))
    rows = sorted(_list_rows(release), key=lambda row: (PROGRESS_RANKS[row.mark], not row.reason))
    return {
        "release": [build_head(release)],
        "actions": [ReleaseActionsPart(tuple(choices))] if choices else [],
        "stages": list(_list_stages(release)),
        "clusters": rows[:MOST_ROWS],
        "approvals": list(_list_approvals(release)),
        "previous": list(_list_previous(release)),
    }


def build_head(release: Release) -> ReleaseHead:
    status, snapshot = release.status, release.status.snapshot
    joined, departed = (snapshot.joined, snapshot.departed) if snapshot is not None else ([], [])
    return ReleaseHead(
        build_release_row(release),
        release.spec.digest,
        release.spec.state,
        status.rollback or "",
        tuple(each.key for each in release.spec.payload),
        list_first(joined, MOST_NAMES) if joined else "",
        list_first(departed, MOST_NAMES) if departed else "",
    )


def _list_rows(release: Release) -> Iterator[ProgressRow]:
    for stage, cluster in list_clusters(release):
        yield _build_row(stage, cluster)


def _build_row(stage: ReleaseStage, cluster: ReleaseCluster) -> ProgressRow:
    return ProgressRow(
        cluster.name,
        stage.name,
        mark_progress(cluster),
        cluster.reason or "",
        cluster.evidence,
        cluster.unreachable_since,
        tuple(cluster.drift),
        shorten_digest(cluster.previous),
    )


def shorten_digest(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def _list_stages(release: Release) -> Iterator[StageTile]:
    snapshot = release.status.snapshot
    settings = {} if snapshot is None else {each.name: each for each in snapshot.stages}
    for stage in release.status.stages:
        yield _build_stage(release, stage, settings.get(stage.name))


def _build_stage(
    release: Release, stage: ReleaseStage, settings: PipelineStage | None
) -> StageTile:
    marks = [mark_progress(cluster) for cluster in stage.clusters]
    letters = "".join(mark.letter for mark in marks)
    wide = columns(len(marks))
    return StageTile(
        stage.name,
        stage.phase,
        stage.name == release.status.stage,
        () if settings is None else tuple(describe_settings(settings)),
        stage.bake_until if stage.phase is StagePhase.BAKING else None,
        wide,
        -(-len(letters) // wide),
        count_progress(marks),
        draw_states(letters, wide),
    )


def describe_settings(stage: PipelineStage) -> Iterator[str]:
    """Yield the settings of a stage in words."""
    yield f"{stage.max_concurrency} at once"
    yield f"stops at {stage.max_failures} failed"
    if stage.bake_time:
        yield f"bakes {stage.to_dict()['bakeTime']}"
    if stage.approval is StageApproval.BEFORE:
        yield "a person approves it"


def _list_approvals(release: Release) -> Iterator[ApprovalRow]:
    for entry in release.spec.approvals:
        yield ApprovalRow(name_approval(entry.stage, entry.subject), entry.by, entry.at)
    for stage in _list_missing(release):
        yield ApprovalRow(name_approval(stage, ApprovalSubject.START), "", None)
    for stage in list_unapproved(release, ApprovalSubject.ENFORCE):
        yield ApprovalRow(name_approval(stage, ApprovalSubject.ENFORCE), "", None)


def name_approval(stage: str, subject: ApprovalSubject) -> str:
    return stage if subject is ApprovalSubject.START else f"{subject} in {stage}"


def _list_missing(release: Release) -> Iterator[str]:
    """Yield the stages that start after an approval only, and have none."""
    entries, snapshot = release.spec.approvals, release.status.snapshot
    given = {entry.stage for entry in entries if entry.subject is ApprovalSubject.START}
    for stage in [] if snapshot is None else snapshot.stages:
        if stage.approval is StageApproval.BEFORE and stage.name not in given:
            yield stage.name


def _list_previous(release: Release) -> Iterator[PreviousPart]:
    tally = Counter(cluster.previous for _, cluster in list_clusters(release))
    names: dict[str, list[str]] = {}
    for _, cluster in list_clusters(release):
        names.setdefault(cluster.previous, []).append(cluster.name)
    contents = sorted(release.status.previous, key=lambda each: -tally[each.digest])
    for each in contents[:MOST_CONTENTS]:
        clusters = list_first(names.get(each.digest, []), MOST_NAMES)
        yield PreviousPart(shorten_digest(each.digest), clusters, format_content(each.content))


@lru_cache(maxsize=64)
def format_content(content: str) -> tuple[tuple[str, str], ...]:
    """Return the objects of a previous content as text for people, "" for one that did not exist.

    A text is cut at CONTENT_LENGTH.
    """
    try:
        objects = json.loads(content)
    except ValueError:
        return (("not readable", content[:CONTENT_LENGTH]),)
    if not isinstance(objects, dict):
        return (("not readable", content[:CONTENT_LENGTH]),)
    return tuple((key, _format_object(value)) for key, value in objects.items())


def _format_object(value: object) -> str:
    if value is None:
        return ""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= CONTENT_LENGTH else f"{text[:CONTENT_LENGTH]}\n... cut here"
