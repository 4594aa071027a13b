"""Finds when a revision of an object began, and the nodes that it concerns. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from kubenode.api.base import Resource
from kubenode.api.v1alpha1 import (
    Machine,
    MachineClass,
    MachineComponent,
    MachineComponentSet,
    MachineSet,
)

Raw = Mapping[str, Any]


def find_start(object_: Resource, metadata: Raw) -> datetime | None:
    """Return when the revision began: a component set records it; otherwise the last write of the
    spec counts. None if neither is known.

    metadata: the metadata as served, with managedFields.
    """
    if isinstance(object_, MachineComponentSet):
        status = object_.status
        revision = next((r for r in status.revisions if r.name == status.update_revision), None)
        if revision is not None and revision.created_at is not None:
            return revision.created_at
    times = [*_list_spec_writes(metadata), metadata.get("creationTimestamp")]
    return max((datetime.fromisoformat(at) for at in times if at), default=None)


def _list_spec_writes(metadata: Raw) -> Iterator[str]:
    for entry in metadata.get("managedFields") or ():
        if not entry.get("subresource") and "f:spec" in entry.get("fieldsV1", {}):
            yield entry.get("time", "")


def select_nodes(object_: Resource, machines: Iterable[Machine]) -> set[str]:
    """Return the names of the nodes of the machines that the object concerns."""
    return {
        machine.status.node_ref.name
        for machine in machines
        if machine.status.node_ref is not None and concerns_machine(object_, machine)
    }


def concerns_machine(object_: Resource, machine: Machine) -> bool:
    """Return whether a change of the object changes the machine."""
    match object_:
        case Machine():
            return machine.metadata.name == object_.metadata.name
        case MachineClass():
            return machine.spec.class_ref == object_.metadata.name
        case MachineComponent():
            return any(c.component == object_.metadata.name for c in machine.spec.components)
        case MachineSet() | MachineComponentSet():
            return object_.spec.selector.matches(machine.metadata.labels)
        case _:
            return False
