"""Whether a component is on a machine as its spec asks. Pure, and the same for all who ask.

What an agent reports counts for the revision, attempt and content that it echoes, for nothing
newer: a healthy old revision is no success of the new one (F31).
"""

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinestatus import (
    ComponentState,
    ComponentStatus,
    MachineConditionType,
)
from kubenode.api.v1alpha1.machinework import AssignedComponent, DesiredState

AS_DESIRED = {
    DesiredState.RUNNING: ComponentState.HEALTHY,
    DesiredState.INSTALLED: ComponentState.HEALTHY,
    DesiredState.STAGED: ComponentState.STAGED,
    DesiredState.ABSENT: ComponentState.ABSENT,
}
"""The state in which a component is as desired."""
UNDONE = frozenset({ComponentState.ROLLED_BACK, ComponentState.FAILED})
"""Ends of a revision that did not come to be."""
BAD = frozenset(
    {
        ComponentState.FAILED,
        ComponentState.UNHEALTHY,
        ComponentState.DRIFT_FIGHT,
    }
)
"""States of which a machine is the worse, whatever revision they are of."""
_ON_DISK = (DesiredState.RUNNING, DesiredState.INSTALLED)


def succeeded(
    assigned: AssignedComponent, status: ComponentStatus | None, machine: Machine
) -> bool:
    """Whether the assignment is on the host, and the host and its Node are well with it."""
    return applied(assigned, status) and alive(machine)


def applied(assigned: AssignedComponent, status: ComponentStatus | None) -> bool:
    """Whether the host has what is assigned, by its agent's word."""
    if status is None or not reported(assigned, status):
        return False
    if assigned.desired_state in _ON_DISK and status.config_hash != assigned.config_hash:
        return False
    return status.state is AS_DESIRED[assigned.desired_state]


def undone(assigned: AssignedComponent, status: ComponentStatus | None) -> bool:
    """Whether this attempt at this revision has ended without success."""
    return status is not None and reported(assigned, status) and status.state in UNDONE


def reported(assigned: AssignedComponent, status: ComponentStatus) -> bool:
    """Whether the agent speaks of this assignment and not of one before it."""
    return (status.revision, status.attempt) == (assigned.revision, assigned.attempt)


def alive(machine: Machine) -> bool:
    """Whether its agent lives and its Node, once it has one, is Ready: as last seen."""
    if not said(machine, MachineConditionType.AGENT_READY):
        return False
    return machine.status.node_ref is None or said(machine, MachineConditionType.NODE_READY)


def said(machine: Machine, type_: MachineConditionType) -> bool:
    """Whether the condition is True."""
    found = machine.status.condition(type_)
    return found is not None and found.status == "True"


def status_of(machine: Machine, name: str) -> ComponentStatus | None:
    """What its agent reports of the component, None: nothing yet."""
    return next((c for c in machine.status.components if c.name == name), None)
