"""Conditions Healthy and Available, and how conditions are merged. Pure.

A function that returns None leaves the condition as it is.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from kubenode.api.meta import Condition, ConditionStatus
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from machine.bootstrap.agentready import ConditionUpdate
from machine.machine.instanceready import FINAL
from machine.machine.model import IMPORT_TIMEOUT, NODE_STARTUP_TIMEOUT, MachineObservation, Starting
from machine.machine.phases import ComponentProgress
from machine.machine.success import said, status_of, succeeded

Type = MachineConditionType
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
ANEW = "`kubenode machine import` of the same host, or `kubenode machine reissue`, waits anew"
CHANGES_ITS_CLOCK = frozenset({Type.DELETABLE})
"""Conditions whose transition time also changes with the reason, because each stage has a timeout.
"""


def healthy(
    seen: MachineObservation,
    instance: ConditionUpdate | None,
    node: ConditionUpdate | None,
    components: ComponentProgress,
) -> ConditionUpdate | None:
    """Return condition Healthy. Its reason records the progress of the Machine, see `Starting`."""
    known = seen.known(Type.HEALTHY)
    if seen.deleting or (seen.gave_up and not _once_more(seen, node)):
        return None
    if not seen.joined:
        here = joins(seen, node)
        if not here or (seen.manages and not seen.finalizer):  # nothing is made without finalizer
            return _starting(seen, known, here=here)
    if bad := _unwell(seen, instance, node, components):
        return ConditionUpdate(FALSE, "Unhealthy", bad)
    if seen.machine.status.initialized_at is None and not whole(seen, node):
        return ConditionUpdate(UNKNOWN, Starting.JOINED, "its host has come and is not whole yet")
    return ConditionUpdate(TRUE, "Healthy", "agent, Node and components are well")


def _once_more(seen: MachineObservation, node: ConditionUpdate | None) -> bool:
    """Return whether a Machine that was given up waits again.

    An imported host may join late, or a person may ask to admit it again.
    """
    return not seen.provision and (seen.asked_anew or joins(seen, node))


def joins(seen: MachineObservation, node: ConditionUpdate | None) -> bool:
    """Return whether the host has joined: its agent is ready, and for an imported one its Node."""
    if not said(seen.machine, Type.AGENT_READY):
        return False
    if seen.provision:
        return bool(seen.machine.spec.provider_id)
    return node is None or node.status == TRUE


def startup_timeout(seen: MachineObservation) -> timedelta:
    """Return the time in which the host must join."""
    if not seen.provision:
        return IMPORT_TIMEOUT
    return seen.class_.node_startup_timeout if seen.class_ else NODE_STARTUP_TIMEOUT


def _starting(
    seen: MachineObservation, known: Condition | None, *, here: bool
) -> ConditionUpdate | None:
    """Return condition Healthy before the host has joined."""
    if seen.provision and not seen.machine.spec.provider_id:
        return None
    limit = startup_timeout(seen)
    begun = None if known is None or seen.gave_up else known.last_transition_time
    late = begun is not None and seen.now - begun >= limit
    if late and not here and not seen.unsure:
        seconds = limit.total_seconds()
        told = f"its host did not come within {seconds:g} s"
        return ConditionUpdate(
            FALSE, Starting.TIMEOUT, told if seen.provision else f"{told}; {ANEW}"
        )
    return ConditionUpdate(UNKNOWN, Starting.WAITING, "its host has not come yet")


def _unwell(
    seen: MachineObservation,
    instance: ConditionUpdate | None,
    node: ConditionUpdate | None,
    components: ComponentProgress,
) -> str:
    """Return why the Machine is unhealthy, "" if it is not."""
    if seen.reason(Type.INSTANCE_READY) in FINAL or (instance and instance.reason in FINAL):
        return "its instance is gone"
    if components is ComponentProgress.BAD:
        return "a component is not well"
    if seen.machine.status.initialized_at is None:
        return ""
    if not said(seen.machine, Type.AGENT_READY):
        return "its agent does not renew its Lease"
    if node is not None and node.status != TRUE:
        return "its Node is not Ready"
    return ""


def whole(seen: MachineObservation, node: ConditionUpdate | None) -> bool:
    """Return whether the Machine is complete, which ends its initialization."""
    machine = seen.machine
    if seen.missing or not said(machine, Type.AGENT_READY):
        return False
    if seen.expects_node and not _synced(seen, node):
        return False
    return all(
        succeeded(one, status_of(machine, one.name), machine) for one in machine.spec.components
    )


def _synced(seen: MachineObservation, node: ConditionUpdate | None) -> bool:
    """Return whether the Node is Ready and synced. A Machine in mode Observe syncs nothing."""
    if seen.machine.status.node_ref is None or node is None or node.status != TRUE:
        return False
    return not seen.manages or said(seen.machine, Type.NODE_SYNCED)


def available(seen: MachineObservation, health: ConditionUpdate | None) -> ConditionUpdate:
    """Return condition Available: healthy for spec.minReady, and not being deleted."""
    if seen.deleting:
        return ConditionUpdate(FALSE, "Deleting", "it is being given up")
    known = seen.known(Type.HEALTHY)
    if health is None and (known is None or known.status != TRUE):
        return ConditionUpdate(FALSE, "NotHealthy", "it is not well")
    if health is not None and health.status != TRUE:
        return ConditionUpdate(FALSE, "NotHealthy", "it is not well")
    if not settled(seen, health):
        return ConditionUpdate(FALSE, "MinReady", "it has not been well for spec.minReady yet")
    return ConditionUpdate(TRUE, "Available", "well for spec.minReady")


def settled(seen: MachineObservation, health: ConditionUpdate | None) -> bool:
    """Return whether the Machine has been healthy for spec.minReady."""
    known = seen.known(Type.HEALTHY)
    if health is not None and health.status != TRUE:
        return False
    if known is None or known.status != TRUE:
        return health is not None and not seen.machine.spec.min_ready
    return seen.now - known.last_transition_time >= seen.machine.spec.min_ready


def merged(
    conditions: list[Condition],
    found: Mapping[MachineConditionType, ConditionUpdate | None],
    generation: int,
    now: datetime,
) -> list[Condition]:
    """Return the conditions with the updates. A transition time changes only with the status."""
    by_type = {condition.type: condition for condition in conditions}
    for type_, said_ in found.items():
        if said_ is not None:
            by_type[type_] = _one(type_, said_, by_type.get(type_), generation, now)
    return list(by_type.values())


def _one(
    type_: MachineConditionType,
    new: ConditionUpdate,
    known: Condition | None,
    generation: int,
    now: datetime,
) -> Condition:
    since = now
    if known is not None and known.status == new.status:
        clock_runs = type_ not in CHANGES_ITS_CLOCK or known.reason == new.reason
        since = known.last_transition_time if clock_runs else now
    return Condition(
        type=type_,
        status=new.status,
        reason=new.reason,
        message=new.message,
        observed_generation=generation,
        last_transition_time=since,
    )
