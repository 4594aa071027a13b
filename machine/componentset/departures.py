"""Decide what happens to a component on machines that are no longer members of its set. Pure."""

from collections.abc import Sequence

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinecomponentset import OnUnselect
from kubenode.api.v1alpha1.machinestatus import ComponentState
from kubenode.api.v1alpha1.machinework import AssignedComponent, DesiredState
from machine.componentset.board import SetIntent
from machine.componentset.facts import covered
from machine.machine.success import applied, reported, status_of


def wishes_for(
    leavers: Sequence[tuple[Machine, AssignedComponent]],
    policy: OnUnselect,
    *,
    may_start: bool,
    limit: int,
) -> dict[str, SetIntent]:
    """Return the intent of the set for each machine that left it.

    leavers: machines that left, with the assignments that they still have from the set.
    may_start: whether further removals may start.
    limit: the number of machines on which removal may be in progress at once.
    """
    intents = {}
    away = sum(e.desired_state is DesiredState.ABSENT and not _gone(m, e) for m, e in leavers)
    for machine, entry in sorted(leavers, key=lambda leaver: leaver[0].metadata.name):
        name = machine.metadata.name
        if entry.desired_state is DesiredState.ABSENT and policy is OnUnselect.UNINSTALL:
            intents[name] = _removing(machine, entry, may_start)
        elif covered(machine, entry.name):
            # The agent may be acting under a permit; wait until the node is released.
            continue
        elif policy is OnUnselect.ORPHAN:
            intents[name] = SetIntent(entry=entry.model_copy(update={"set": ""}))
        elif may_start and away < limit:
            away += 1
            update = {"desired_state": DesiredState.ABSENT, "attempt": entry.attempt + 1}
            intents[name] = SetIntent(entry=entry.model_copy(update={**update, "batch": 0}))
    return intents


def _removing(machine: Machine, entry: AssignedComponent, may_start: bool) -> SetIntent:
    """Return the intent for a removal in progress: permit it, then drop the assignment."""
    if _gone(machine, entry):
        return SetIntent() if covered(machine, entry.name) else SetIntent(drop=entry.name)
    return SetIntent(leave=may_start)


def _gone(machine: Machine, entry: AssignedComponent) -> bool:
    """Return whether the agent has reported that the component is removed."""
    return applied(entry, status_of(machine, entry.name))


def stuck(leavers: Sequence[tuple[Machine, AssignedComponent]]) -> list[str]:
    """Return the machines on which the removal failed, sorted."""
    failed = []
    for machine, entry in leavers:
        status = status_of(machine, entry.name)
        if status is not None and reported(entry, status) and status.state in _FAILED:
            failed.append(machine.metadata.name)
    return sorted(failed)


_FAILED = (ComponentState.FAILED, ComponentState.ROLLED_BACK)
