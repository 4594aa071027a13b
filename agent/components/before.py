"""Records the host as it was before a component, so that it can be restored.

The state is read before the first change and then kept in the record. A later version may own more
files, packages and units; they are added before they are first changed. What matched the component
from the start counts as there before KubeNode.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from agent.components.ports import (
    MOST_BYTES,
    ComponentPorts,
    FileSnapshot,
    PackageManager,
    PackageSnapshot,
    PackageWanted,
    UnitSnapshot,
)
from agent.components.sources.packages import wanted_of
from agent.components.units import MODE, OWNER, drop_in_files
from agent.host import Contraindicated, HostError
from kubenode.runtime.components.change import ComponentForm
from kubenode.runtime.components.wire import UnitState, WireComponentSource
from kubenode.runtime.components.wire import WirePackages as PackageNames


class Before(msgspec.Struct, frozen=True):
    """The host before a component was applied.

    manager: package manager of `packages`, apt or dnf
    packages: by name; an empty version means not installed
    automatic: those of `packages` that were installed as dependencies
    along: packages that are installed as dependencies of the component's packages
    files: by path, drop-ins of units too; None: the file did not exist
    folders: created for the component's files, outer ones before inner ones
    units: by name
    """

    manager: str = ""
    packages: dict[str, PackageSnapshot] = {}
    automatic: tuple[str, ...] = ()
    along: tuple[str, ...] = ()
    files: dict[str, FileSnapshot | None] = {}
    folders: tuple[str, ...] = ()
    units: dict[str, UnitSnapshot] = {}


def as_is(form: ComponentForm) -> Before:
    """Return the state of a component that matched from the start: nothing of it belongs to the
    component. Pure.
    """
    named = _packages(form.source)
    hold = named is not None and named.hold
    wanted = wanted_of(named) if named is not None else []
    files: dict[str, FileSnapshot | None] = {
        file.path: FileSnapshot(file.content.encode(), file.mode, file.owner) for file in form.files
    }
    for unit in form.units:
        for path, content in drop_in_files(unit).items():
            files[path] = FileSnapshot(content.encode(), MODE, OWNER)
    units = {
        unit.name: UnitSnapshot(
            True,
            "masked" if unit.state is UnitState.MASKED else _enabled(on=unit.enabled),
            "active" if unit.state is UnitState.ACTIVE else "inactive",
        )
        for unit in form.units
    }
    packages = {package.name: PackageSnapshot(package.version, hold) for package in wanted}
    manager = form.source.type if packages else ""
    return Before(manager, packages, files=files, units=units)


async def noted(known: Before, form: ComponentForm, ports: ComponentPorts) -> Before:
    """Return `known`, completed by what `form` touches and `known` lacks.

    Raises HostError; Contraindicated for a file that is too large to store.
    """
    paths = [file.path for file in form.files]
    paths += [path for unit in form.units for path in drop_in_files(unit)]
    files, folders = dict(known.files), dict.fromkeys(known.folders)
    for path in _unknown(paths, files):
        files[path] = _small(path, await ports.files.read(path))
        folders |= dict.fromkeys(await ports.files.missing_folders(path))
    units = dict(known.units)
    for name in _unknown((unit.name for unit in form.units), units):
        units[name] = await ports.units.read_unit(name)
    known = replace(known, files=files, folders=tuple(folders), units=units)
    named, manager = _packages(form.source), ports.packages.get(form.source.type)
    if named is None or manager is None:
        return known
    known = replace(known, manager=form.source.type)
    return await _with_packages(known, wanted_of(named), manager)


async def _with_packages(
    known: Before, wanted: list[PackageWanted], manager: PackageManager
) -> Before:
    new = _unknown((package.name for package in wanted), known.packages)
    if not new:
        return known
    existing = await manager.read_packages(new)
    automatic = await manager.automatic([name for name in new if existing[name].version])
    try:
        along = await manager.along(wanted)
    except HostError:
        along = ()  # the install itself reports what is wrong
    return replace(
        known,
        packages={**known.packages, **existing},
        automatic=(*known.automatic, *sorted(automatic)),
        along=tuple(dict.fromkeys((*known.along, *along))),
    )


def _unknown(names: Iterable[str], known: Mapping[str, object]) -> list[str]:
    return [name for name in names if name not in known]


def _small(path: str, existing: FileSnapshot | None) -> FileSnapshot | None:
    if existing is not None and len(existing.content) > MOST_BYTES:
        raise Contraindicated(
            f"{path}: what is there is larger than {MOST_BYTES} bytes, and could not be put back"
            " when the host is let go; move it away, then raise the component's attempt"
        )
    return existing


def _packages(source: WireComponentSource) -> PackageNames | None:
    return source.apt or source.dnf


def _enabled(*, on: bool) -> str:
    return "enabled" if on else "disabled"
