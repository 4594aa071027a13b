"""The page of one rollout: a mark for each machine, batches, and what a person can do."""

from typing import Any

import msgspec
import pytest
from support.dashboard_scenes import a_scene
from support.dashboard_world import (
    NEW_REVISION,
    OLD_REVISION,
    a_machine,
    a_node,
    a_rollout,
    some_machines,
    some_rollouts,
)

from defender.dashboard.machine import RolloutMachine
from defender.dashboard.render import Renderer
from defender.dashboard.rollout import SetRollout
from defender.dashboard.scene import Scene
from defender.dashboard.views import rollout
from defender.dashboard.views.rollout import MachineMark, RolloutAction, mark_of

REVISIONS = [
    {"name": OLD_REVISION, "number": 1, "component": "runc-1"},
    {"name": NEW_REVISION, "number": 2, "component": "runc-2"},
]


def a_set(body: dict[str, Any]) -> SetRollout:
    return msgspec.convert(body, SetRollout, strict=False)


def machine(body: dict[str, Any]) -> RolloutMachine:
    return msgspec.convert(body, RolloutMachine, strict=False)


def scene(machines: list[dict[str, Any]] | None = None) -> Scene:
    sets = {body["metadata"]["name"]: a_set(body) for body in some_rollouts()}
    bodies = some_machines() if machines is None else machines
    known = {body["metadata"]["name"]: machine(body) for body in bodies}
    return a_scene([a_node("n00001")], rollouts=sets, machines=known)


def actions(spec: dict[str, Any], **status: Any) -> dict[RolloutAction, str]:
    body = a_rollout("runc", "runc-2", "Updating", **status)
    body["spec"] |= spec
    return {each.action: each.revision for each in rollout.action_choices(a_set(body))}


def stopped(reason: str) -> dict[str, Any]:
    condition = {"type": "Paused", "status": "True", "reason": reason, "message": "why"}
    return {"conditions": [condition]}


# -- marks


@pytest.mark.parametrize(
    ("given", "mark"),
    [
        ({}, MachineMark.UPDATED),
        ({"ready": False}, MachineMark.UNWELL),
        ({"state": "Applying"}, MachineMark.CHANGING),
        ({"state": "Failed"}, MachineMark.FAILED),
        ({"state": "DriftFight"}, MachineMark.FAILED),
        ({"revision": OLD_REVISION}, MachineMark.PREVIOUS),
        ({"revision": ""}, MachineMark.NONE),
    ],
)
def test_mark_is_by_what_is_assigned_and_reported(given: dict[str, Any], mark: MachineMark) -> None:
    made = machine(a_machine("m", **given))
    assert mark_of(made, made.assigned_by("containerd"), NEW_REVISION) is mark


def test_report_about_an_earlier_attempt_is_no_success() -> None:
    body = a_machine("m")
    body["spec"]["components"][0]["attempt"] = 2
    made = machine(body)
    assert mark_of(made, made.assigned_by("containerd"), NEW_REVISION) is MachineMark.CHANGING


def test_marks_have_different_symbols() -> None:
    assert len({mark.letter for mark in MachineMark}) == len(MachineMark)


def test_machines_are_shown_by_batch_and_failed_ones_first() -> None:
    view = rollout.view(scene(), "containerd")
    assert view is not None
    batches = {each.key: each for each in view["batches"] if isinstance(each, rollout.BatchMarks)}
    assert list(batches) == ["batch-1", "batch-2", "batch-3", "batch-0"]
    assert batches["batch-3"].counts == (("f", "Failed", 1), ("r", "Changing", 2))
    assert batches["batch-0"].counts == (
        ("c", "Previous revision", 9), ("s", "Nothing assigned", 1),
    )  # fmt: skip
    first = view["machines"][0]
    assert isinstance(first, rollout.RolloutMachineRow)
    assert (first.key, first.why) == ("n00017", "Failed: containerd.service is failed")


def test_a_machine_that_the_batch_calls_failed_is_failed_until_it_is_updated() -> None:
    view = rollout.view(scene([a_machine("n00017", OLD_REVISION)]), "containerd")
    assert view is not None
    (row,) = view["machines"]
    assert isinstance(row, rollout.RolloutMachineRow)
    assert row.mark is MachineMark.FAILED


def test_machines_of_other_sets_are_not_shown() -> None:
    body = a_machine("m", set_="other")
    body["metadata"]["labels"] = {"pool": "batch"}
    view = rollout.view(scene([body]), "containerd")
    assert view is not None
    assert view["machines"] == []


def test_a_set_that_is_not_there_has_no_page() -> None:
    assert rollout.view(scene(), "nothing") is None


def test_head_says_why_it_stopped_and_which_batch_is_next() -> None:
    view = rollout.view(scene(), "containerd")
    assert view is not None
    html = Renderer().part(view["rollout"][0], "")
    assert "AutoPaused</span>: n00017 failed in batch 3" in html
    assert '<li aria-current="step">10</li>' in html
    assert "Bake time" in html


@pytest.mark.exhaustive
def test_ten_thousand_machines_are_bounded() -> None:
    many = [a_machine(f"m{n:05d}", batch=n // 500 + 1) for n in range(10_000)]
    view = rollout.view(scene(many), "containerd")
    assert view is not None
    size = sum(len(Renderer().part(part, "")) for parts in view.values() for part in parts)
    assert len(view["machines"]) == rollout.MOST_ROWS
    assert size < 200_000


# -- actions


def test_actions_are_those_that_make_sense_now() -> None:
    pause, resume, retry, undo = RolloutAction
    during = {
        "currentRevision": OLD_REVISION, "updateRevision": NEW_REVISION, "revisions": REVISIONS,
    }  # fmt: skip
    assert actions({}) == {pause: ""}
    assert actions({}, **during) == {pause: "", undo: OLD_REVISION}
    assert actions({"paused": True}) == {resume: ""}
    assert actions({"frozen": True}) == {resume: "", pause: ""}
    assert actions({}, **stopped("AutoPaused")) == {retry: "", pause: ""}
    assert actions({"paused": True}, **stopped("Inconclusive")) == {retry: ""}
    assert actions({"paused": True}, **stopped("User")) == {resume: ""}


def test_an_undo_names_the_component_that_returns() -> None:
    view = rollout.view(scene(), "containerd")
    assert view is not None
    html = Renderer().part(view["actions"][0], "")
    assert f"revision {OLD_REVISION} (containerd-2.1.3) again" in html
    assert "Confirm: undo" in html
