"""Turns differences between host and component into a disruption class or an act. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from agent.components.drift.compare import Drifted, HostDriftKind, HostState, drifted
from agent.components.drift.fight import DriftFights
from agent.components.model import ComponentRecord, Off, StoredComponent
from agent.components.units import running
from kubenode.runtime.components.change import ComponentForm, change_class, same
from kubenode.runtime.components.wire import (
    UnitState,
    WireChangeClass,
    WireDrift,
    WireMachinePermit,
)

AT_ONCE = frozenset({WireChangeClass.NONE, WireChangeClass.RELOAD})
MOST_DRIFT = 10
LONGEST = 512
"""Characters of a sentence in the status."""


class FormDifference(msgspec.Struct, frozen=True):
    """Difference between host and target. same: nothing to do; how: disruption class of the
    change.
    """

    same: bool
    how: WireChangeClass


def to_target(
    name: str, applied: StoredComponent | None, target: StoredComponent, host_state: HostState
) -> FormDifference:
    """Compare the host with `target`.

    `applied` shows what changes between the two versions. `host_state` also shows what others
    changed, or what was on the host before.
    """
    before, after = applied.form if applied is not None else None, target.form
    if after is None:
        there = before is not None or host_state.installed.version != ""
        spec = applied.spec if applied is not None else target.spec
        return FormDifference(
            not there, spec.disruption.uninstall if there else WireChangeClass.NONE
        )
    unlike = drifted(name, after, host_state)
    if before is None and not host_state.installed.version:
        return FormDifference(
            not unlike, after.disruption.install if unlike else WireChangeClass.NONE
        )
    classes = [WireChangeClass.NONE, *(difference.disturbs for difference in unlike)]
    if before is not None:
        classes.append(change_class(before, after))
    how = max(classes, key=lambda class_: class_.weight)
    return FormDifference(not unlike and (before is None or same(before, after)), how)


class Lapse(msgspec.Struct, frozen=True):
    """What to do about drift at rest. `paths`: what the act corrects."""

    off: Off = Off.NONE
    how: WireChangeClass = WireChangeClass.NONE
    differs: str = ""
    paths: tuple[tuple[HostDriftKind, str], ...] = ()


def lapse(listed: Sequence[Drifted], fights: DriftFights, now: datetime) -> Lapse:
    """Return what to do about the listed drift. A drift fight or a worn-out unit comes first."""
    fought = [
        difference
        for difference in listed
        if fights.fighting(difference.kind, difference.path, now)
    ]
    for off, worn in ((Off.FIGHT, False), (Off.WORN, True)):
        ended = [
            difference
            for difference in fought
            if (difference.kind is HostDriftKind.RUN_STATE) is worn
        ]
        if ended:
            return Lapse(off, differs=describe_drift(ended))
    at_once = [difference for difference in listed if difference.disturbs in AT_ONCE]
    if at_once:
        stopped = all(difference.kind is HostDriftKind.RUN_STATE for difference in at_once)
        paths = tuple((difference.kind, difference.path) for difference in at_once)
        off = Off.START if stopped else Off.CORRECT
        return Lapse(off, _most(at_once), describe_drift(at_once), paths)
    if listed:
        return Lapse(Off.NEEDS, _most(listed), describe_drift(listed))
    return Lapse()


def _most(listed: Sequence[Drifted]) -> WireChangeClass:
    return max((difference.disturbs for difference in listed), key=lambda class_: class_.weight)


def describe_drift(listed: Sequence[Drifted]) -> str:
    """Describe places and differences for people, without any content."""
    sentences = [f"{difference.path}: {difference.why}" for difference in listed[:MOST_DRIFT]]
    return "; ".join(sentences)[:LONGEST]


def on_the_wire(
    listed: Sequence[Drifted],
    fights: DriftFights,
    since: Mapping[tuple[str, str], datetime],
    now: datetime,
) -> list[WireDrift]:
    return [
        WireDrift(
            difference.kind.value,
            difference.path,
            max(1, fights.count(difference.kind, difference.path, now)),
            since.get((difference.kind.value, difference.path)),
        )
        for difference in listed[:MOST_DRIFT]
    ]


def permitted(
    name: str,
    how: WireChangeClass,
    permit: WireMachinePermit | None,
    now: datetime,
    *,
    begun: bool = False,
) -> bool:
    """Return whether a change of class `how` may begin now, or go on if it has `begun`.

    An unknown class permits nothing.
    """
    if how in AT_ONCE:
        return True
    if permit is None or name not in permit.components:
        return False
    if now >= (permit.last_start if begun else permit.start_before):
        return False
    weights = {class_.value: class_.weight for class_ in WireChangeClass}
    return weights.get(permit.max_disruption, 0) >= how.weight


def run_state(record: ComponentRecord, host_state: HostState | None) -> str:
    """Return the value of `status.components[].runState`. Without units, installed means
    running.
    """
    if host_state is None:
        return "Unknown"
    if not host_state.installed.version and not host_state.units:
        return "Absent"
    if not host_state.installed.version and not any(
        unit.loaded for unit in host_state.units.values()
    ):
        return "Absent"
    units = _active_units(record.applied.form) if record.applied is not None else ()
    unit_states = [host_state.units[name] for name in units if name in host_state.units]
    if any(unit.active == "failed" for unit in unit_states):
        return "Failed"
    if not all(running(unit) for unit in unit_states):
        return "Stopped"
    at_rest = record.applied is not None and record.applied.desired_state == "Installed"
    return "Stopped" if at_rest else "Running"


def _active_units(form: ComponentForm | None) -> tuple[str, ...]:
    units = form.units if form is not None else ()
    return tuple(unit.name for unit in units if unit.state is UnitState.ACTIVE)
