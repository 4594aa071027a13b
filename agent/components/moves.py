"""Executes the moves of a change on the host. Each move is idempotent.

Applying, undoing and removing use the same moves: `new` is what shall be on the host, `olds` is
what earlier versions may have left there.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from agent.components import restoration
from agent.components.before import Before, noted
from agent.components.files.placement import put, put_back, take_away
from agent.components.model import (
    ComponentApplyState,
    ComponentMove,
    ComponentRecord,
    MoveResult,
    StoredComponent,
)
from agent.components.ports import ComponentFileSource, ComponentPorts
from agent.components.sources import source_of
from agent.components.units import START_SECONDS, let_go, running, settle
from agent.host import Contraindicated, HostError, HostUnreachable
from kubenode.runtime.components.render import RenderedFile, RenderedUnit
from kubenode.runtime.components.wire import (
    UnitState,
    WireChangeClass,
    WireComponentSource,
    WireHook,
)
from kubenode.runtime.duration import seconds

MILD = frozenset({WireChangeClass.NONE, WireChangeClass.RELOAD})
"""Disruption classes that are corrected at once, without a permit."""
OUTPUT = 300
"""Characters of a program's output that the status shows, from its end."""


class ChangePath(msgspec.Struct, frozen=True):
    """What a change starts from and leads to.

    new: what shall be on the host; None: nothing
    olds: earlier versions that may be on the host, the most recent first
    """

    new: StoredComponent | None
    olds: tuple[StoredComponent, ...]


def find_change_path(record: ComponentRecord) -> ChangePath:
    match record.state:
        case ComponentApplyState.UNDOING:
            return ChangePath(record.applied, _there(record.target, record.stray))
        case ComponentApplyState.REMOVING:
            return ChangePath(None, _there(record.applied, record.stray, record.target))
        case _:
            return ChangePath(record.target, _there(record.applied, record.stray))


def _there(*components: StoredComponent | None) -> tuple[StoredComponent, ...]:
    return tuple(component for component in components if component is not None)


class Moves:
    """Executes moves on one host.

    Errors of the host are in the result. HostUnreachable is raised, because the result is unknown
    and the move must be repeated.
    """

    def __init__(self, ports: ComponentPorts) -> None:
        self._ports = ports
        self._moves: Mapping[
            ComponentMove, Callable[[ComponentRecord, ChangePath], Awaitable[MoveResult]]
        ] = {
            ComponentMove.NOTE: self._note,
            ComponentMove.PREPARE: lambda r, w: self._hook(r, w, "prepare"),
            ComponentMove.SOFTWARE: self._software,
            ComponentMove.APPLY: lambda r, w: self._hook(r, w, "apply"),
            ComponentMove.FILES: self._files,
            ComponentMove.UNITS: self._units,
            ComponentMove.CONFIG: lambda r, w: self._hook(r, w, "config"),
            ComponentMove.RUN: self._run,
            ComponentMove.POST: lambda r, w: self._hook(r, w, "post"),
            ComponentMove.LEAVE: lambda r, w: self._hook(r, w, "remove"),
            ComponentMove.STOP: self._stop,
            ComponentMove.TAKE_FILES: self._take_files,
            ComponentMove.TAKE_SOFTWARE: self._take_software,
            ComponentMove.GIVE_BACK: self._give_back,
        }

    async def stage(self, record: ComponentRecord, target: StoredComponent) -> MoveResult:
        async def download() -> MoveResult:
            old = record.applied
            if old is not None and (old.spec.source.apt or old.spec.source.dnf):
                with suppress(HostError):  # for an undo; the repository may lack old versions
                    await self._source(record, old).stage()
            await self._source(record, target).stage()
            return MoveResult()

        return await _run_move(download())

    async def do(self, record: ComponentRecord) -> MoveResult:
        """Execute the move that `record.at` names."""
        assert record.at is not None
        return await _run_move(self._moves[record.at](record, find_change_path(record)))

    async def correct(self, record: ComponentRecord) -> MoveResult:
        """Correct what disturbs nothing: files with their reloads, units, package holds."""

        async def put_right() -> MoveResult:
            applied = record.applied
            assert applied is not None and applied.form is not None
            source = self._source(record, applied)
            installed = await source.read_installed()
            if not installed.exact and applied.spec.disruption.patch in MILD:
                await source.install()
            elif installed.version and not installed.pinned:
                await source.hold()
            mild = [file for file in applied.form.files if file.on_change in MILD]
            written = [file for file in mild if await put(self._ports.files, file, file)]
            reload = any(file.on_change is WireChangeClass.RELOAD for file in written)
            for unit in applied.form.units:
                bare = replace(unit, drop_ins=())
                await settle(self._ports.units, self._ports.files, bare)
                if reload and unit.state is UnitState.ACTIVE:
                    await self._ports.units.reload(unit.name, START_SECONDS)
            return MoveResult()

        return await _run_move(put_right())

    # -- installation -----------------------------------------------------------------------------

    async def _note(self, record: ComponentRecord, change: ChangePath) -> MoveResult:
        """Record which units run, so that a restart by a package is not repeated, and what exists.

        What exists is restored when the Machine is deleted.
        """
        assert change.new is not None and change.new.form is not None
        before = record.before
        if before is not None:
            before = await noted(before, change.new.form, self._ports)
        return MoveResult(started=await self._running(change.new.form.units), before=before)

    async def _software(self, record: ComponentRecord, change: ChangePath) -> MoveResult:
        assert change.new is not None
        source = self._source(record, change.new)
        if not (await source.read_installed()).exact:
            await source.stage()
        try:
            await source.install()
        except (Contraindicated, HostUnreachable):
            raise
        except HostError:
            # The install that was waited for may belong to an earlier change of an earlier process.
            await source.install()
        for old in change.olds:
            if _place(old.spec.source) != _place(change.new.spec.source):
                keep = old.spec.uninstall.keep_data
                await self._source(record, old).remove(keep, purge=False, back=True)
        return MoveResult()

    async def _files(self, record: ComponentRecord, change: ChangePath) -> MoveResult:
        assert change.new is not None and change.new.form is not None
        wanted = {file.path for file in change.new.form.files}
        touched = record.tries > 0 or _other_files(change)
        for file in change.new.form.files:
            touched |= await put(self._ports.files, file, _before(file, change.olds))
        for old in change.olds:
            for gone in (file for file in old.rendered.files if file.path not in wanted):
                await self._take_file(record, gone, old)
        # A unit that was restarted before it had these files must be restarted again.
        return MoveResult(started=await self._running(change.new.form.units) if touched else {})

    async def _running(self, units: tuple[RenderedUnit, ...]) -> dict[str, str]:
        unit_states = {unit.name: await self._ports.units.read_unit(unit.name) for unit in units}
        return {name: state.invocation for name, state in unit_states.items() if running(state)}

    async def _units(self, record: ComponentRecord, change: ChangePath) -> MoveResult:
        assert change.new is not None and change.new.form is not None
        units, files = self._ports.units, self._ports.files
        wanted = {unit.name: unit for unit in change.new.form.units}
        for old in change.olds:
            for gone in (unit for unit in old.rendered.units if unit.name not in wanted):
                await let_go(units, files, gone)
        before = {u.name: u for old in reversed(change.olds) for u in old.rendered.units}
        started = dict(record.started)
        for unit in wanted.values():
            earlier = await units.read_unit(unit.name)
            if await settle(units, files, unit, before.get(unit.name)) and running(earlier):
                started[unit.name] = earlier.invocation
        return MoveResult(started=started)

    async def _run(self, record: ComponentRecord, change: ChangePath) -> MoveResult:
        """Restart or reload the units that ran before the change and were not restarted since."""
        assert change.new is not None and change.new.form is not None
        if record.how in (WireChangeClass.NONE, WireChangeClass.REBOOT):
            return MoveResult()
        for unit in change.new.form.units:
            if unit.state is not UnitState.ACTIVE or unit.name not in record.started:
                continue
            if record.how is WireChangeClass.RELOAD:
                await self._ports.units.reload(unit.name, START_SECONDS)
                continue
            unit_state = await self._ports.units.read_unit(unit.name)
            if unit_state.invocation == record.started[unit.name]:
                await self._ports.units.restart(unit.name, START_SECONDS)
        return MoveResult()

    # -- removal ----------------------------------------------------------------------------------

    async def _stop(self, record: ComponentRecord, change: ChangePath) -> MoveResult:
        for old in change.olds:
            for unit in reversed(old.rendered.units):
                await let_go(self._ports.units, self._ports.files, unit)
        return MoveResult()

    async def _take_files(self, record: ComponentRecord, change: ChangePath) -> MoveResult:
        for old in change.olds:
            if old.spec.uninstall.purge_files:
                for file in old.rendered.files:
                    await self._take_file(record, file, old)
        return MoveResult()

    async def _take_file(
        self, record: ComponentRecord, file: RenderedFile, old: StoredComponent
    ) -> None:
        before, keep = _before_us(record), old.spec.uninstall.keep_data
        if before is None:
            await take_away(self._ports.files, file, keep)
        else:
            await put_back(self._ports.files, file, before.files.get(file.path), keep)

    async def _take_software(self, record: ComponentRecord, change: ChangePath) -> MoveResult:
        before, stays = _before_us(record), ""
        for old in change.olds:
            wanted, source = old.spec.uninstall, old.spec.source
            manager = self._ports.packages.get(source.type)
            if before is None or manager is None or before.manager != source.type:
                back = before is not None
                keep, purge = wanted.keep_data, wanted.purge_files
                await self._source(record, old).remove(keep, purge=purge, back=back)
                continue
            purge = wanted.purge_files and not wanted.keep_data
            named = source.apt or source.dnf
            wait = seconds(named.lock_wait) if named is not None else 0.0
            stays = await restoration.packages(manager, before, wait, purge=purge)
        return MoveResult(stays=stays)

    async def _give_back(self, record: ComponentRecord, change: ChangePath) -> MoveResult:
        before = _before_us(record)
        if before is None:
            return MoveResult()
        if await restoration.files(self._ports, before):
            await self._ports.units.reread()
        for name, was in before.units.items():
            if was.loaded or was.masked:
                await restoration.unit(self._ports, name, was)
        return MoveResult()

    # -- programs ---------------------------------------------------------------------------------

    async def _hook(self, record: ComponentRecord, change: ChangePath, name: str) -> MoveResult:
        """Run a hook, then its check. A hook whose check passes already is skipped."""
        component = change.new or (change.olds[0] if change.olds else None)
        hook: WireHook | None = (
            getattr(component.spec.hooks, name) if component is not None else None
        )
        if hook is None or (hook.check and not await self._fails(hook.check, hook, "")):
            return MoveResult()
        step = f"{record.name} {record.revision} {record.attempt} {record.state} {name}"
        if why := await self._fails(hook.run, hook, step):
            return MoveResult(f"hook {name}: {why}")
        if hook.check and (why := await self._fails(hook.check, hook, "")):
            return MoveResult(f"hook {name} ran, and its check fails: {why}")
        return MoveResult()

    async def _fails(self, argv: list[str], hook: WireHook, name: str) -> str:
        try:
            ran = await self._ports.runner.run(argv, hook.timeout_seconds, name)
        except TimeoutError:
            return f"{argv[0]} took longer than {hook.timeout}"
        if ran.code == 0:
            return ""
        return f"{argv[0]} ended with {ran.code}: {ran.output.strip()[-OUTPUT:]}"

    def _source(self, record: ComponentRecord, component: StoredComponent) -> ComponentFileSource:
        """Return the source of the component's files. Raises Contraindicated."""
        name = f"{record.name} {record.revision} {record.attempt} {record.state}"
        return source_of(component.spec.version, component.spec.source, self._ports, name)


async def _run_move(move: Awaitable[MoveResult]) -> MoveResult:
    try:
        return await move
    except HostUnreachable:
        raise
    except Contraindicated as error:
        return MoveResult(str(error), final=True)
    except HostError as error:
        return MoveResult(str(error))


def _before_us(record: ComponentRecord) -> Before | None:
    """Return what to restore; None: only remove what belongs to the component."""
    back = (
        record.leaving
        if record.state is ComponentApplyState.REMOVING
        else record.state is ComponentApplyState.UNDOING
    )
    return record.before if back else None


def _before(file: RenderedFile, olds: tuple[StoredComponent, ...]) -> RenderedFile | None:
    """Return the file as an earlier version wrote it, whose keys belong to the component too;
    None if there is none.
    """
    earlier = (
        candidate for old in olds for candidate in old.rendered.files if candidate.path == file.path
    )
    return next(earlier, None)


def _other_files(change: ChangePath) -> bool:
    """Return whether files or drop-ins differ from the last version, as far as it is known."""

    def content(component: StoredComponent) -> tuple[object, ...]:
        files = {
            file.path: (file.digest, file.mode, file.owner) for file in component.rendered.files
        }
        return files, {unit.name: unit.drop_ins for unit in component.rendered.units}

    return change.new is None or [content(change.new)] != [content(old) for old in change.olds[:1]]


def _place(source: WireComponentSource) -> tuple[str, str]:
    """Return where a source installs its files. An install elsewhere does not replace them."""
    tree = source.tarball or source.oci
    return source.type, tree.dest if tree is not None else ""
