"""What Captain's pages show of clusters and releases."""

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.captain_fleet import (
    build_scene,
    make_cluster,
    make_clusters,
    make_condition,
    make_ended,
    make_running,
    make_unreachable,
)
from support.clock import T0

from captain.site.marks import MemberMark, ProgressMark, mark_member, mark_progress
from captain.site.pages import PAGES, CaptainRenderer
from captain.site.views.actions import ReleaseAction, list_choices
from captain.site.views.cluster import view_cluster
from captain.site.views.clusters import ClustersHead, MemberRow, view_clusters
from captain.site.views.freshness import list_doubts
from captain.site.views.release import CONTENT_LENGTH, format_content, view_release
from captain.site.views.releases import ReleaseRow, view_releases
from kubenode.api.v1alpha1 import MemberCluster, Release
from kubenode.api.v1alpha1.release import ClusterPhase, ReleaseCluster
from kubenode.runtime.site.parts import PagePart, View

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 191*193 }}"
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])


def render(view: View | None) -> Iterator[str]:
    renderer = CaptainRenderer()
    for models in (view or {}).values():
        for model in models:
            yield renderer.part(model, "")


def list_rows(view: View, kind: type[Any], slot: str) -> list[Any]:
    assert all(isinstance(each, kind) for each in view[slot])
    return list(view[slot])


def find_part(view: View | None, slot: str) -> PagePart:
    assert view is not None
    return view[slot][0]


# -- the fleet


def test_clusters_that_need_somebody_come_first_and_say_why() -> None:
    view = view_clusters(build_scene(make_clusters(25), []), {})
    rows = list_rows(view, MemberRow, "clusters")
    assert [row.mark for row in rows[:4]] == [
        MemberMark.UNREACHABLE,
        MemberMark.INCOMPLETE,
        MemberMark.ENDING,
        MemberMark.PAUSED,
    ]
    assert rows[0].why == "Timeout: no answer in 5 s"
    assert rows[1].why == "KindsMissing: it does not serve NodeRemedier"
    head = find_part(view, "clusters-head")
    assert isinstance(head, ClustersHead) and head.sentence == "25 member clusters."
    assert sum(count for _, _, count in head.counts) == 25


@pytest.mark.parametrize(
    ("params", "names"),
    [
        ({"q": "stage=TEST"}, ["a"]),
        ({"q": "v1.33"}, ["b"]),
        ({"show": "trouble"}, ["c"]),
        ({"show": "releasing"}, ["test-001"]),
        ({"sort": "name"}, ["a", "b", "c", "test-001"]),
        ({"sort": "version"}, ["b", "a", "c", "test-001"]),
        ({"sort": "machines"}, ["a", "c", "b", "test-001"]),
        ({"sort": "credential"}, ["b", "a", "c", "test-001"]),
        ({"sort": "nonsense", "show": "nonsense"}, ["c", "a", "b", "test-001"]),
        ({"q": "nothing is like this"}, []),
    ],
)
def test_address_selects_and_orders_clusters(params: dict[str, str], names: list[str]) -> None:
    clusters = [
        make_cluster("b", "x", version="v1.33.1", credentialsExpireAt="2026-02-01T00:00:00Z"),
        make_cluster("a", machines=6000),
        make_unreachable("c", "x"),
        make_cluster("test-001", "x", machines=None, version="v1.35.0"),
    ]
    clusters[0]["status"]["machines"] = 3
    view = view_clusters(build_scene(clusters, [make_running(25)]), params)
    assert [row.key for row in list_rows(view, MemberRow, "clusters")] == names


def test_cluster_names_only_releases_in_progress() -> None:
    ended = make_running(25, "rules-6")
    ended["status"]["phase"] = "Succeeded"
    scene = build_scene([make_cluster("test-001")], [make_running(25), ended])
    (row,) = list_rows(view_clusters(scene, {}), MemberRow, "clusters")
    assert [(each.name, each.stage, each.phase) for each in row.releases] == [
        ("rules-7", "test", "Succeeded")
    ]


@pytest.mark.parametrize(
    ("days", "mark"),
    [
        (-1, MemberMark.ENDING),
        (13, MemberMark.ENDING),
        (15, MemberMark.CONNECTED),
    ],
)
def test_credential_that_ends_within_two_weeks_is_marked(days: int, mark: MemberMark) -> None:
    ends = (T0 + timedelta(days=days)).isoformat()
    cluster = MemberCluster.model_validate(make_cluster("a", credentialsExpireAt=ends))
    assert mark_member(cluster, T0) is mark


def test_cluster_that_was_never_probed_is_pending_and_has_a_page() -> None:
    cluster = {"metadata": {"name": "a"}, "spec": {"kubeconfigRef": "a"}}
    scene = build_scene([cluster], [])
    assert mark_member(scene.clusters["a"], T0) is MemberMark.PENDING
    assert "never" in "".join(render(view_cluster(scene, {"name": "a"})))


# -- releases


def test_release_that_waits_for_a_person_comes_first() -> None:
    releases = [make_ended("a", "Succeeded"), make_ended("b", "RolledBack"), make_running(25)]
    view = view_releases(build_scene([], releases), {})
    rows = list_rows(view, ReleaseRow, "releases")
    assert [row.key for row in rows] == ["rules-7", "a", "b"]
    sentence = "".join(render({"found": view["found"]}))
    assert "3 releases, 1 in progress, 1 waiting for a person." in sentence


def test_release_page_shows_every_cluster_once_and_the_failed_one_first() -> None:
    view = view_release(build_scene([], [make_running(50)]), {"name": "rules-7"})
    assert view is not None
    rows: list[Any] = list(view["clusters"])
    assert len(rows) == 50 and len({row.key for row in rows}) == 50
    assert rows[0].mark is ProgressMark.FAILED and rows[0].evidence == "rule: Ready is False"
    assert rows[1].mark is ProgressMark.DRIFTED and rows[1].drift == (
        "NodeRemedier/rule: spec.mode",
    )
    tiles: list[Any] = list(view["stages"])
    assert [tile.key for tile in tiles] == ["test", "staging", "production"]
    assert [tile.current for tile in tiles] == [False, False, True]
    assert tiles[2].rules[-1] == "a person approves it"
    html = "".join(render(view))
    assert "NodeRemedier/rule" in html and "nobody yet" in html and "new-001" in html
    assert "did not exist, and a rollback deletes it" in html


def test_release_that_has_not_started_has_a_page() -> None:
    raw = make_running(25)
    del raw["status"]
    view = view_release(build_scene([], [raw]), {"name": "rules-7"})
    assert view is not None and not view["clusters"]
    assert "Captain has not observed it yet" in "".join(render(view))


def test_approval_is_shown_with_its_author() -> None:
    raw = make_running(25)
    raw["spec"]["approvals"] = [{"stage": "production", "by": "ada", "at": T0.isoformat()}]
    view = view_release(build_scene([], [raw]), {"name": "rules-7"})
    assert view is not None
    (approval,) = render({"approvals": view["approvals"]})
    assert "ada" in approval and "2026-01-01 12:00:00 UTC" in approval


def test_unknown_names_have_no_page() -> None:
    scene = build_scene([], [])
    assert view_release(scene, {"name": "a"}) is None
    assert view_cluster(scene, {"name": "a"}) is None


@pytest.mark.parametrize("phase", ClusterPhase)
def test_every_phase_of_a_cluster_has_a_mark_with_a_shape_of_its_own(phase: ClusterPhase) -> None:
    mark = mark_progress(ReleaseCluster(name="a", phase=phase))
    others = {mark_progress(ReleaseCluster(name="a", phase=p)).letter for p in ClusterPhase} - {
        mark.letter
    }
    assert len(others) == len(ClusterPhase) - 1


def test_previous_content_that_is_long_or_broken_is_bounded() -> None:
    ((_, long),) = format_content('{"a": {"spec": "' + "x" * 9000 + '"}}')
    assert len(long) < CONTENT_LENGTH + 20 and long.endswith("cut here")
    assert format_content("{")[0][0] == "not readable"
    assert format_content("[1]")[0][0] == "not readable"


# -- actions


def choices(**changes: Any) -> list[str]:
    raw = make_running(25)
    raw["spec"] |= changes.pop("spec", {})
    raw["status"] |= changes
    release = Release.model_validate(raw)
    return [f"{each.action} {each.stage}".strip() for each in list_choices(release)]


APPROVED = [{"stage": "production", "by": "ada"}]
STOP = {"reason": "ClustersFailed", "message": "one failed"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["Approve production", "Pause", "Rollback", "Abort"]),
        ({"spec": {"approvals": APPROVED}}, ["Pause", "Rollback", "Abort"]),
        (
            {"spec": {"state": "Pause"}},
            ["Approve production", "Resume", "Rollback", "Abort"],
        ),
        (
            {"stop": STOP, "phase": "Paused"},
            ["Approve production", "Pause", "Resume", "Rollback", "Abort"],
        ),
        ({"phase": "Succeeded", "stages": []}, ["Rollback"]),
        ({"phase": "RolledBack", "stages": []}, []),
        ({"phase": "Aborted", "stages": [], "spec": {"state": "Abort"}}, ["Rollback"]),
        ({"rollback": "User", "stages": []}, ["Pause", "Abort"]),
    ],
)
def test_page_offers_what_would_change_something(
    changes: dict[str, Any], expected: list[str]
) -> None:
    assert choices(**changes) == expected


def test_what_cannot_be_undone_is_marked() -> None:
    raw = Release.model_validate(make_running(25))
    severe = {each.action for each in list_choices(raw) if each.severe}
    assert severe == {ReleaseAction.ROLLBACK, ReleaseAction.ABORT}


# -- hostile, empty and large


def hostile() -> Any:
    cluster = make_unreachable("a", "test", EVIL)
    cluster["metadata"]["labels"] = {"a": EVIL}
    cluster["spec"]["kubeconfigRef"] = EVIL
    cluster["status"] |= {"version": EVIL[:64], "kinds": [EVIL[:63]]}
    cluster["status"]["conditions"].append(make_condition(EVIL, "True", EVIL, EVIL))
    raw = make_running(25)
    status = raw["status"]
    status |= {"message": EVIL, "stage": EVIL[:63]}
    staging = status["stages"][1]["clusters"]
    staging[0] |= {"name": EVIL, "evidence": EVIL, "drift": [EVIL], "previous": EVIL[:71]}
    status["previous"].append({"digest": EVIL[:71], "content": EVIL})
    content = '{"' + EVIL.replace('"', '\\"') + '": {"spec": "' + EVIL.replace('"', '\\"') + '"}}'
    status["previous"].append({"digest": "sha256:1", "content": content})
    status["snapshot"] |= {"joined": [EVIL], "left": [EVIL]}
    raw["spec"]["approvals"] = [{"stage": "test", "by": EVIL}]
    return build_scene([cluster], [raw])


@EVERY_PAGE
def test_no_text_of_a_member_or_a_person_becomes_markup(page: Any) -> None:
    name = "a" if page.name == "cluster" else "rules-7"
    html = "".join(render(page.build(hostile(), {"name": name, "q": "", "sort": EVIL})))
    assert html
    assert "<script" not in html and "<img" not in html
    assert "36863" not in html, "nobody's braces are a template's"
    for tag in re.findall(r"<[a-z][^>]*>", html):
        assert "onerror" not in re.sub(r'"[^"]*"', "", tag)


@EVERY_PAGE
def test_empty_captain_has_its_lists_and_no_other_page(page: Any) -> None:
    view = page.build(build_scene([], []), {"name": "a"})
    assert (view is None) is page.path.endswith("{name}")
    assert "No " in "".join(render(view)) or view is None


@EVERY_PAGE
def test_page_of_300_clusters_is_small_and_built_fast(page: Any) -> None:
    scene = build_scene(make_clusters(300), [make_running(300)])
    name = "production-002" if page.name == "cluster" else "rules-7"
    list(render(page.build(scene, {"name": name})))
    start = time.process_time()
    size = sum(map(len, render(page.build(scene, {"name": name}))))
    seconds = time.process_time() - start
    assert size < 500_000, f"{size} bytes"
    assert seconds < 2, f"{seconds} s"


def test_doubts_name_what_is_not_current() -> None:
    scene = build_scene([], [])
    assert list(list_doubts(scene)) == []
    (warn,) = list_doubts(replace(scene, late=("clusters",)))
    assert "clusters" in warn.text
    (warn,) = list_doubts(replace(scene, loaded=False))
    assert "still reading" in warn.text
