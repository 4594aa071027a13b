"""Conditions ComponentsReady and UpToDate, from what the agent reports. Pure."""

from kubenode.api.conditions import ConditionUpdate
from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1.machinestatus import ComponentState
from machine.machine.model import MachineObservation
from machine.machine.phases import ComponentProgress
from machine.machine.success import BAD, applied, reported, status_of, undone

TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
STUCK = frozenset({"DependencyCycle", "FileConflict"})
"""Reasons of an agent that become reasons of ComponentsReady, because waiting does not help."""


def components_of(observation: MachineObservation) -> ComponentProgress:
    """Return the progress of the components."""
    machine = observation.machine
    if any(status.state in BAD for status in machine.status.components):
        return ComponentProgress.BAD
    pairs = [
        (component, status_of(machine, component.name)) for component in machine.spec.components
    ]
    if not all(
        applied(component, status) or undone(component, status) for component, status in pairs
    ):
        return ComponentProgress.CHANGING
    if observation.missing or any(undone(component, status) for component, status in pairs):
        return ComponentProgress.UNDONE
    return ComponentProgress.DONE


def components_ready(observation: MachineObservation) -> ConditionUpdate | None:
    """Return condition ComponentsReady, None to leave it as it is."""
    if observation.deleting:
        return None
    machine = observation.machine
    for status in machine.status.components:
        if status.state is ComponentState.DRIFT_FIGHT:
            return ConditionUpdate(
                FALSE, "DriftFight", _format_message(status.name, status.message)
            )
        if status.state in BAD:
            return ConditionUpdate(FALSE, "Unhealthy", _format_message(status.name, status.message))
    missing = [
        (component, status_of(machine, component.name))
        for component in machine.spec.components
        if not applied(component, status_of(machine, component.name))
    ]
    for component, component_status in missing:
        if (
            component_status is not None
            and reported(component, component_status)
            and component_status.reason in STUCK
        ):
            return ConditionUpdate(
                FALSE,
                component_status.reason,
                _format_message(component.name, component_status.message),
            )
    for component, _ in missing:
        return ConditionUpdate(
            FALSE, "Installing", f"{component.name} is not at revision {component.revision} yet"
        )
    if observation.missing:
        return ConditionUpdate(
            FALSE, "Missing", f"no component of {', '.join(observation.missing)} yet"[:1024]
        )
    return ConditionUpdate(TRUE, "Ready", "all components are as assigned")


def up_to_date(observation: MachineObservation) -> ConditionUpdate | None:
    """Return condition UpToDate, None to leave it as it is."""
    if observation.deleting:
        return None
    machine = observation.machine
    for component in machine.spec.components:
        status = status_of(machine, component.name)
        if undone(component, status) and status is not None:
            return ConditionUpdate(
                FALSE, "RolledBack", _format_message(component.name, status.message)
            )
        if applied(component, status):
            continue
        if observation.open_job:
            return ConditionUpdate(
                FALSE, "RemedyJobOpen", f"job {observation.open_job} has its node"
            )
        if status is not None and status.needs is not None:
            message = f"{component.name} needs {status.needs}"
            return ConditionUpdate(FALSE, "WaitingForPermit", message)
        return ConditionUpdate(
            FALSE, "Updating", f"{component.name} is not at revision {component.revision} yet"
        )
    provisioning = machine.status.provisioning
    made = "" if provisioning is None else provisioning.class_hash
    if (
        observation.class_ is not None
        and observation.class_.hash
        and made
        and made != observation.class_.hash
    ):
        message = f"made as {made}, its class is {observation.class_.hash} by now"
        return ConditionUpdate(FALSE, "ClassChanged", message)
    return ConditionUpdate(TRUE, "UpToDate", "as its class and its component sets want it")


def _format_message(name: str, message: str) -> str:
    return f"{name}: {message}"[:1024] if message else name
