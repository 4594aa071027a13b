"""What resumes and undoes the rollout of a component set."""

from typing import Any

import pytest

from kubenode.api.rollouts import find_stop, find_undo, list_names, undo_spec
from kubenode.api.v1alpha1 import MachineComponentSet

ONE, TWO, THREE = (f"1-{number:010x}" for number in (1, 2, 3))


def a_set(component: str, current: str, update: str, **given: Any) -> MachineComponentSet:
    revisions = [
        {"name": ONE, "number": 1, "component": "runc-1", "values": {"a": "1", "b": "2"}},
        {"name": TWO, "number": 2, "component": "runc-2"},
        {"name": THREE, "number": 3, "component": "runc-3", "values": {"a": "3"}},
    ]
    spec = {"selector": {"matchLabels": {"a": "b"}}, "component": component}
    status = {"currentRevision": current, "updateRevision": update, "revisions": revisions}
    return MachineComponentSet.model_validate(
        {
            "metadata": {"name": "runc"},
            "spec": spec | given.pop("spec", {}),
            "status": status | given,
        }
    )


@pytest.mark.parametrize(
    ("component", "values", "current", "update", "rejected", "target"),
    [
        ("runc-3", {"a": "3"}, TWO, THREE, "", TWO),
        ("runc-3", {"a": "3"}, TWO, THREE, THREE, TWO),
        ("runc-3", {"a": "3"}, THREE, THREE, "", TWO),
        ("runc-3", {"a": "3"}, THREE, THREE, TWO, ONE),
        ("runc-1", {"a": "1", "b": "2"}, ONE, ONE, "", None),
        ("runc-2", {}, TWO, THREE, "", None),
        ("runc-1", {"a": "1", "b": "2"}, "", ONE, "", None),
    ],
    ids=["during", "rejected", "after", "older was rejected", "first", "asked already", "none"],
)
def test_undo_returns_to_the_current_or_an_older_good_revision(
    component: str,
    values: dict[str, str],
    current: str,
    update: str,
    rejected: str,
    target: str | None,
) -> None:
    set_ = a_set(component, current, update, rejectedRevision=rejected, spec={"values": values})
    undo = find_undo(set_)
    assert (undo and undo.name) == target


def test_undo_removes_values_that_the_revision_lacks() -> None:
    set_ = a_set("runc-3", TWO, THREE, spec={"values": {"a": "3"}})
    target = find_undo(set_)
    assert target is not None
    assert undo_spec(set_, target) == {
        "component": "runc-2", "values": {"a": None}, "desiredState": "Running",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "reason", "stops"),
    [("True", "AutoPaused", True), ("True", "User", False), ("False", "AutoPaused", False)],
)
def test_only_a_set_that_paused_itself_has_stopped(status: str, reason: str, stops: bool) -> None:
    condition = {
        "type": "Paused", "status": status, "reason": reason, "message": "why",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }  # fmt: skip
    assert (find_stop(a_set("runc-2", TWO, TWO, conditions=[condition])) is not None) is stops


def test_many_names_are_counted() -> None:
    assert list_names(["b", "a"]) == "a, b"
    assert list_names("gfedcba") == "a, b, c, d, e and 2 more"
