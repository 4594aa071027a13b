"""Node groups: MachineSets as an autoscaler sees and changes them. Pure.

The ID of a group is the name of its set. The ID of an instance is the providerID of its Node,
because the autoscaler compares the two; a machine without a Node has the providerID that the
provider gave it, and before that one that is derived from the name of its Machine.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kubenode.api.v1alpha1 import Machine, MachineClass, MachineSet
from kubenode.api.v1alpha1.machineset import SetAutoscaling
from kubenode.api.v1alpha1.machinestatus import MachineConditionType, MachinePhase
from kubenode.runtime.kube.objects import Node
from machine.autoscaler.contract import GroupInstanceState, InstanceErrorClass
from machine.machineset.members import RemovalReason
from machine.machineset.observe import QUOTA, ClassCapacity, is_marked
from machine.names import HANDS_OFF, LEAVING, PRESERVED

SCHEME = "kubenode://"
"""Beginning of the ID of an instance that has no providerID yet."""


class GroupStatus(StrEnum):
    """Status of a failed call, by its name in gRPC."""

    ABSENT = "NOT_FOUND"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    ABORTED = "ABORTED"
    UNAVAILABLE = "UNAVAILABLE"
    UNIMPLEMENTED = "UNIMPLEMENTED"


class NodeGroupError(Exception):
    """The call failed. The text is what the autoscaler logs."""

    def __init__(self, status: GroupStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class NodeHandle:
    """A node as the autoscaler names it. Without a Node both are the ID of the instance."""

    name: str
    provider_id: str


@dataclass(frozen=True, slots=True)
class GroupInstance:
    """An instance of a group. `error_code`: why it cannot be created, "" for no error."""

    id: str
    state: GroupInstanceState
    error_code: str = ""
    error_message: str = ""
    error_class: InstanceErrorClass = InstanceErrorClass.OTHER


def limits_of(machine_set: MachineSet) -> SetAutoscaling:
    """Return the limits of the group. Raises NodeGroupError for a set that is not a group."""
    limits, meta = machine_set.spec.autoscaling, machine_set.metadata
    if limits is None or meta.deletion_timestamp is not None:
        raise NodeGroupError(
            GroupStatus.ABSENT,
            f"MachineSet {meta.name} is not a node group: set spec.autoscaling",
        )
    return limits


def is_group(machine_set: MachineSet) -> bool:
    """Return whether an autoscaler may scale the set."""
    return machine_set.spec.autoscaling is not None and not machine_set.metadata.deletion_timestamp


# -- instances ------------------------------------------------------------------------------------


def is_counted(machine: Machine) -> bool:
    """Return whether the Machine belongs to the group: one preserved for inspection does not."""
    return PRESERVED not in machine.metadata.annotations


def ids_of(machine: Machine) -> tuple[str, ...]:
    """Return the IDs that the instance has without a Node, the present one first."""
    derived = f"{SCHEME}{machine.metadata.name}"
    return (machine.spec.provider_id, derived) if machine.spec.provider_id else (derived,)


def instance_id(machine: Machine, node: Node | None) -> str:
    """Return the ID, "" for a Node without providerID: the autoscaler could not match it."""
    return ids_of(machine)[0] if node is None else node.spec.provider_id


def is_same(machine: Machine, node: Node | None, handle: NodeHandle) -> bool:
    """Return whether the autoscaler means this machine, also by an ID of an earlier moment."""
    present = instance_id(machine, node)
    return bool(present) and handle.provider_id in (present, *ids_of(machine))


def describe_instance(machine_set: MachineSet, machine: Machine, id_: str) -> GroupInstance:
    """Return the instance with its state, and with the error that keeps it from being created."""
    if is_leaving(machine_set, machine):
        return GroupInstance(id_, GroupInstanceState.DELETING)
    if machine.status.initialized_at is not None:
        return GroupInstance(id_, GroupInstanceState.RUNNING)
    ready = machine.status.condition(MachineConditionType.INSTANCE_READY)
    short = ready is not None and ready.status != "True" and ready.reason == QUOTA
    if not (short or machine.status.phase is MachinePhase.FAILED):
        return GroupInstance(id_, GroupInstanceState.CREATING)
    error = InstanceErrorClass.OUT_OF_RESOURCES if short else InstanceErrorClass.OTHER
    reason, message = (ready.reason, ready.message) if ready is not None else ("Failed", "")
    return GroupInstance(id_, GroupInstanceState.CREATING, reason, message, error)


def is_leaving(machine_set: MachineSet, machine: Machine) -> bool:
    """Return whether the Machine is being removed, or is chosen for a scale-in."""
    meta = machine.metadata
    return (
        meta.deletion_timestamp is not None
        or meta.name in machine_set.spec.scale_in.machines
        or meta.annotations.get(LEAVING) == RemovalReason.SCALE_IN
    )


# -- sizes ----------------------------------------------------------------------------------------


def raise_size(
    machine_set: MachineSet,
    delta: int,
    class_: MachineClass | None,
    capacity: ClassCapacity,
    made: int,
) -> Mapping[str, Any]:
    """Return the change of the spec that adds `delta` machines.

    made: number of Machines of the class, which its limits count.
    """
    limits, size = limits_of(machine_set), machine_set.spec.replicas + delta
    if delta <= 0:
        raise NodeGroupError(GroupStatus.INVALID_ARGUMENT, f"delta is {delta}: it must be positive")
    if size > limits.max_replicas:
        most = f"spec.autoscaling.maxReplicas is {limits.max_replicas}"
        raise NodeGroupError(GroupStatus.OUT_OF_RANGE, f"{size} machines are wanted: {most}")
    if class_ is None or capacity.blocked:
        short = capacity.reason == QUOTA
        status = GroupStatus.RESOURCE_EXHAUSTED if short else GroupStatus.FAILED_PRECONDITION
        raise NodeGroupError(status, capacity.blocked)
    most_of_class = class_.spec.limits.max_instances
    if made + delta > most_of_class:
        name = class_.metadata.name
        raise NodeGroupError(
            GroupStatus.RESOURCE_EXHAUSTED,
            f"limits.maxInstances of MachineClass {name} is {most_of_class}, and {made} Machines"
            f" exist: {delta} more do not fit",
        )
    return {"replicas": size}


def lower_size(
    machine_set: MachineSet, delta: int, machines: Iterable[Machine]
) -> Mapping[str, Any]:
    """Return the change of the spec that withdraws machines that do not exist yet.

    delta: negative number of machines.
    machines: the Machines of the group.
    """
    limits, size = limits_of(machine_set), machine_set.spec.replicas + delta
    if delta >= 0:
        raise NodeGroupError(GroupStatus.INVALID_ARGUMENT, f"delta is {delta}: it must be negative")
    existing = sum(not is_leaving(machine_set, machine) for machine in machines)
    if size < existing:
        raise NodeGroupError(
            GroupStatus.FAILED_PRECONDITION,
            f"{existing} Machines exist, and {size} are wanted: delete nodes by name",
        )
    _check_minimum(limits, size)
    return {"replicas": size}


def choose_machine(
    machine_set: MachineSet, machine: Machine, existing: Sequence[str]
) -> Mapping[str, Any]:
    """Return the change of the spec that removes the Machine, {} if it leaves already.

    One write names the Machine and lowers `replicas`, so that a repeated call changes nothing.

    existing: names of the Machines of the set. Other names are dropped from the list.
    """
    limits, meta = limits_of(machine_set), machine.metadata
    if is_leaving(machine_set, machine):
        return {}
    if is_marked(machine, HANDS_OFF):
        raise NodeGroupError(
            GroupStatus.FAILED_PRECONDITION,
            f"Machine {meta.name} carries {HANDS_OFF}: remove it to let the machine be deleted",
        )
    size = machine_set.spec.replicas - 1
    _check_minimum(limits, size)
    names = [name for name in machine_set.spec.scale_in.machines if name in existing]
    return {"replicas": size, "scaleIn": {"machines": [*names, meta.name]}}


def _check_minimum(limits: SetAutoscaling, size: int) -> None:
    if size < limits.min_replicas:
        raise NodeGroupError(
            GroupStatus.OUT_OF_RANGE,
            f"{size} machines are wanted: spec.autoscaling.minReplicas is {limits.min_replicas}",
        )
