"""Reads the state of what one component owns on this host. Changes nothing."""

from collections.abc import Mapping

from agent.components.drift.compare import HostState
from agent.components.files.placement import read_file_state
from agent.components.ports import ComponentPorts, FileSnapshot
from agent.components.sources import source_of
from agent.components.units import FOLDER, MODE, OWNER, drop_in_files
from agent.host import Contraindicated
from kubenode.runtime.components.change import ComponentForm
from kubenode.runtime.components.render import RenderedFile

DATABASES: Mapping[str, str] = {"apt": "/var/lib/dpkg/status", "dnf": "/var/lib/rpm/rpmdb.sqlite"}
"""Files that change whenever a package or a hold changes."""


async def read_host_state(form: ComponentForm, ports: ComponentPorts) -> HostState:
    """Return the host state. Raises HostError if it cannot be read: then drift is unknown."""
    installed = await source_of(form.version, form.source, ports).read_installed()
    files = {file.path: await _file(file, ports) for file in form.files}
    units = {}
    for unit in form.units:
        units[unit.name] = await ports.units.read_unit(unit.name)
        for path, content in drop_in_files(unit).items():
            meant = FileSnapshot(content.encode(), MODE, OWNER)
            files[path] = _unlike(await ports.files.read(path), meant)
    return HostState(installed, files, units)


def paths(form: ComponentForm) -> set[str]:
    """Return the paths to watch: files, drop-ins, masks of units, the database of packages."""
    drop_ins: set[str] = {path for unit in form.units for path in drop_in_files(unit)}
    masks = {f"{FOLDER}/{unit.name}" for unit in form.units}
    databases = {DATABASES[form.source.type]} if form.source.type in DATABASES else set()
    return {file.path for file in form.files} | drop_ins | masks | databases


async def _file(file: RenderedFile, ports: ComponentPorts) -> str:
    try:
        state = await read_file_state(ports.files, file)
    except Contraindicated as error:
        return str(error)  # its keys can no longer be read
    if state.same:
        return ""
    if state.existing is None:
        return "it is gone"
    mine: Mapping[str, tuple[str, str]] = {
        "mode": (state.existing.mode, file.mode),
        "owner": (state.existing.owner, file.owner),
    }
    other = [f"{what} {is_}" for what, (is_, meant) in mine.items() if is_ != meant]
    return ", ".join(other) or "its content was changed"


def _unlike(actual: FileSnapshot | None, meant: FileSnapshot) -> str:
    if actual is None:
        return "it is gone"
    return "" if actual == meant else "it was changed"
