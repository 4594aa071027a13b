"""Whether a component is on a machine as assigned. Pure, and the same for all callers.

An agent's report only counts for the revision, attempt and content that it repeats. A healthy old
revision is no success of the new one (F31).
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
"""The state that a component must reach, by desired state."""
UNDONE = frozenset({ComponentState.ROLLED_BACK, ComponentState.FAILED})
"""States in which a revision ended without success."""
BAD = frozenset(
    {
        ComponentState.FAILED,
        ComponentState.UNHEALTHY,
        ComponentState.DRIFT_FIGHT,
    }
)
"""States that impair a machine, whatever the revision."""
_ON_DISK = (DesiredState.RUNNING, DesiredState.INSTALLED)


def succeeded(
    assigned: AssignedComponent, status: ComponentStatus | None, machine: Machine
) -> bool:
    """Return whether the assignment is in force, and the machine is well with it."""
    return applied(assigned, status) and alive(machine)


def applied(assigned: AssignedComponent, status: ComponentStatus | None) -> bool:
    """Return whether the host has what is assigned, according to its agent."""
    if status is None or not reported(assigned, status):
        return False
    if assigned.desired_state in _ON_DISK and status.config_hash != assigned.config_hash:
        return False
    return status.state is AS_DESIRED[assigned.desired_state]


def undone(assigned: AssignedComponent, status: ComponentStatus | None) -> bool:
    """Return whether this attempt at this revision has ended without success."""
    return status is not None and reported(assigned, status) and status.state in UNDONE


def reported(assigned: AssignedComponent, status: ComponentStatus) -> bool:
    """Return whether the report is about this assignment and not an earlier one."""
    return (status.revision, status.attempt) == (assigned.revision, assigned.attempt)


def alive(machine: Machine) -> bool:
    """Return whether the agent is alive and the Node, once there is one, is Ready, by the
    conditions.
    """
    if not is_condition_true(machine, MachineConditionType.AGENT_READY):
        return False
    return machine.status.node_ref is None or is_condition_true(
        machine, MachineConditionType.NODE_READY
    )


def is_condition_true(machine: Machine, type_: MachineConditionType) -> bool:
    """Return whether the condition is True."""
    condition = machine.status.condition(type_)
    return condition is not None and condition.status == "True"


def status_of(machine: Machine, name: str) -> ComponentStatus | None:
    """Return what the agent reports of the component, None if it has not reported it."""
    return next((c for c in machine.status.components if c.name == name), None)
