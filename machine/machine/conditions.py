"""Conditions Healthy and Available, and how conditions are merged. Pure.

A function that returns None leaves the condition as it is.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from kubenode.api.conditions import ConditionUpdate, set_conditions
from kubenode.api.meta import Condition, ConditionStatus
from kubenode.api.readiness import set_readiness
from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from machine.machine.instanceready import FINAL
from machine.machine.model import IMPORT_TIMEOUT, NODE_STARTUP_TIMEOUT, MachineObservation, Starting
from machine.machine.phases import ComponentProgress
from machine.machine.success import is_condition_true, status_of, succeeded

Type = MachineConditionType
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
ANEW = "`kubenode machine import` of the same host, or `kubenode machine reissue`, waits anew"


def healthy(
    observation: MachineObservation,
    instance: ConditionUpdate | None,
    node: ConditionUpdate | None,
    components: ComponentProgress,
) -> ConditionUpdate | None:
    """Return condition Healthy. Its reason records the progress of the Machine, see `Starting`."""
    known = observation.known(Type.HEALTHY)
    if observation.deleting or (observation.gave_up and not _once_more(observation, node)):
        return None
    if not observation.joined:
        here = joins(observation, node)
        if not here or (
            observation.manages and not observation.finalizer
        ):  # nothing is made without finalizer
            return _starting(observation, known, here=here)
    if bad := _unwell(observation, instance, node, components):
        return ConditionUpdate(FALSE, "Unhealthy", bad)
    if observation.machine.status.initialized_at is None and not whole(observation, node):
        return ConditionUpdate(UNKNOWN, Starting.JOINED, "its host has come and is not whole yet")
    return ConditionUpdate(TRUE, "Healthy", "agent, Node and components are well")


def _once_more(observation: MachineObservation, node: ConditionUpdate | None) -> bool:
    """Return whether a Machine that was given up waits again.

    An imported host may join late, or a person may ask to admit it again.
    """
    return not observation.provision and (observation.wants_readmission or joins(observation, node))


def joins(observation: MachineObservation, node: ConditionUpdate | None) -> bool:
    """Return whether the host has joined: its agent is ready, and its Node if that precedes the
    components.
    """
    if not is_condition_true(observation.machine, Type.AGENT_READY):
        return False
    if observation.provision:
        return bool(observation.machine.spec.provider_id)
    return observation.machine.joins_by_token or node is None or node.status == TRUE


def startup_timeout(observation: MachineObservation) -> timedelta:
    """Return the time in which the host must join."""
    if not observation.provision:
        return IMPORT_TIMEOUT
    return observation.class_.node_startup_timeout if observation.class_ else NODE_STARTUP_TIMEOUT


def _starting(
    observation: MachineObservation, known: Condition | None, *, here: bool
) -> ConditionUpdate | None:
    """Return condition Healthy before the host has joined."""
    if observation.provision and not observation.machine.spec.provider_id:
        return None
    limit = startup_timeout(observation)
    begun = None if known is None or observation.gave_up else known.last_transition_time
    late = begun is not None and observation.now - begun >= limit
    if late and not here and not observation.unsure:
        seconds = limit.total_seconds()
        message = f"its host did not come within {seconds:g} s"
        return ConditionUpdate(
            FALSE, Starting.TIMEOUT, message if observation.provision else f"{message}; {ANEW}"
        )
    return ConditionUpdate(UNKNOWN, Starting.WAITING, "its host has not come yet")


def _unwell(
    observation: MachineObservation,
    instance: ConditionUpdate | None,
    node: ConditionUpdate | None,
    components: ComponentProgress,
) -> str:
    """Return why the Machine is unhealthy, "" if it is not."""
    if observation.reason(Type.INSTANCE_READY) in FINAL or (instance and instance.reason in FINAL):
        return "its instance is gone"
    if components is ComponentProgress.BAD:
        return "a component is not well"
    if observation.machine.status.initialized_at is None:
        return ""
    if not is_condition_true(observation.machine, Type.AGENT_READY):
        return "its agent does not renew its Lease"
    if node is not None and node.status != TRUE:
        return "its Node is not Ready"
    return ""


def whole(observation: MachineObservation, node: ConditionUpdate | None) -> bool:
    """Return whether the Machine is complete, which ends its initialization."""
    machine = observation.machine
    if observation.missing or not is_condition_true(machine, Type.AGENT_READY):
        return False
    if observation.expects_node and not _synced(observation, node):
        return False
    return all(
        succeeded(component, status_of(machine, component.name), machine)
        for component in machine.spec.components
    )


def _synced(observation: MachineObservation, node: ConditionUpdate | None) -> bool:
    """Return whether the Node is Ready and synced. A Machine in mode Observe syncs nothing."""
    if observation.machine.status.node_ref is None or node is None or node.status != TRUE:
        return False
    return not observation.manages or is_condition_true(observation.machine, Type.NODE_SYNCED)


def available(observation: MachineObservation, health: ConditionUpdate | None) -> ConditionUpdate:
    """Return condition Available: healthy for spec.minReady, and not being deleted."""
    if observation.deleting:
        return ConditionUpdate(FALSE, "Deleting", "it is being given up")
    known = observation.known(Type.HEALTHY)
    if health is None and (known is None or known.status != TRUE):
        return ConditionUpdate(FALSE, "NotHealthy", "it is not well")
    if health is not None and health.status != TRUE:
        return ConditionUpdate(FALSE, "NotHealthy", "it is not well")
    if not settled(observation, health):
        return ConditionUpdate(FALSE, "MinReady", "it has not been well for spec.minReady yet")
    return ConditionUpdate(TRUE, "Available", "well for spec.minReady")


def settled(observation: MachineObservation, health: ConditionUpdate | None) -> bool:
    """Return whether the Machine has been healthy for spec.minReady."""
    known = observation.known(Type.HEALTHY)
    if health is not None and health.status != TRUE:
        return False
    if known is None or known.status != TRUE:
        return health is not None and not observation.machine.spec.min_ready
    return observation.now - known.last_transition_time >= observation.machine.spec.min_ready


def merged(
    conditions: list[Condition],
    updates: Mapping[MachineConditionType, ConditionUpdate | None],
    generation: int,
    now: datetime,
) -> list[Condition]:
    """Return the conditions with the updates, and with those that kstatus reads."""
    after = set_conditions(conditions, updates.items(), generation=generation, now=now)
    return set_readiness(Machine.__name__, after, generation=generation, now=now)
