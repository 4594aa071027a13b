"""NodeClasses and NodeSets as MachineClasses and MachineSets: docs/node-sets.md, line by line."""

from typing import Any

import pytest
from support.api_objects import GOOD

from kubenode.api.v1alpha1 import Machine, MachineClass, MachineSet, NodeClass, NodeSet
from machine.names import NODE_CLASS, NODE_SET
from machine.nodesets.conversion import convert_class, convert_set, list_changes, make_machine


def a_node_class(name: str = "small", **spec: Any) -> NodeClass:
    body = GOOD["node-class"]
    metadata = {"name": name, "uid": f"uid-{name}"}
    return NodeClass.model_validate(
        {**body, "metadata": metadata, "spec": {**body["spec"], **spec}}
    )


def a_node_set(name: str = "online", **spec: Any) -> NodeSet:
    body = GOOD["node-set"]
    metadata = {"name": name, "uid": f"uid-{name}"}
    return NodeSet.model_validate({**body, "metadata": metadata, "spec": {**body["spec"], **spec}})


def machine_set(**spec: Any) -> MachineSet:
    body = convert_set(a_node_set(**spec), a_node_class(), None).body
    assert body is not None
    return MachineSet.from_user(body)


def machine_class(**spec: Any) -> MachineClass:
    body = convert_class(a_node_class(**spec), None).body
    assert body is not None
    return MachineClass.from_user(body)


def test_a_node_class_becomes_a_machine_class() -> None:
    made = machine_class()
    assert (made.metadata.name, made.spec.provider) == ("small", "alibaba")
    assert made.spec.config == GOOD["node-class"]["spec"]["config"]
    assert (made.spec.user_data_ref, made.spec.credentials_ref) == ("debian12", "ram")
    bare = machine_class(resources=[])
    assert (bare.spec.user_data_ref, bare.spec.credentials_ref) == ("", "")


def test_a_node_set_becomes_a_machine_set() -> None:
    made = machine_set()
    assert (made.metadata.name, made.spec.replicas) == ("online", 3)
    assert made.spec.selector.match_labels == {NODE_SET: "online"}
    template = made.spec.template
    assert template.metadata.labels == {NODE_CLASS: "small", NODE_SET: "online"}
    assert template.spec.class_ref == "small"
    assert template.spec.node_template.labels == {
        "pool": "online",
        NODE_CLASS: "small",
        NODE_SET: "online",
    }
    assert made.spec.update_policy == "Replace"


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "replacing"),
    [
        (1, 0, 3, 1),
        (3, 2, 10, 3),
        (0, 2, 10, 2),
        ("30%", 0, 10, 3),
        ("0%", "20%", 10, 2),
        ("1%", 0, 10, 1),
        (0, "1%", 10, 1),
        (5000, 0, 10, 1000),
    ],
)
def test_surge_and_unavailability_of_an_update_are_kept(
    surge: int | str, unavailable: int | str, replicas: int, replacing: int
) -> None:
    made = machine_set(maxSurge=surge, maxUnavailable=unavailable, replicas=replicas)
    assert (made.spec.max_surge, made.spec.health.max_replacing) == (surge, replacing)


def test_converted_objects_belong_to_their_source() -> None:
    for made, owner in ((machine_set(), a_node_set()), (machine_class(), a_node_class())):
        (reference,) = made.metadata.owner_references
        assert reference.controller
        assert (reference.kind, reference.name) == (owner.kind, owner.metadata.name)
        assert reference.uid == owner.metadata.uid


def test_an_object_of_somebody_else_is_left_alone() -> None:
    foreign_set, foreign_class = machine_set(), machine_class()
    foreign_set.metadata.owner_references[0].uid = "other"
    foreign_class.metadata.owner_references[0].controller = False
    for refused in (
        convert_set(a_node_set(), a_node_class(), foreign_set),
        convert_class(a_node_class(), foreign_class),
    ):
        assert refused.body is None
        assert (refused.condition.status, refused.condition.reason) == ("False", "NameTaken")


def test_a_set_without_its_class_or_with_too_long_a_name_changes_nothing() -> None:
    missing = convert_set(a_node_set(), None, machine_set())
    assert (missing.body, missing.condition.reason) == (None, "NodeClassMissing")
    assert "NodeClass small" in missing.condition.message
    long = convert_set(a_node_set("n" * 64), a_node_class(), None)
    assert (long.body, long.condition.reason) == (None, "NameTooLong")
    assert convert_set(a_node_set("n" * 63), a_node_class(), None).body is not None


def test_a_converted_object_is_not_written_again() -> None:
    for made, conversion in (
        (machine_set(), convert_set(a_node_set(), a_node_class(), machine_set())),
        (machine_class(), convert_class(a_node_class(), machine_class())),
    ):
        assert conversion.body is not None
        assert list_changes(made, conversion.body["spec"]) == {}


def test_only_what_differs_is_written_and_what_is_gone_is_removed() -> None:
    made = machine_set()
    fewer = convert_set(a_node_set(replicas=1), a_node_class(), made).body
    assert fewer is not None
    assert list_changes(made, fewer["spec"]) == {"replicas": 1}
    unlabelled = convert_set(a_node_set(), a_node_class(nodeLabels={}), made).body
    assert unlabelled is not None
    changed = list_changes(made, unlabelled["spec"])
    labels = changed["template"]["spec"]["nodeTemplate"]["labels"]
    assert labels["pool"] is None and labels[NODE_SET] == "online"
    other = convert_class(a_node_class(config={"image": "x"}), machine_class()).body
    assert other is not None
    wanted = {"image": "x", "instanceType": None, "disks": None}
    assert list_changes(machine_class(), other["spec"]) == {"config": wanted}


def test_what_the_node_set_does_not_decide_stays() -> None:
    body = {**machine_set().to_dict()}
    body["spec"] |= {"scaleIn": {"order": "Oldest"}, "autoscaling": {"maxReplicas": 9}}
    edited = MachineSet.from_user(body)
    conversion = convert_set(a_node_set(), a_node_class(), edited)
    assert conversion.body is not None
    assert list_changes(edited, conversion.body["spec"]) == {}


def test_the_machine_of_a_node_has_its_name_and_class() -> None:
    made = Machine.from_user(make_machine("worker-7", a_node_class()))
    assert (made.metadata.name, made.node_name) == ("worker-7", "worker-7")
    assert (made.spec.origin, made.spec.class_ref) == ("Provision", "small")
    assert made.metadata.labels == {NODE_CLASS: "small"}
    assert made.spec.node_template.labels == {"pool": "online"}
    assert not made.metadata.owner_references
