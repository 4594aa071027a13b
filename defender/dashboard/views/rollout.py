"""The rollout of one component set: a mark for each machine, batches, bake time, actions. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from defender.dashboard.machine import AssignedView, InstalledView, RolloutMachine
from defender.dashboard.natural import natural
from defender.dashboard.rollout import SetRollout
from defender.dashboard.scene import Scene
from defender.dashboard.views.rollouts import RolloutRow, row_of
from kubenode.api.rollouts import STICKY, RevisionNames, choose_undo
from kubenode.runtime.site.grid import columns, draw_states
from kubenode.runtime.site.parts import PagePart

MOST_ROWS = 200
ENDED_STATES = ("Failed", "RolledBack", "Unhealthy", "DriftFight")
DESIRED_STATES = {
    "Running": "Healthy",
    "Installed": "Healthy",
    "Staged": "Staged",
    "Absent": "Absent",
}
READINESS = ("AgentReady", "NodeReady")


class MachineMark(StrEnum):
    """State of a machine in a rollout, the most important first."""

    FAILED = "Failed"
    UNWELL = "Not healthy"
    CHANGING = "Changing"
    PREVIOUS = "Previous revision"
    NONE = "Nothing assigned"
    UPDATED = "Updated"

    @property
    def letter(self) -> str:
        """Name of its symbol."""
        return _LETTERS[self]


_LETTERS = {
    MachineMark.FAILED: "f",
    MachineMark.UNWELL: "p",
    MachineMark.CHANGING: "r",
    MachineMark.PREVIOUS: "c",
    MachineMark.NONE: "s",
    MachineMark.UPDATED: "h",
}
_RANKS = {mark: rank for rank, mark in enumerate(MachineMark)}
Marks = tuple[tuple[str, str, int], ...]


class RolloutAction(StrEnum):
    """What a person can do with a rollout."""

    PAUSE = "Pause"
    RESUME = "Resume"
    RETRY = "Retry"
    UNDO = "Undo"


@dataclass(frozen=True, slots=True)
class ActionChoice:
    """An action, what follows from it, and the revision that it is about ("" for none)."""

    action: RolloutAction
    means: str
    revision: str = ""


@dataclass(frozen=True, slots=True)
class RolloutActions:
    template: ClassVar[str] = "parts/rollout_actions.html"
    choices: tuple[ActionChoice, ...]
    key: str = "actions"


@dataclass(frozen=True, slots=True)
class RolloutHead:
    """Head of the page.

    steps: (size of a batch, whether it is the present one); the last size repeats.
    terms: (term, value) of the strategy.
    counts: see BatchMarks.
    """

    template: ClassVar[str] = "parts/rollout_head.html"
    row: RolloutRow
    current_revision: str
    update_revision: str
    rejected_revision: str
    bake_until: datetime | None
    steps: tuple[tuple[str, bool], ...]
    terms: tuple[tuple[str, str], ...]
    counts: Marks
    problem: str
    key: str = "rollout"


@dataclass(frozen=True, slots=True)
class BatchMarks:
    """The machines of one batch, one mark each in the order of their names.

    counts: (letter, state, number of machines).
    paths: (letter, SVG path), with one unit for each machine.
    """

    template: ClassVar[str] = "parts/rollout_batch.html"
    key: str
    title: str
    wide: int
    high: int
    counts: Marks
    paths: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RolloutMachineRow:
    template: ClassVar[str] = "parts/rollout_machine.html"
    key: str
    node: str
    mark: MachineMark
    batch: int
    version: str
    why: str


def view(scene: Scene, name: str) -> dict[str, Sequence[PagePart]] | None:
    """Return the view, None if there is no such set."""
    rollout = scene.rollouts.get(name)
    if rollout is None:
        return None
    rows = _machine_rows(scene.machines.values(), rollout)
    choices = tuple(action_choices(rollout))
    shown = sorted(rows, key=lambda row: _RANKS[row.mark])
    return {
        "rollout": [_head(rollout, rows, scene.machines_read)],
        "actions": [RolloutActions(choices)] if choices else [],
        "batches": list(_batches(rows)),
        "machines": shown[:MOST_ROWS],
    }


def _head(rollout: SetRollout, rows: Sequence[RolloutMachineRow], is_read: bool) -> RolloutHead:
    status, batch = rollout.status, rollout.status.batch
    strategy = rollout.spec.update_strategy
    index = 0 if batch is None else batch.index
    sizes = [str(size) for size in strategy.batches]
    at = min(index, len(sizes)) - 1 if status.phase not in ("Idle", "Completed") else -1
    return RolloutHead(
        row_of(rollout),
        status.current_revision,
        status.update_revision,
        status.rejected_revision,
        None if batch is None else batch.bake_until,
        tuple((size, number == at) for number, size in enumerate(sizes)),
        (
            ("Bake time", strategy.bake_time),
            ("At most unavailable", str(strategy.max_unavailable)),
            ("Partition", str(strategy.partition)),
            ("After a failure", strategy.failure_policy),
        ),
        _counts(rows),
        "" if is_read else "The machines are not read yet, so their marks are not known.",
    )


# -- machines -------------------------------------------------------------------------------------


def _machine_rows(
    machines: Iterable[RolloutMachine], rollout: SetRollout
) -> list[RolloutMachineRow]:
    """Return a row for each machine of the set, by name."""
    selector, name = rollout.spec.selector, rollout.metadata.name
    failed = frozenset(rollout.status.batch.failed if rollout.status.batch else ())
    rows = []
    for machine in machines:
        entry = machine.assigned_by(name)
        if entry is None and not selector.matches(machine.metadata.labels):
            continue
        rows.append(_row(machine, entry, rollout.status.update_revision, failed))
    return sorted(rows, key=lambda row: natural(row.key))


def _row(
    machine: RolloutMachine, entry: AssignedView | None, update: str, failed: frozenset[str]
) -> RolloutMachineRow:
    name = machine.metadata.name
    installed = None if entry is None else machine.installed(entry.name)
    mark = mark_of(machine, entry, update)
    if name in failed and mark is not MachineMark.UPDATED:
        mark = MachineMark.FAILED
    return RolloutMachineRow(
        name,
        machine.node,
        mark,
        0 if entry is None or entry.revision != update else entry.batch,
        "" if installed is None else installed.version,
        _why(machine, installed, mark),
    )


def mark_of(machine: RolloutMachine, entry: AssignedView | None, update: str) -> MachineMark:
    """Return the state of the machine, by what is assigned and what its agent reports of it."""
    if entry is None:
        return MachineMark.NONE
    if entry.revision != update:
        return MachineMark.PREVIOUS
    installed = machine.installed(entry.name)
    attempt = (entry.revision, entry.attempt)
    if installed is None or (installed.revision, installed.attempt) != attempt:
        return MachineMark.CHANGING
    if installed.state in ENDED_STATES:
        return MachineMark.FAILED
    if installed.state != DESIRED_STATES.get(entry.desired_state):
        return MachineMark.CHANGING
    return MachineMark.UNWELL if _unready(machine) else MachineMark.UPDATED


def _unready(machine: RolloutMachine) -> str:
    """Return the first readiness condition that is not True, "" if all are."""
    return next(
        (c.type for c in machine.status.conditions if c.type in READINESS and c.status != "True"),
        "",
    )


def _why(machine: RolloutMachine, installed: InstalledView | None, mark: MachineMark) -> str:
    if mark is MachineMark.UNWELL:
        return f"{_unready(machine)} is not True"
    if installed is None or mark not in (MachineMark.FAILED, MachineMark.CHANGING):
        return ""
    return ": ".join(filter(None, (installed.reason or installed.state, installed.message)))


def _counts(rows: Iterable[RolloutMachineRow]) -> Marks:
    tally = Counter(row.mark for row in rows)
    return tuple((mark.letter, mark.value, tally[mark]) for mark in MachineMark if tally[mark])


def _batches(rows: Sequence[RolloutMachineRow]) -> Iterator[BatchMarks]:
    """Yield the marks of each batch, the machines without one last."""
    batches: dict[int, list[RolloutMachineRow]] = {}
    for row in rows:
        batches.setdefault(row.batch, []).append(row)
    for number in sorted(batches, key=lambda number: (number == 0, number)):
        members = batches[number]
        letters = "".join(row.mark.letter for row in members)
        wide = columns(len(members))
        yield BatchMarks(
            f"batch-{number}",
            f"Batch {number}" if number else "In no batch of this rollout",
            wide,
            -(-len(letters) // wide),
            _counts(members),
            draw_states(letters, wide),
        )


# -- actions --------------------------------------------------------------------------------------


def action_choices(rollout: SetRollout) -> Iterator[ActionChoice]:
    """Yield what a person can do with the rollout now."""
    spec = rollout.spec
    if has_stopped_itself(rollout):
        yield ActionChoice(
            RolloutAction.RETRY, "the rollout continues, and machines that failed are tried again."
        )
    elif spec.paused or spec.frozen:
        yield ActionChoice(RolloutAction.RESUME, "batches start again, within the limits.")
    if not spec.paused:
        yield ActionChoice(
            RolloutAction.PAUSE,
            "no batch starts. Machines in progress finish, and drift is still corrected.",
        )
    target = choose_undo(
        (spec.component, spec.values, spec.desired_state),
        RevisionNames.of(rollout.status),
        rollout.status.revisions,
    )
    if target is not None:
        yield ActionChoice(
            RolloutAction.UNDO,
            f"the set asks for revision {target.name} ({target.component}) again, and a rollout to"
            " it begins." + (" The set stays paused." if spec.paused or spec.frozen else ""),
            target.name,
        )


def has_stopped_itself(rollout: SetRollout) -> bool:
    return any(
        c.type == "Paused" and c.status == "True" and c.reason in STICKY
        for c in rollout.status.conditions
    )
