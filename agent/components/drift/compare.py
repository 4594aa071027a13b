"""Compares the desired with the actual state of a component's host and lists the drift. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agent.components.ports import Installed, UnitSnapshot
from agent.components.units import at_rest, drop_in_files, enabled, running
from kubenode.runtime.components.change import ComponentForm
from kubenode.runtime.components.render import RenderedFile, RenderedUnit
from kubenode.runtime.components.versions import VersionStep, step_of
from kubenode.runtime.components.wire import UnitState, WireChangeClass

LONGEST_PATH = 1024


class HostDriftKind(StrEnum):
    """Kinds of drift in the API, most serious first."""

    VERSION = "Version"
    FILE = "File"
    UNIT = "Unit"
    RUN_STATE = "RunState"
    HOLD = "Hold"


@dataclass(frozen=True, slots=True)
class Drifted:
    """One difference.

    path: of the file, or the name of the unit or component
    why: for people, without any content
    disturbs: disruption class of correcting it
    """

    kind: HostDriftKind
    path: str
    why: str
    disturbs: WireChangeClass


@dataclass(frozen=True, slots=True)
class HostState:
    """Actual state of what one component owns.

    files: by path, drop-ins too: "" if the file is as it shall be, else how it differs
    """

    installed: Installed
    files: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, UnitSnapshot] = field(default_factory=dict)


def drifted(name: str, form: ComponentForm, host_state: HostState) -> list[Drifted]:
    """List what differs from `form`, which the component `name` was applied as."""
    listed = [
        *_version(name, form, host_state.installed),
        *(difference for file in form.files for difference in _file(file, host_state)),
        *(difference for unit in form.units for difference in _unit(unit, host_state)),
        *_hold(name, host_state.installed),
    ]
    order = list(HostDriftKind)
    return sorted(listed, key=lambda difference: order.index(difference.kind))


def _version(name: str, form: ComponentForm, there: Installed) -> Iterator[Drifted]:
    if there.exact:
        return
    if not there.version:
        why, class_ = "it is not installed any more", form.disruption.install
    elif there.broken:
        why, class_ = there.broken, form.disruption.patch
    elif there.changed:
        why, class_ = f"changed: {', '.join(there.changed)}", form.disruption.patch
    else:
        why = f"version {there.version} is installed instead of {form.version}"
        class_ = _step(form, there.version)
    yield Drifted(HostDriftKind.VERSION, there.changed[0] if there.changed else name, why, class_)


def _step(form: ComponentForm, installed: str) -> WireChangeClass:
    match step_of(installed, form.version):
        case VersionStep.MINOR:
            return form.disruption.minor
        case VersionStep.NONE | VersionStep.PATCH:
            return form.disruption.patch
        case _:
            return form.disruption.major


def _hold(name: str, there: Installed) -> Iterator[Drifted]:
    if there.version and not there.pinned:
        why = "the package manager is no longer told to leave it alone"
        yield Drifted(HostDriftKind.HOLD, name, why, WireChangeClass.NONE)


def _file(file: RenderedFile, host_state: HostState) -> Iterator[Drifted]:
    if why := host_state.files.get(file.path, ""):
        yield Drifted(HostDriftKind.FILE, file.path[:LONGEST_PATH], why, file.on_change)


def _unit(unit: RenderedUnit, host_state: HostState) -> Iterator[Drifted]:
    for path in drop_in_files(unit):
        if why := host_state.files.get(path, ""):
            yield Drifted(HostDriftKind.FILE, path[:LONGEST_PATH], why, unit.on_change)
    there = host_state.units.get(unit.name)
    if there is None:
        return
    if why := _unlike(unit, there):
        yield Drifted(HostDriftKind.UNIT, unit.name, why, WireChangeClass.NONE)
    if why := _run_state(unit, there):
        # To start a stopped unit disturbs nothing; to stop a running one may.
        class_ = WireChangeClass.NONE if at_rest(there) else unit.on_change
        yield Drifted(HostDriftKind.RUN_STATE, unit.name, why, class_)


def _unlike(unit: RenderedUnit, there: UnitSnapshot) -> str:
    masked = unit.state is UnitState.MASKED
    if masked != there.masked:
        return "it is not masked" if masked else "it is masked"
    if masked:
        return ""
    if not there.loaded:
        return "systemd knows no such unit"
    cannot = enabled(there) and there.enabled != "enabled"
    if unit.enabled != enabled(there) and not cannot:
        return f"it is {there.enabled}"
    return ""


def _run_state(unit: RenderedUnit, there: UnitSnapshot) -> str:
    if unit.state is UnitState.ACTIVE and not running(there):
        return f"it is {there.active}" + (f", {there.result}" if there.active == "failed" else "")
    if unit.state is not UnitState.ACTIVE and not at_rest(there):
        return f"it is {there.active}"
    return ""
