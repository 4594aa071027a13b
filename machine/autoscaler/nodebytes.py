"""The Node of a new machine in the protobuf encoding of Kubernetes.

Field numbers are those of k8s.io/api/core/v1/generated.proto, and of its imports for metadata and
quantities.
"""

from collections.abc import Mapping
from typing import Any

from machine.autoscaler.protobuf import Fields, build_messages
from machine.autoscaler.template import NodeTemplate

TABLE: Mapping[str, Fields] = {
    "Quantity": {"string": "1 string"},
    "ObjectMeta": {"name": "1 string", "labels": "11 map string"},
    "Taint": {"key": "1 string", "value": "2 string", "effect": "3 string"},
    "NodeSpec": {"taints": "5 repeated Taint"},
    "NodeCondition": {"type": "1 string", "status": "2 string"},
    "NodeStatus": {
        "capacity": "1 map Quantity",
        "allocatable": "2 map Quantity",
        "conditions": "4 repeated NodeCondition",
    },
    "Node": {"metadata": "1 ObjectMeta", "spec": "2 NodeSpec", "status": "3 NodeStatus"},
}
MESSAGES: Mapping[str, Any] = build_messages("k8s.io.api.core.v1", TABLE)


def encode_node(template: NodeTemplate) -> bytes:
    """Return the Node as `v1.Node.Marshal()` of Kubernetes does, Ready and without pods."""
    node = MESSAGES["Node"]()
    node.metadata.name = template.name
    node.metadata.labels.update(template.labels)
    for key, value, effect in template.taints:
        node.spec.taints.add(key=key, value=value, effect=effect)
    for resource, amount in template.capacity.items():
        node.status.capacity[resource].string = amount
    for resource, amount in template.allocatable.items():
        node.status.allocatable[resource].string = amount
    node.status.conditions.add(type="Ready", status="True")
    encoded: bytes = node.SerializeToString(deterministic=True)
    return encoded
