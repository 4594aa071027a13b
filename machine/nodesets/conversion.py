"""Convert NodeClasses, NodeSets and Nodes to MachineClasses, MachineSets and Machines. Pure.

docs/node-sets.md has the table of the fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubenode.api.base import API_VERSION, Resource
from kubenode.api.conditions import ConditionUpdate
from kubenode.api.meta import OwnerReference
from kubenode.api.share import share_of
from kubenode.api.v1alpha1 import MachineClass, MachineSet, NodeClass, NodeSet
from kubenode.api.v1alpha1.machine import MachineOrigin
from kubenode.api.v1alpha1.machineset import UpdatePolicy
from kubenode.api.v1alpha1.nodeclass import NodeClassUse
from kubenode.api.v1alpha1.nodeset import LONGEST_LABEL
from machine.names import NODE_CLASS, NODE_SET

Converted = MachineClass | MachineSet
MOST_REPLACING = 1000
"""Maximum of `health.maxReplacing` of a MachineSet."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """Result of a conversion.

    body: the object to make. None: nothing is changed.
    condition: whether the object could be converted.
    """

    body: dict[str, Any] | None
    condition: ConditionUpdate


def convert_class(node_class: NodeClass, existing: MachineClass | None) -> Conversion:
    """Return the MachineClass for the NodeClass. existing: the MachineClass of this name."""
    if existing is not None and not is_owned(existing, node_class):
        return _refused("NameTaken", f"MachineClass {_name(existing)} is not of this NodeClass")
    return _converted(node_class, MachineClass, machine_class_spec(node_class))


def convert_set(
    node_set: NodeSet, node_class: NodeClass | None, existing: MachineSet | None
) -> Conversion:
    """Return the MachineSet for the NodeSet. existing: the MachineSet of this name."""
    if len(_name(node_set)) > LONGEST_LABEL:
        longest = f"its Nodes are labelled with it: use at most {LONGEST_LABEL} characters"
        return _refused("NameTooLong", f"the name has {len(_name(node_set))} characters, {longest}")
    if existing is not None and not is_owned(existing, node_set):
        return _refused("NameTaken", f"MachineSet {_name(existing)} is not of this NodeSet")
    if node_class is None:
        return _refused("NodeClassMissing", f"there is no NodeClass {node_set.spec.node_class}")
    return _converted(node_set, MachineSet, machine_set_spec(node_set, node_class))


def machine_class_spec(node_class: NodeClass) -> dict[str, Any]:
    """Return the fields of the MachineClass that the NodeClass decides."""
    spec = node_class.spec
    return {
        "provider": spec.node_controller.value,
        "config": spec.config,
        "userDataRef": spec.find_reference(NodeClassUse.USER_DATA),
        "credentialsRef": spec.find_reference(NodeClassUse.CREDENTIALS),
    }


def machine_set_spec(node_set: NodeSet, node_class: NodeClass) -> dict[str, Any]:
    """Return the fields of the MachineSet that the NodeSet decides."""
    spec, own = node_set.spec, {NODE_SET: _name(node_set)}
    labels = {NODE_CLASS: spec.node_class, **own}
    return {
        "replicas": spec.replicas,
        "selector": {"matchLabels": own},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "classRef": spec.node_class,
                "nodeTemplate": {"labels": {**node_class.spec.node_labels, **labels}},
            },
        },
        "updatePolicy": UpdatePolicy.REPLACE.value,
        "maxSurge": spec.max_surge,
        "health": {"maxReplacing": _count_replacing(node_set)},
    }


def make_machine(node: str, node_class: NodeClass) -> dict[str, Any]:
    """Return the Machine for a Node that somebody created with the label of the class."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Machine",
        "metadata": {"name": node, "labels": {NODE_CLASS: _name(node_class)}},
        "spec": {
            "origin": MachineOrigin.PROVISION.value,
            "classRef": _name(node_class),
            "nodeTemplate": {"labels": node_class.spec.node_labels},
        },
    }


def is_owned(existing: Converted, owner: NodeClass | NodeSet) -> bool:
    """Return whether the NodeClass or NodeSet controls the object."""
    references = existing.metadata.owner_references
    return any(each.controller and each.uid == owner.metadata.uid for each in references)


def list_changes(existing: Converted, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch of the spec, {} for none. Fields that `wanted` lacks stay."""
    have = existing.spec.to_dict()
    full = type(existing.spec).model_validate(wanted).to_dict()
    return {key: _merge(have.get(key), full[key]) for key in wanted if have.get(key) != full[key]}


def _merge(have: Any, want: Any) -> Any:
    """Return the merge patch (RFC 7386) that turns one value into the other."""
    if not isinstance(have, dict) or not isinstance(want, dict):
        return want
    gone = dict.fromkeys(have.keys() - want.keys())
    changed = {key: _merge(have.get(key), value) for key, value in want.items()}
    return {**gone, **changed}


def _count_replacing(node_set: NodeSet) -> int:
    """Return how many machines an update replaces at once.

    A set with a surge creates the new machine first, so `maxUnavailable` counts only without it.
    """
    spec = node_set.spec
    surge = share_of(spec.max_surge, spec.replicas)
    spare = surge or share_of(spec.max_unavailable, spec.replicas)
    return min(max(1, spare), MOST_REPLACING)


def _converted(
    owner: NodeClass | NodeSet, kind: type[Resource], spec: dict[str, Any]
) -> Conversion:
    reference = OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=_name(owner),
        uid=owner.metadata.uid,
        controller=True,
    )
    body = {
        "apiVersion": API_VERSION,
        "kind": kind.resource.kind,
        "metadata": {"name": _name(owner), "ownerReferences": [reference.to_dict()]},
        "spec": spec,
    }
    made = f"{kind.resource.kind} {_name(owner)}"
    return Conversion(body, ConditionUpdate.of(True, "Converted", f"it is {made}"))


def _refused(reason: str, message: str) -> Conversion:
    return Conversion(None, ConditionUpdate.of(False, reason, message))


def _name(resource: Converted | NodeClass | NodeSet) -> str:
    return resource.metadata.name
