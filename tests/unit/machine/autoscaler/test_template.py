"""The Node of a new machine, which an autoscaler simulates, and its bytes."""

from typing import Any

import pytest
from support.node_groups import a_group, a_group_class

from machine.autoscaler.nodebytes import MESSAGES, encode_node
from machine.autoscaler.template import NodeTemplate, build_template


def template(class_: dict[str, Any], **node_template: Any) -> NodeTemplate | None:
    group = a_group(template={"nodeTemplate": node_template})
    return build_template(group, a_group_class(**class_))


def test_template_has_labels_taints_and_resources_of_class_and_set() -> None:
    node = {
        "labels": {"node.kubernetes.io/instance-type": "large"},
        "capacity": {"cpu": "4", "memory": "16Gi"},
        "allocatable": {"cpu": "3900m"},
    }
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    built = template(
        {"node": node, "failureDomain": "zone-a"}, labels={"pool": "a"}, taints=[taint]
    )
    assert built is not None
    assert built.labels == {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": "pool-template",
        "topology.kubernetes.io/zone": "zone-a",
        "node.kubernetes.io/instance-type": "large",
        "pool": "a",
    }
    assert built.taints == (("team", "a", "NoSchedule"),)
    assert built.capacity == {"cpu": "4", "memory": "16Gi", "pods": "110"}
    assert built.allocatable == {"cpu": "3900m", "memory": "16Gi", "pods": "110"}


def test_template_lacks_taints_that_others_remove_after_the_start() -> None:
    taint = {"key": "boot", "effect": "NoSchedule", "propagation": "OnInitialization"}
    built = template({"node": {"capacity": {"cpu": "1"}}}, taints=[taint])
    assert built is not None and built.taints == ()


@pytest.mark.parametrize("class_", [{}, None])
def test_template_is_unknown_without_resources_of_the_class(class_: dict[str, Any] | None) -> None:
    known = None if class_ is None else a_group_class(**class_)
    assert build_template(a_group(), known) is None


def test_node_is_encoded_with_the_field_numbers_of_kubernetes() -> None:
    node = NodeTemplate("n", {"a": "b"}, (("k", "v", "e"),), {"cpu": "4"}, {"cpu": "3"})
    metadata = b"\x0a\x01n" + b"\x5a\x06\x0a\x01a\x12\x01b"  # name 1, labels 11
    spec = b"\x2a\x09\x0a\x01k\x12\x01v\x1a\x01e"  # taints 5
    status = (
        b"\x0a\x0a\x0a\x03cpu\x12\x03\x0a\x014"  # capacity 1
        b"\x12\x0a\x0a\x03cpu\x12\x03\x0a\x013"  # allocatable 2
        b"\x22\x0d\x0a\x05Ready\x12\x04True"  # conditions 4
    )
    parts = ((1, metadata), (2, spec), (3, status))
    wanted = b"".join(bytes([number << 3 | 2, len(part)]) + part for number, part in parts)
    assert encode_node(node) == wanted
    assert MESSAGES["Node"].FromString(wanted).status.capacity["cpu"].string == "4"
