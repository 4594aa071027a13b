"""Conditions ComponentsReady and UpToDate, from what the agent reports. Pure."""

from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1.machinestatus import ComponentState
from machine.bootstrap.agentready import ConditionUpdate
from machine.machine.model import MachineObservation
from machine.machine.phases import ComponentProgress
from machine.machine.success import BAD, applied, reported, status_of, undone

TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
STUCK = frozenset({"DependencyCycle", "FileConflict"})
"""Reasons of an agent that become reasons of ComponentsReady, because waiting does not help."""


def components_of(seen: MachineObservation) -> ComponentProgress:
    """Return the progress of the components."""
    machine = seen.machine
    if any(status.state in BAD for status in machine.status.components):
        return ComponentProgress.BAD
    pairs = [(one, status_of(machine, one.name)) for one in machine.spec.components]
    if not all(applied(one, status) or undone(one, status) for one, status in pairs):
        return ComponentProgress.CHANGING
    if seen.missing or any(undone(one, status) for one, status in pairs):
        return ComponentProgress.UNDONE
    return ComponentProgress.DONE


def components_ready(seen: MachineObservation) -> ConditionUpdate | None:
    """Return condition ComponentsReady, None to leave it as it is."""
    if seen.deleting:
        return None
    machine = seen.machine
    for status in machine.status.components:
        if status.state is ComponentState.DRIFT_FIGHT:
            return ConditionUpdate(FALSE, "DriftFight", _told(status.name, status.message))
        if status.state in BAD:
            return ConditionUpdate(FALSE, "Unhealthy", _told(status.name, status.message))
    missing = [
        (one, status_of(machine, one.name))
        for one in machine.spec.components
        if not applied(one, status_of(machine, one.name))
    ]
    for one, found in missing:
        if found is not None and reported(one, found) and found.reason in STUCK:
            return ConditionUpdate(FALSE, found.reason, _told(one.name, found.message))
    for one, _ in missing:
        return ConditionUpdate(
            FALSE, "Installing", f"{one.name} is not at revision {one.revision} yet"
        )
    if seen.missing:
        return ConditionUpdate(
            FALSE, "Missing", f"no component of {', '.join(seen.missing)} yet"[:1024]
        )
    return ConditionUpdate(TRUE, "Ready", "all components are as assigned")


def up_to_date(seen: MachineObservation) -> ConditionUpdate | None:
    """Return condition UpToDate, None to leave it as it is."""
    if seen.deleting:
        return None
    machine = seen.machine
    for one in machine.spec.components:
        status = status_of(machine, one.name)
        if undone(one, status) and status is not None:
            return ConditionUpdate(FALSE, "RolledBack", _told(one.name, status.message))
        if applied(one, status):
            continue
        if seen.held:
            return ConditionUpdate(FALSE, "RemedyJobOpen", f"job {seen.held} has its node")
        if status is not None and status.needs is not None:
            told = f"{one.name} needs {status.needs}"
            return ConditionUpdate(FALSE, "WaitingForPermit", told)
        return ConditionUpdate(
            FALSE, "Updating", f"{one.name} is not at revision {one.revision} yet"
        )
    provisioning = machine.status.provisioning
    made = "" if provisioning is None else provisioning.class_hash
    if seen.class_ is not None and seen.class_.hash and made and made != seen.class_.hash:
        told = f"made as {made}, its class is {seen.class_.hash} by now"
        return ConditionUpdate(FALSE, "ClassChanged", told)
    return ConditionUpdate(TRUE, "UpToDate", "as its class and its component sets want it")


def _told(name: str, message: str) -> str:
    return f"{name}: {message}"[:1024] if message else name
