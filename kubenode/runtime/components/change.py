"""How much a change of one component disturbs its host.

The class of a change is the highest of: the step between the versions, the files that differ, the
units that differ. Only the step counts if a whole component is installed or removed, because its
files and units come and go with it. Between two versions the newer one defines the class of the
step, for an upgrade and for a rollback.
"""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from kubenode.runtime.components.render import RenderedFile, RenderedFiles, RenderedUnit
from kubenode.runtime.components.versions import VersionStep, compare, step_of
from kubenode.runtime.components.wire import (
    ComponentSpec,
    UnitState,
    WireChangeClass,
    WireComponentSource,
    WireDesiredState,
    WireDisruptions,
)


class ComponentForm(msgspec.Struct, frozen=True):
    """A component on one machine, in its actual or its desired state."""

    version: str
    source: WireComponentSource
    disruption: WireDisruptions
    files: tuple[RenderedFile, ...]
    units: tuple[RenderedUnit, ...]


def form_of(
    spec: ComponentSpec, rendered: RenderedFiles, desired_state: str
) -> ComponentForm | None:
    """Return the form of a component; None if it is Absent, or only Staged."""
    if desired_state in (WireDesiredState.ABSENT, WireDesiredState.STAGED):
        return None
    units = rendered.units
    if desired_state == WireDesiredState.INSTALLED:
        units = tuple(_at_rest(unit) for unit in units)
    return ComponentForm(spec.version, spec.source, spec.disruption, rendered.files, units)


def change_class(before: ComponentForm | None, after: ComponentForm | None) -> WireChangeClass:
    """Return the class of a change; NONE if nothing differs, or no difference disturbs."""
    if before is None or after is None:
        return _step_class(before, after)
    classes = [
        _step_class(before, after),
        *_differing(_files(before), _files(after)),
        *_differing(_units(before), _units(after)),
    ]
    return max(classes, key=lambda class_: class_.weight)


def same(before: ComponentForm | None, after: ComponentForm | None) -> bool:
    """Return whether there is nothing to do, so that equal content restarts nothing (F35)."""
    if before is None or after is None:
        return before is after
    return (
        before.version == after.version
        and before.source == after.source
        and not list(_differing(_files(before), _files(after)))
        and not list(_differing(_units(before), _units(after)))
    )


def _step_class(before: ComponentForm | None, after: ComponentForm | None) -> WireChangeClass:
    if after is None:
        return WireChangeClass.NONE if before is None else before.disruption.uninstall
    if before is None:
        return after.disruption.install
    newer = before if compare(before.version, after.version) > 0 else after
    match step_of(before.version, after.version):
        case VersionStep.NONE if before.source == after.source:
            return WireChangeClass.NONE
        case VersionStep.NONE | VersionStep.PATCH:
            return newer.disruption.patch
        case VersionStep.MINOR:
            return newer.disruption.minor
        case _:
            return newer.disruption.major


def _files(form: ComponentForm) -> dict[str, RenderedFile]:
    return {file.path: file for file in form.files}


def _units(form: ComponentForm) -> dict[str, RenderedUnit]:
    return {unit.name: unit for unit in form.units}


def _differing(
    before: Mapping[str, RenderedFile] | Mapping[str, RenderedUnit],
    after: Mapping[str, RenderedFile] | Mapping[str, RenderedUnit],
) -> Iterator[WireChangeClass]:
    """Yield the class of each file or unit that differs; a removed one has its old class."""
    for key in {**before, **after}:
        old, new = before.get(key), after.get(key)
        judged = new if new is not None else old
        if judged is not None and not _equal(old, new):
            yield judged.on_change


def _equal(
    old: RenderedFile | RenderedUnit | None, new: RenderedFile | RenderedUnit | None
) -> bool:
    """Compare two parts without their class of change and the salt of their digest."""
    if old is None or new is None:
        return old is new
    return _bare(old) == _bare(new)


def _bare(part: RenderedFile | RenderedUnit) -> RenderedFile | RenderedUnit:
    if isinstance(part, RenderedFile):
        return replace(part, on_change=WireChangeClass.NONE, salt="")
    return replace(part, on_change=WireChangeClass.NONE)


def _at_rest(unit: RenderedUnit) -> RenderedUnit:
    """Return the unit installed but not run: neither now nor at the next boot."""
    if unit.state is UnitState.MASKED:
        return unit
    return replace(unit, enabled=False, state=UnitState.INACTIVE)
