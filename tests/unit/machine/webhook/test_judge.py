"""What the Machine operator says of objects before they are stored."""

from collections.abc import Mapping
from typing import Any

import pytest
from support.api_objects import GOOD, changed

from kubenode.api.base import Resource
from kubenode.api.v1alpha1 import (
    Machine,
    MachineClass,
    MachineComponent,
    MachineComponentSet,
    MachineSet,
)
from kubenode.runtime.admission.review import AdmissionVerdict
from machine.webhook.judge import KINDS, AdmissionContext, judged

NAMES = {"machine": "machines", "class": "machineclasses", "set": "machinesets"}
NAMES |= {"component": "machinecomponents", "rollout": "machinecomponentsets"}


def named(good: str, name: str, **changes: Any) -> dict[str, Any]:
    made = changed(GOOD[good], "metadata.name", name)
    for path, value in changes.items():
        made = changed(made, path.replace("__", "."), value)
    return dict(made)


def there(*objects: Mapping[str, Any]) -> AdmissionContext:
    found: dict[str, dict[str, Any]] = {kind.resource.plural: {} for kind in KINDS.values()}
    for each in objects:
        kind: type[Resource] = next(k for k in KINDS.values() if k.resource.kind == each["kind"])
        found[kind.resource.plural][each["metadata"]["name"]] = kind.from_user(each)
    plurals = (Machine, MachineClass, MachineSet, MachineComponent, MachineComponentSet)
    return AdmissionContext(*(found[kind.resource.plural] for kind in plurals))


def ask(
    good: str, new: Mapping[str, Any] | None, known: AdmissionContext, name: str = "new"
) -> AdmissionVerdict:
    def validate(provider: str, config: Mapping[str, Any]) -> list[str]:
        return (
            [] if "instanceType" in config else [f"spec.config.instanceType: {provider} needs it"]
        )

    return judged(f"{NAMES[good]}.kubenode.io", new, name, known, validate)


@pytest.mark.parametrize("good", NAMES)
def test_what_is_good_and_alone_is_let_in(good: str) -> None:
    assert ask(good, named(good, "new"), there()).allowed


def test_a_node_has_one_machine() -> None:
    first = named("machine", "first", spec__nodeName="sh-1")
    answer = ask("machine", named("machine", "second", spec__nodeName="sh-1"), there(first))
    assert not answer.allowed
    assert "sh-1" in answer.message
    assert "Machine first" in answer.message


def test_a_machine_may_be_written_again_and_a_host_outside_has_no_node() -> None:
    first = named("machine", "first", spec__nodeName="sh-1")
    assert ask("machine", first, there(first)).allowed
    outside = named("machine", "out", spec__nodeName="sh-1", spec__node="None")
    assert ask("machine", outside, there(first)).allowed


def test_one_address_of_two_machines_is_warned_of() -> None:
    first = named("machine", "first", spec__nodeName="sh-1")
    answer = ask("machine", named("machine", "second", spec__nodeName="sh-2"), there(first))
    assert answer.allowed
    assert "10.2.7.113" in answer.warnings[0]


def test_a_class_is_checked_by_its_provider() -> None:
    answer = ask("class", named("class", "new", spec__config={"size": 1}), there())
    assert not answer.allowed
    assert answer.message == "spec.config.instanceType: alibaba needs it"


def test_two_sets_never_own_the_same_machines() -> None:
    first = named("set", "first")
    answer = ask("set", named("set", "second"), there(first))
    assert not answer.allowed
    assert "MachineSet first" in answer.message


def test_a_set_of_a_class_to_come_is_warned_of() -> None:
    assert "ecs-a" in ask("set", named("set", "new"), there()).warnings[0]
    assert not ask("set", named("set", "new"), there(named("class", "ecs-a"))).warnings


@pytest.mark.parametrize("word", ["value.pause", "machine.uid", "machine.", "HOME", ""])
def test_an_unknown_placeholder_is_refused_by_its_name(word: str) -> None:
    bad = named("component", "new", spec__files__0__content={"inline": f"a ${{{word}}} b"})
    answer = ask("component", bad, there())
    assert not answer.allowed
    assert f"${{{word}}}" in answer.message
    assert "file /etc/containerd/conf.d/10.toml" in answer.message


def test_a_component_never_depends_on_itself() -> None:
    needs = [{"component": "containerd"}]
    answer = ask("component", named("component", "new", spec__dependsOn=needs), there())
    assert not answer.allowed
    assert "containerd depends on itself" in answer.message


def test_a_component_in_use_is_not_deleted() -> None:
    user = named("machine", "sh-1")
    answer = ask("component", None, there(user), name="containerd-2.1.4")
    assert not answer.allowed
    assert "sh-1" in answer.message
    assert ask("component", None, there(user), name="runc-1").allowed


def test_a_set_says_how_many_machines_it_selects() -> None:
    machines = [
        named("machine", "a", spec__nodeName="a"),
        named("machine", "b", spec__nodeName="b", metadata__labels={"pool": "batch"}),
    ]
    known = there(*machines, named("component", "containerd-2.1.4"))
    answer = ask("rollout", named("rollout", "new"), known)
    assert answer.allowed
    assert list(answer.warnings) == ["selects 1 of 2 machines"]


def test_a_value_that_the_component_needs_is_asked_for() -> None:
    known = there(named("component", "containerd-2.1.4"))
    answer = ask("rollout", named("rollout", "new", spec__values={"paus": "3.10"}), known)
    assert not answer.allowed
    assert "spec.values: pause" in answer.message


def test_two_sets_of_one_family_are_warned_of_the_machines_they_share() -> None:
    known = there(
        named("machine", "a"), named("component", "containerd-2.1.4"), named("rollout", "older")
    )
    told = ask("rollout", named("rollout", "new"), known).warnings
    assert any("MachineComponentSet older" in warning for warning in told)


@pytest.mark.parametrize("good", NAMES)
def test_what_does_not_fit_its_model_is_refused_by_field(good: str) -> None:
    answer = ask(good, named(good, "new", spec={}), there())
    assert not answer.allowed
    assert "spec" in answer.message
