"""What is said of a MachineClass: what it makes machines from, and whether it can."""

import pytest

from kubenode.api.v1alpha1.machineclass import MachineClassSpec
from machine.machineclass.step import class_hash, ready


def a_spec(**more: object) -> MachineClassSpec:
    return MachineClassSpec.model_validate(
        {"provider": "local", "config": {"a": 1, "b": 2}, **more}
    )


@pytest.mark.parametrize(
    "static",
    [{"config": {"a": 1}}, {"failureDomain": "b"}, {"userDataRef": "u"}, {"provider": "aws"}],
)
def test_what_a_machine_is_made_from_forms_the_hash(static: dict[str, object]) -> None:
    assert class_hash(a_spec(**static)) != class_hash(a_spec())


@pytest.mark.parametrize(
    "other",
    [
        {"config": {"b": 2, "a": 1}},
        {"limits": {"maxInstances": 1}},
        {"createTimeout": "1m"},
        {"credentialsRef": "ram"},
    ],
)
def test_how_it_is_made_does_not(other: dict[str, object]) -> None:
    assert class_hash(a_spec(**other)) == class_hash(a_spec())


def test_invariant_11_the_hash_is_the_same_in_every_release() -> None:
    assert class_hash(a_spec()) == "1-0476306839"


def test_what_is_wrong_is_told_before_who_is_not_let_in() -> None:
    assert ready(["config.image: missing"], "no key").reason == "ConfigInvalid"
    assert ready([], "no key").reason == "CredentialsInvalid"
    assert ready([], "").status == "True"
