"""Decide about the permit of one machine: request, extend, keep, withdraw or release it. Pure.

All components of a machine that wait share one permit, one drain and one reboot. The set of the
first of them is the holder.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from kubenode.api.v1alpha1 import Machine, MachineComponent, MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import UpdateStrategy
from kubenode.api.v1alpha1.machinestatus import ComponentStatus
from kubenode.api.v1alpha1.machinework import AssignedComponent, ChangeClass, MachinePermit
from machine.componentset.facts import AT_WORK, REBOOT, START_WITHIN, needs_permit
from machine.machine.success import BAD, UNDONE, applied, reported, status_of

_FINISHED = BAD | UNDONE


class PermitAct(StrEnum):
    """What to do about the permit.

    PREPARE: prepare the node for these components, and write the permit once it is ready.
    KEEP: keep the permit, because changes are under way.
    CLEAR: remove the permit from the Machine, so that no change begins.
    END: release the node.
    """

    PREPARE = "Prepare"
    KEEP = "Keep"
    CLEAR = "Clear"
    END = "End"


@dataclass(frozen=True, slots=True)
class PermitPlan:
    """The decision about the permit of one machine.

    lead: the set that is the holder, "" if no set is left. With END: the set that waits for the
        release.
    components: the components that the permit covers.
    class_: the highest change class that the permit allows.
    """

    act: PermitAct
    lead: str = ""
    components: tuple[str, ...] = ()
    class_: ChangeClass = ChangeClass.NONE


def leave_for(
    machine: Machine,
    may: Collection[str],
    holders: Sequence[str],
    now: datetime,
    patience: timedelta,
) -> PermitPlan:
    """Return what to do about the permit of the machine.

    may: sets that allow disruption of this machine now.
    holders: sets that already hold the node.
    patience: how long the agent may take after the permit's `startBefore`.
    """
    entries = [(e, status_of(machine, e.name)) for e in machine.spec.components]
    waiting = [(e, s) for e, s in entries if s is not None and _waits(e, s) and e.set in may]
    permit = machine.spec.permit
    if permit is None:
        if not waiting:
            return PermitPlan(PermitAct.END)
        lead = _lead([e.set for e, _ in waiting], holders)
        if holders and lead not in holders:
            # Another set has finished but still holds the node: release it first.
            return PermitPlan(PermitAct.END, lead)
        names, class_ = _collect_demand(waiting)
        return PermitPlan(PermitAct.PREPARE, lead, names, class_)
    of = {e.name: (e, s) for e, s in entries}
    sets = [of[name][0].set for name in permit.components if name in of]
    lead = min(sets, key=lambda name: name not in holders, default="")
    begun = any(_is_acting(*of[n], permit.start_before, now) for n in permit.components if n in of)
    if now >= permit.start_before + patience or not (begun or waiting):
        return PermitPlan(PermitAct.CLEAR, lead)
    expired = now >= permit.start_before
    names, class_ = tuple(permit.components), permit.max_disruption
    more = [(e, s) for e, s in waiting if expired or not _covers(names, class_, e, s)]
    if not more:
        return PermitPlan(PermitAct.KEEP, lead, names, class_)
    others, wider = _collect_demand(more)
    together = tuple(dict.fromkeys([*names, *others]))
    return PermitPlan(PermitAct.PREPARE, lead, together, max(class_, wider, key=lambda c: c.weight))


def renewed_permit(
    permit: MachinePermit, now: datetime, patience: timedelta
) -> MachinePermit | None:
    """Return the permit with a later end for changes under way, None if it need not be renewed now.

    An agent without the API server acts until the end that it last read. The end is therefore never
    later than the time at which the permit is withdrawn and another holder may get the node.
    """
    ends = max(permit.start_before, permit.renewed_until or permit.start_before)
    later = min(now + START_WITHIN, permit.start_before + patience)
    if ends - now > START_WITHIN / 2 or later <= ends:
        return None
    return permit.model_copy(update={"renewed_until": later})


def patience_of(
    machine: Machine,
    sets: Mapping[str, MachineComponentSet],
    components: Mapping[str, MachineComponent],
) -> timedelta:
    """Return how long the permitted changes may take after the permit's `startBefore`.

    It is the longest machineTimeout of the sets concerned, plus the longest reboot timeout if the
    permit allows a reboot. The node is not released to others while an agent may act. A set or
    component that is gone counts with the default. Zero without a permit.
    """
    permit = machine.spec.permit
    if permit is None:
        return timedelta(0)
    entries = [e for e in machine.spec.components if e.name in permit.components]
    strategies = [sets[e.set].spec.update_strategy for e in entries if e.set in sets]
    waits = max((s.machine_timeout for s in strategies), default=UpdateStrategy().machine_timeout)
    if permit.max_disruption is not ChangeClass.REBOOT:
        return waits
    known = [components[e.component].spec for e in entries if e.component in components]
    return waits + max((spec.reboot_timeout for spec in known), default=REBOOT)


def _covers(
    names: Sequence[str], class_: ChangeClass, entry: AssignedComponent, status: ComponentStatus
) -> bool:
    """Return whether a permit for these components and this class suffices for the entry."""
    needs = status.needs or ChangeClass.NONE
    return entry.name in names and class_.weight >= needs.weight


def _collect_demand(
    waiting: Sequence[tuple[AssignedComponent, ComponentStatus]],
) -> tuple[tuple[str, ...], ChangeClass]:
    """Return the components that wait, and the highest change class that they need."""
    classes = [s.needs for _, s in waiting if s.needs is not None]
    return tuple(sorted(e.name for e, _ in waiting)), max(classes, key=lambda c: c.weight)


def _lead(sets: Sequence[str], holders: Sequence[str]) -> str:
    """Return the set to be the holder, preferably one that already holds the node."""
    return min(sets, key=lambda name: (name not in holders, name))


def _waits(entry: AssignedComponent, status: ComponentStatus) -> bool:
    """Return whether the agent waits for a permit for this assignment."""
    return (
        reported(entry, status)
        and needs_permit(status)
        and status.state not in _FINISHED
        and not applied(entry, status)
    )


def _is_acting(
    entry: AssignedComponent, status: ComponentStatus | None, start_before: datetime, now: datetime
) -> bool:
    """Return whether the agent may be acting on the entry under the permit."""
    if status is None or not reported(entry, status):
        return now < start_before or (status is not None and status.state in AT_WORK)
    if applied(entry, status) or status.state in _FINISHED:
        return False
    return status.state in AT_WORK or (now < start_before and needs_permit(status))
