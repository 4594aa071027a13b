"""Status and conditions of a MachineSet. Pure.

Messages contain no time, because each new message is a write.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from kubenode.api.conditions import ConditionUpdate, set_conditions
from kubenode.api.meta import ConditionStatus
from kubenode.api.names import list_first
from kubenode.api.readiness import set_readiness
from kubenode.api.v1alpha1 import MachineSet
from kubenode.api.v1alpha1.machineset import MachineSetConditionType, MachineSetStatus
from machine.machineset.members import Crew, RemovalReason, SetObservation, SetTarget
from machine.machineset.observe import ClassCapacity

NAMED = 3
"""Machines that a message names before the rest is counted."""


def status(
    machine_set: MachineSet,
    crew: Crew,
    updates: Mapping[MachineSetConditionType, ConditionUpdate],
    made: int,
    now: datetime,
) -> MachineSetStatus:
    """Return the new status.

    made: the highest known number in the name of a Machine.
    """
    generation, before = machine_set.metadata.generation, machine_set.status
    live = [*crew.staying, *crew.leaving]
    replacing = sum(m.leaving is RemovalReason.REPLACE for m in crew.leaving)
    return MachineSetStatus(
        observed_generation=generation,
        replicas=len(live),
        ready=sum(m.ready for m in live),
        available=sum(m.available for m in live),
        up_to_date=sum(not m.outdated for m in live),
        replacing=replacing + sum(m.leaving is RemovalReason.REPLACE for m in crew.deleting),
        preserved=len(crew.preserved),
        made=max(made, before.made),
        selector=selector_text(machine_set),
        conditions=set_readiness(
            MachineSet.__name__,
            set_conditions(before.conditions, updates.items(), generation=generation, now=now),
            generation=generation,
            now=now,
        ),
    )


def changes(machine_set: MachineSet, new: MachineSetStatus) -> dict[str, Any]:
    """Return the fields of the status that must be written, {} for none."""
    before, after = machine_set.status.to_dict(), new.to_dict()
    return {key: value for key, value in after.items() if before.get(key) != value}


def scaled(
    wanted: SetTarget, observation: SetObservation, crew: Crew, room: ClassCapacity
) -> ConditionUpdate:
    """Return condition Scaled."""
    have, want = len(crew.staying), wanted.replicas
    if have < want and room.blocked:
        return _no(room.reason, f"{have} of {want} machines: {room.blocked}")
    if have < want:
        return _no("Scaling", f"{have} of {want} machines")
    protected = sum(m.hands_off for m in crew.staying)
    if have > want and protected > want:
        return _no("HandsOff", f"{have} of {want} machines: hands are to be kept off {protected}")
    if have > want or any(m.leaving is RemovalReason.SCALE_IN for m in crew.leaving):
        return _no("Scaling", f"{have} of {want} machines stay")
    if crew.deleting:
        return _no("Scaling", f"{_names(m.name for m in crew.deleting)} on the way out")
    return ConditionUpdate(ConditionStatus.TRUE, "Scaled", f"{want} machines")


def healthy(
    wanted: SetTarget, observation: SetObservation, crew: Crew, refused: Mapping[str, str]
) -> ConditionUpdate:
    """Return condition Healthy.

    refused: Machines that must not be deleted yet, by name, with the reason.
    """
    if not crew.sick and not crew.leaving:
        return ConditionUpdate(ConditionStatus.TRUE, "Healthy", "no machine is unhealthy")
    if too_many := crew.too_many_sick(wanted):
        return _no("TooManyUnhealthy", too_many)
    if observation.frozen:
        return _no("Frozen", observation.frozen)
    for name, why in sorted(refused.items()):
        return _no("PermitDenied", f"{name}: {why}")
    if crew.sick:
        return _no("Unhealthy", f"{_names(m.name for m in crew.sick)} unhealthy or under repair")
    return ConditionUpdate(ConditionStatus.TRUE, "Healthy", "no machine is unhealthy")


def selector_text(machine_set: MachineSet) -> str:
    """Return the selector in the syntax of `kubectl get -l`."""
    selector = machine_set.spec.selector
    parts = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    for each in selector.match_expressions:
        values = f" ({','.join(each.values)})" if each.values else ""
        terms = {"In": f"{each.key} in{values}", "NotIn": f"{each.key} notin{values}"}
        terms |= {"Exists": each.key, "DoesNotExist": f"!{each.key}"}
        parts.append(terms[each.operator])
    return ",".join(parts)


def _names(names: Iterable[str]) -> str:
    return list_first(sorted(names), NAMED)


def _no(reason: str, message: str) -> ConditionUpdate:
    return ConditionUpdate(ConditionStatus.FALSE, reason, message)
