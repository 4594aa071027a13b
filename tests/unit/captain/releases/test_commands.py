"""What `kubenode release` reads from files and says about releases, without a cluster."""

import json
from pathlib import Path

import pytest
from support.clock import T0
from support.release_world import (
    MemberDouble,
    ReleaseWorldDouble,
    make_component,
    make_pipeline,
    make_release,
    make_rule,
    make_stage,
)

from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import ReleasePhase, ReleaseState
from kubenode.cli.exits import Refusal
from kubenode.cli.release_report import build_row, describe_release
from kubenode.cli.release_start import (
    StartRequest,
    build_plan,
    build_release,
    describe_plan,
    read_payload,
)
from kubenode.runtime.release_control import find_objection


def write(folder: Path, *objects: object) -> Path:
    path = folder / "payload.yaml"
    path.write_text("\n---\n".join(json.dumps(each) for each in objects))
    return path


def test_release_of_files_is_valid_and_has_the_digest_that_captain_computes(tmp_path: Path) -> None:
    payload = read_payload([write(tmp_path, make_component(), make_rule())])
    request = StartRequest("a", (), "online", force=True, dry_run=False)
    release = Release.from_user(build_release(request, payload))
    assert release.spec.digest == make_release(make_component(), make_rule()).spec.digest
    assert release.spec.on_conflict == "Force"


@pytest.mark.parametrize(
    ("obj", "problem"),
    [
        ({"kind": "Secret"}, "kind: 'Secret' may not be released; write one of NodeRemedier"),
        ([], "kind: None may not be released"),
        ({**make_rule(), "metadata": {}}, "metadata.name"),
        ({**make_rule(), "spec": {"mode": "Enforce"}}, "spec.nodes"),
    ],
)
def test_object_that_may_not_be_released_is_refused_with_its_place(
    tmp_path: Path, obj: object, problem: str
) -> None:
    with pytest.raises(Refusal) as refusal:
        read_payload([write(tmp_path, obj)])
    assert f"{tmp_path}/payload.yaml:1:1: " in str(refusal.value)
    assert problem in str(refusal.value)


def test_files_without_an_object_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "payload.yaml"
    path.write_text("# nothing\n")
    with pytest.raises(Refusal, match="no objects"):
        read_payload([path])


def test_plan_lists_clusters_in_order_and_what_prevents_the_start() -> None:
    pipeline = make_pipeline(make_stage("test"), make_stage("production", approval="Before"))
    labels = {"t-2": {"stage": "test"}, "t-1": {"stage": "test"}}
    plan = build_plan(make_release().spec.payload, pipeline, labels)
    lines = list(describe_plan(plan))
    assert "NodeRemedier/rule" in lines[0]
    assert "t-1, t-2" in lines[2]
    assert lines[-1].startswith("it cannot start: EmptyStage: no MemberCluster matches")
    assert plan.to_json()["stages"][1] == {
        "name": "production",
        "approval": "Before",
        "clusters": [],
    }


def stopped() -> Release:
    member = MemberDouble("t-1", "test")
    member.healthy = False
    world = ReleaseWorldDouble(make_pipeline(make_stage("test")), [member])
    world.store.put(make_release())
    world.run()
    return world.store.get()


def test_stop_is_explained_with_its_cause_and_what_to_do() -> None:
    text = "\n".join(describe_release(stopped()))
    assert text.startswith("Release release: Paused, ClustersFailed\n")
    assert "t-1: Failed, Unhealthy: NodeRemedier/rule: " in text
    assert "`kubenode release rollback release`" in text
    assert build_row(stopped())["clusters"] == "1/1"


def test_release_that_captain_has_not_observed_is_explained() -> None:
    (line,) = describe_release(make_release())
    assert "does `kubenode run captain` run?" in line


@pytest.mark.parametrize(
    ("phase", "state", "problem"),
    [
        (ReleasePhase.RUNNING, ReleaseState.ABORT, ""),
        (ReleasePhase.SUCCEEDED, ReleaseState.ROLLBACK, ""),
        (ReleasePhase.SUCCEEDED, ReleaseState.PAUSE, "it has ended, Succeeded"),
        (ReleasePhase.ABORTED, ReleaseState.RUN, "it has ended, Aborted"),
        (ReleasePhase.ROLLED_BACK, ReleaseState.ROLLBACK, "it is rolled back"),
    ],
)
def test_state_that_would_change_nothing_is_refused(
    phase: ReleasePhase, state: ReleaseState, problem: str
) -> None:
    release = make_release()
    status = release.status.model_copy(update={"phase": phase, "ended_at": T0})
    found = find_objection(release.model_copy(update={"status": status}), state)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)
