"""Units of a component on the host: drop-ins, enabled or masked, running or stopped.

Level-based and idempotent: what is right already is left alone. The caller decides whether a
running unit is restarted after a change.
"""

from agent.components.ports import FileSnapshot, HostFiles, Units, UnitSnapshot
from kubenode.runtime.components.render import RenderedUnit
from kubenode.runtime.components.wire import UnitState

FOLDER = "/etc/systemd/system"
MODE, OWNER = "0644", "root:root"
START_SECONDS = 120.0
"""Longer than systemd's default of 90 s, so that systemd reports the cause first."""
ENABLED = frozenset({"enabled", "static", "indirect", "generated", "alias", "linked", "transient"})
"""Outputs of `systemctl is-enabled` for units that are enabled, or that cannot be enabled."""


def drop_in_files(unit: RenderedUnit) -> dict[str, str]:
    """Return the drop-ins' content by path."""
    return {f"{FOLDER}/{unit.name}.d/{drop_in.name}": drop_in.content for drop_in in unit.drop_ins}


async def settle(
    units: Units,
    files: HostFiles,
    wanted: RenderedUnit,
    before: RenderedUnit | None = None,
    limit: float = START_SECONDS,
) -> bool:
    """Make the unit as wanted; return whether a drop-in was written or one of `before` removed.

    Raises HostError, NoSuchUnit.
    """
    changed = await _drop_ins(files, wanted, before)
    unit_state = await units.read_unit(wanted.name)
    if changed or unit_state.stale or not unit_state.loaded:
        await units.reread()
        unit_state = await units.read_unit(wanted.name)
    if wanted.state is UnitState.MASKED:
        await _mask(units, wanted.name, unit_state, limit)
        return changed
    if unit_state.masked:
        await units.set_masked(wanted.name, on=False)
        unit_state = await units.read_unit(wanted.name)
    if enabled(unit_state) != wanted.enabled and unit_state.enabled not in ENABLED - {"enabled"}:
        await units.set_enabled(wanted.name, on=wanted.enabled)
    if wanted.state is UnitState.ACTIVE and not running(unit_state):
        await units.start(wanted.name, limit)
    if wanted.state is UnitState.INACTIVE and not at_rest(unit_state):
        await units.stop(wanted.name, limit)
    return changed


async def let_go(
    units: Units, files: HostFiles, ours: RenderedUnit, limit: float = START_SECONDS
) -> None:
    """Revert `settle`: stop, disable and unmask the unit, and remove the component's drop-ins."""
    unit_state = await units.read_unit(ours.name)
    if unit_state.loaded and not at_rest(unit_state):
        await units.stop(ours.name, limit)
    if unit_state.masked and ours.state is UnitState.MASKED:
        await units.set_masked(ours.name, on=False)
    elif unit_state.enabled == "enabled" and ours.enabled:
        await units.set_enabled(ours.name, on=False)
    bare = RenderedUnit(ours.name)
    if await _drop_ins(files, bare, ours):
        await units.reread()


def running(unit_state: UnitSnapshot) -> bool:
    """Return whether the unit runs; for a oneshot, whether it ran successfully."""
    done = unit_state.oneshot and unit_state.active == "inactive" and unit_state.invocation != ""
    return unit_state.active in ("active", "reloading", "activating") or (
        done and unit_state.result == "success"
    )


def at_rest(unit_state: UnitSnapshot) -> bool:
    return unit_state.active in ("inactive", "failed")


def enabled(unit_state: UnitSnapshot) -> bool:
    """Return whether the unit is enabled for every boot; `enabled-runtime` does not count."""
    return unit_state.enabled in ENABLED


async def _mask(units: Units, name: str, unit_state: UnitSnapshot, limit: float) -> None:
    if unit_state.loaded and not at_rest(unit_state):
        await units.stop(name, limit)
    if not unit_state.masked:
        await units.set_masked(name, on=True)


async def _drop_ins(files: HostFiles, wanted: RenderedUnit, before: RenderedUnit | None) -> bool:
    now = drop_in_files(wanted)
    gone = (drop_in_files(before) if before is not None else {}).keys() - now.keys()
    changed = False
    for path, content in now.items():
        meant = FileSnapshot(content.encode(), MODE, OWNER)
        if await files.read(path) != meant:
            await files.write(path, meant.content, MODE, OWNER)
            changed = True
    for path in sorted(gone):
        if await files.read(path) is not None:
            await files.remove(path)
            changed = True
    return changed
