"""Whether a machine is to get leave for changes, keep it, or give it back. Pure.

All components of one machine that wait share one permit, one drain and one reboot. It is held for
one set, that of the first of them; the others go along.
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

_OVER = BAD | UNDONE


class PermitAct(StrEnum):
    """PREPARE  ask for it, or for more, and write it once the node is ready
    KEEP     the act is under way: keep the permit alive
    CLEAR    take it out of the Machine: nobody may begin any more
    END      give back what is held
    """

    PREPARE = "Prepare"
    KEEP = "Keep"
    CLEAR = "Clear"
    END = "End"


@dataclass(frozen=True, slots=True)
class PermitPlan:
    """lead  the set that it is held for, "" where no set is left; of END: who waits for that"""

    act: PermitAct
    lead: str = ""
    components: tuple[str, ...] = ()
    class_: ChangeClass = ChangeClass.NONE


def leave_for(
    machine: Machine, may: Collection[str], held: Sequence[str], now: datetime, patience: timedelta
) -> PermitPlan:
    """may       sets that let this machine be disrupted now
    held      sets for which its node is held already
    patience  how long an agent may take, from the permit on
    """
    entries = [(e, status_of(machine, e.name)) for e in machine.spec.components]
    waiting = [(e, s) for e, s in entries if s is not None and _waits(e, s) and e.set in may]
    permit = machine.spec.permit
    if permit is None:
        if not waiting:
            return PermitPlan(PermitAct.END)
        lead = _lead([e.set for e, _ in waiting], held)
        if held and lead not in held:
            # Of another set that has done with the node, and has it until it is given back.
            return PermitPlan(PermitAct.END, lead)
        names, class_ = _asked(waiting)
        return PermitPlan(PermitAct.PREPARE, lead, names, class_)
    of = {e.name: (e, s) for e, s in entries}
    sets = [of[name][0].set for name in permit.components if name in of]
    lead = min(sets, key=lambda name: name not in held, default="")
    begun = any(_under_way(*of[n], permit.start_before, now) for n in permit.components if n in of)
    if now >= permit.start_before + patience or not (begun or waiting):
        return PermitPlan(PermitAct.CLEAR, lead)
    expired = now >= permit.start_before
    names, class_ = tuple(permit.components), permit.max_disruption
    more = [(e, s) for e, s in waiting if expired or not _covers(names, class_, e, s)]
    if not more:
        return PermitPlan(PermitAct.KEEP, lead, names, class_)
    others, wider = _asked(more)
    together = tuple(dict.fromkeys([*names, *others]))
    return PermitPlan(PermitAct.PREPARE, lead, together, max(class_, wider, key=lambda c: c.weight))


def renewed_permit(
    permit: MachinePermit, now: datetime, patience: timedelta
) -> MachinePermit | None:
    """The permit with a later end for what has begun; None: it is not to be renewed now.

    An agent that cannot reach the API server acts on until the end that it read last, so the end is
    never later than the moment at which the permit is taken back: the node is somebody else's then.
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
    """As long as any set waits for what the machine has leave for: nobody else gets the slot while
    an agent is at it, and what has failed for its set holds none. A set or component that is gone
    counts as the default says.
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
    needs = status.needs or ChangeClass.NONE
    return entry.name in names and class_.weight >= needs.weight


def _asked(
    waiting: Sequence[tuple[AssignedComponent, ComponentStatus]],
) -> tuple[tuple[str, ...], ChangeClass]:
    classes = [s.needs for _, s in waiting if s.needs is not None]
    return tuple(sorted(e.name for e, _ in waiting)), max(classes, key=lambda c: c.weight)


def _lead(sets: Sequence[str], held: Sequence[str]) -> str:
    """The one for which the node is held already goes on."""
    return min(sets, key=lambda name: (name not in held, name))


def _waits(entry: AssignedComponent, status: ComponentStatus) -> bool:
    return (
        reported(entry, status)
        and needs_permit(status)
        and status.state not in _OVER
        and not applied(entry, status)
    )


def _under_way(
    entry: AssignedComponent, status: ComponentStatus | None, start_before: datetime, now: datetime
) -> bool:
    """Whether its agent may be acting under the permit."""
    if status is None or not reported(entry, status):
        return now < start_before or (status is not None and status.state in AT_WORK)
    if applied(entry, status) or status.state in _OVER:
        return False
    return status.state in AT_WORK or (now < start_before and needs_permit(status))
