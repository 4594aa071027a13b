"""Convert Machines, Nodes and jobs to the facts on which a set decides. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubenode.api.meta import Condition
from kubenode.api.v1alpha1 import Machine, MachineClass, MachineSet
from kubenode.api.v1alpha1.machineclass import MACHINE_CLASS_READY
from kubenode.api.v1alpha1.machineset import MachineSetHealth, UnhealthyCondition, UpdatePolicy
from kubenode.api.v1alpha1.machinestatus import (
    MachineConditionType,
    MachinePhase,
    OperationState,
)
from kubenode.runtime.kube.objects import Node
from machine.machineset.members import RemovalReason, SetMember, SetTarget
from machine.machineset.nodeclocks import NONE, Conditions
from machine.names import DELETE_FIRST, HANDS_OFF, LEAVING, PRESERVED

MINUTE = timedelta(seconds=60)
"""Period of the limit `createsPerMinute`."""
GONE = "InstanceGone"
"""Reason of InstanceReady for an instance that is gone."""
QUOTA = "QuotaExceeded"
"""Reason of InstanceReady, and of Scaled, for an exhausted quota."""


@dataclass(frozen=True, slots=True)
class MemberSurroundings:
    """What is known besides the Machine.

    node: its Node, None if there is none.
    repair: the open job that holds the node, "" for none.
    repaired: when the last job was closed, None for never.
    conditions: the Node conditions that a set asks for, with their start by this process's clock.
    """

    node: Node | None = None
    repair: str = ""
    repaired: datetime | None = None
    conditions: Conditions = field(default_factory=lambda: NONE)


def wanted(machine_set: MachineSet) -> SetTarget:
    """Return the target from the spec."""
    spec = machine_set.spec
    return SetTarget(
        replicas=spec.replicas,
        max_surge=spec.max_surge,
        order=spec.scale_in.order,
        replace_outdated=spec.update_policy is UpdatePolicy.REPLACE,
        max_unhealthy=spec.health.max_unhealthy,
        max_replacing=spec.health.max_replacing,
        preserve_max=spec.health.preserve.max,
        preserve_for=spec.health.preserve.for_,
        chosen=frozenset(spec.scale_in.machines),
    )


def member(
    machine: Machine,
    around: MemberSurroundings,
    class_hash: str,
    health: MachineSetHealth,
    now: datetime,
) -> tuple[SetMember, datetime | None]:
    """Return the member, and when it changes with time alone, None for never."""
    status, annotations = machine.status, machine.metadata.annotations
    why, at = unhealthy(machine, around, health.unhealthy_conditions, now)
    burnt_in = None if around.repaired is None else around.repaired + machine.spec.min_ready
    provisioned = status.provisioning.class_hash if status.provisioning is not None else ""
    repair = around.repair or _operation(machine)
    set_member = SetMember(
        name=machine.metadata.name,
        created=machine.metadata.creation_timestamp or now,
        zone=machine.spec.failure_domain,
        deleting=machine.metadata.deletion_timestamp is not None,
        failed=status.phase is MachinePhase.FAILED,
        gone=_reason(machine, MachineConditionType.INSTANCE_READY) == GONE,
        initialized=status.initialized_at is not None,
        ready=_ready(machine),
        available=_true(machine, MachineConditionType.AVAILABLE)
        and not repair
        and (burnt_in is None or burnt_in <= now),
        outdated=bool(provisioned and class_hash and provisioned != class_hash),
        unhealthy=why,
        ailing=at is not None,
        repair=repair,
        delete_first=is_marked(machine, DELETE_FIRST),
        hands_off=is_marked(machine, HANDS_OFF),
        preserved=_instant(annotations[PRESERVED]) if PRESERVED in annotations else None,
        leaving=_leaving(annotations.get(LEAVING, "")),
    )
    turns = [t for t in (at, burnt_in, set_member.preserved) if t is not None and t > now]
    return set_member, min(turns, default=None)


# -- unhealthy ------------------------------------------------------------------------------------


def unhealthy(
    machine: Machine,
    around: MemberSurroundings,
    wanted: Sequence[UnhealthyCondition],
    now: datetime,
) -> tuple[str, datetime | None]:
    """Return why the machine is to be replaced, "" for no reason, and when it will be if nothing
    changes.

    A silent agent alone is no reason: the Node, which runs the pods, may be well.
    """
    if machine.status.phase is MachinePhase.FAILED:
        return f"Failed: {_why_failed(machine)}", None
    if not machine.expects_node or machine.status.node_ref is None:
        return "", None
    soonest: datetime | None = None
    for each in wanted:
        since = _since(machine, around, each)
        if since is None:
            continue
        due = since + each.for_
        if due <= now:
            seconds = each.for_.total_seconds()
            return f"its Node's condition {each.type} is {each.status} for {seconds:g} s", None
        soonest = due if soonest is None else min(soonest, due)
    return "", soonest


def _since(
    machine: Machine, around: MemberSurroundings, wanted: UnhealthyCondition
) -> datetime | None:
    """Return since when the condition has the given status by this process's clock, None if it has
    not.
    """
    if around.node is None:
        return _node_gone(machine, wanted)
    condition = around.conditions.get(wanted.type)
    return condition.since if condition is not None and condition.status == wanted.status else None


def _node_gone(machine: Machine, wanted: UnhealthyCondition) -> datetime | None:
    """Return since when the Node has been missing, None if that does not match the condition.

    A missing Node counts as Ready=Unknown, from the time at which the Machine's condition shows it.
    """
    shown = machine.status.condition(MachineConditionType.NODE_READY)
    if (wanted.type, wanted.status) != ("Ready", "Unknown") or shown is None:
        return None
    return None if shown.status == "True" else shown.last_transition_time


def _why_failed(machine: Machine) -> str:
    """Return the message of the condition that explains the failure, "" if none does."""
    types = (MachineConditionType.INSTANCE_READY, MachineConditionType.HEALTHY)
    candidates = [machine.status.condition(type_) for type_ in types]
    return next((c.message for c in candidates if c is not None and c.status == "False"), "")


# -- the class ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClassCapacity:
    """Capacity of a class for further Machines.

    blocked: why no Machine can be created, "" if one can.
    reason: the reason for condition Scaled.
    remaining: how many can be created now.
    again: when more can be created, None if that does not depend on time.
    """

    blocked: str = ""
    reason: str = ""
    remaining: int = 0
    again: datetime | None = None


def room(
    ref: str, class_: MachineClass | None, made: Sequence[Machine], now: datetime
) -> ClassCapacity:
    """Return the capacity of the class.

    made: all Machines of this class, of any set.
    """
    if class_ is None:
        return ClassCapacity(f"there is no MachineClass {ref}", "PreflightFailed")
    if class_.metadata.deletion_timestamp is not None:
        return ClassCapacity(f"MachineClass {ref} is being deleted", "PreflightFailed")
    ready = _condition(class_.status.conditions, MACHINE_CLASS_READY)
    if ready is None or ready.observed_generation != class_.metadata.generation:
        return ClassCapacity(f"MachineClass {ref} has not been looked at yet", "PreflightFailed")
    if ready.status != "True":
        return ClassCapacity(f"MachineClass {ref} is not Ready: {ready.message}", "PreflightFailed")
    waiting = [m for m in made if _reason(m, MachineConditionType.INSTANCE_READY) == QUOTA]
    if waiting:
        first = min(m.metadata.name for m in waiting)
        return ClassCapacity(f"Machine {first} waits for room at the provider", QUOTA)
    limits = class_.spec.limits
    if len(made) >= limits.max_instances:
        most = f"limits.maxInstances of MachineClass {ref} is {limits.max_instances}"
        return ClassCapacity(f"{most}, and as many Machines are there", QUOTA)
    lately = sorted(
        at for m in made if (at := m.metadata.creation_timestamp) is not None and now - at < MINUTE
    )
    remaining = min(limits.max_instances - len(made), limits.creates_per_minute - len(lately))
    return ClassCapacity(remaining=max(0, remaining), again=lately[0] + MINUTE if lately else None)


def _condition(conditions: Sequence[Condition], type_: str) -> Condition | None:
    return next((c for c in conditions if c.type == type_), None)


# -- reading a Machine ----------------------------------------------------------------------------


def _true(machine: Machine, type_: MachineConditionType) -> bool:
    condition = machine.status.condition(type_)
    return condition is not None and condition.status == "True"


def _reason(machine: Machine, type_: MachineConditionType) -> str:
    """Return the reason of a condition that is not True, else ""."""
    condition = machine.status.condition(type_)
    return condition.reason if condition is not None and condition.status != "True" else ""


def _ready(machine: Machine) -> bool:
    lives = not machine.expects_node
    kind = MachineConditionType.AGENT_READY if lives else MachineConditionType.NODE_READY
    return _true(machine, kind)


def _operation(machine: Machine) -> str:
    """Return the ID of the operation that has no final answer yet, "" for none."""
    wanted, last = machine.spec.operation, machine.status.last_operation
    if wanted is None:
        return ""
    finished = (
        last is not None and last.id == wanted.id and last.state is not OperationState.RUNNING
    )
    return "" if finished else wanted.id


def is_marked(machine: Machine, key: str) -> bool:
    """Return whether the annotation or label is set, and not to "false"."""
    meta = machine.metadata
    values = (meta.annotations.get(key), meta.labels.get(key))
    return any(value is not None and value != "false" for value in values)


def _leaving(text: str) -> RemovalReason | None:
    return RemovalReason(text) if text in tuple(RemovalReason) else None


def _instant(text: str) -> datetime | None:
    """Return the time, None if the text is no time with zone.

    The text may come from a person. A Machine with an invalid one is not preserved, and counts.
    """
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    return instant if instant.tzinfo is not None else None
