"""MachineSets: how many machines they have, which, and why a set waits. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from defender.dashboard.machine import RolloutMachine
from defender.dashboard.machine_set import MachineSetView
from defender.dashboard.natural import natural
from defender.dashboard.rule import RuleCondition
from defender.dashboard.scene import Scene
from kubenode.api.v1alpha1.machineset import LEAVING
from kubenode.api.v1alpha1.machinestatus import MachineConditionType, MachinePhase
from kubenode.runtime.site.parts import PagePart, Summary

MOST_SETS, MOST_MACHINES = 1000, 200
EXPLAINING = (
    MachineConditionType.INSTANCE_READY,
    MachineConditionType.AGENT_READY,
    MachineConditionType.NODE_READY,
    MachineConditionType.COMPONENTS_READY,
    MachineConditionType.HEALTHY,
)
"""Conditions that explain why a machine does not run, the cause before its consequences."""


class SetMachineState(StrEnum):
    """State of a machine of a set, the most important first."""

    FAILED = "Failed"
    UNWELL = "Not healthy"
    LEAVING = "Leaving"
    COMING = "Coming"
    RUNNING = "Running"

    @property
    def letter(self) -> str:
        """Name of its symbol."""
        return _LETTERS[self]


_LETTERS = {
    SetMachineState.FAILED: "f",
    SetMachineState.UNWELL: "p",
    SetMachineState.LEAVING: "l",
    SetMachineState.COMING: "s",
    SetMachineState.RUNNING: "h",
}
_RANKS = {state: rank for rank, state in enumerate(SetMachineState)}
_STATES: Mapping[str, SetMachineState] = {
    MachinePhase.FAILED: SetMachineState.FAILED,
    MachinePhase.UNREACHABLE: SetMachineState.UNWELL,
    MachinePhase.DEGRADED: SetMachineState.UNWELL,
    MachinePhase.DELETING: SetMachineState.LEAVING,
    MachinePhase.RUNNING: SetMachineState.RUNNING,
    MachinePhase.UPDATING: SetMachineState.RUNNING,
}
"""State by phase. A machine in another phase is on its way to run."""


@dataclass(frozen=True, slots=True)
class MachineSetRow:
    """One set. share: percentage of the desired machines that are available.

    waits: (reason, message) of the conditions that say why the set waits.
    """

    template: ClassVar[str] = "parts/machine_set.html"
    key: str
    class_ref: str
    replicas: int
    machines: int
    ready: int
    available: int
    up_to_date: int
    replacing: int
    preserved: int
    share: float
    waits: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MachineSetHead:
    """Head of the page of a set.

    terms: (term, value) of the spec.
    counts: (letter, state, number of machines).
    problem: why the machines are not known, "" if they are.
    """

    template: ClassVar[str] = "parts/machine_set_head.html"
    row: MachineSetRow
    terms: tuple[tuple[str, str], ...]
    counts: tuple[tuple[str, str, int], ...]
    problem: str
    key: str = "machine-set"


@dataclass(frozen=True, slots=True)
class SetMachineRow:
    template: ClassVar[str] = "parts/set_machine.html"
    key: str
    node: str
    state: SetMachineState
    phase: str
    since: datetime | None
    why: str


def view(scene: Scene, params: Mapping[str, str]) -> dict[str, Sequence[PagePart]]:
    """Return the view of all sets, those that wait first."""
    rows = [row_of(each) for each in scene.machine_sets.values()]
    rows.sort(key=lambda row: (not row.waits, natural(row.key)))
    waiting = sum(bool(row.waits) for row in rows)
    sentence = f"{len(rows)} machine {'set' if len(rows) == 1 else 'sets'}"
    sentence += f", {waiting} not at the desired state." if waiting else "."
    if not scene.machine_sets_read:
        sentence = "The machine sets are not read yet."
    return {"found": [Summary(sentence, not waiting, "found")], "sets": rows[:MOST_SETS]}


def view_set(scene: Scene, name: str) -> dict[str, Sequence[PagePart]] | None:
    """Return the view of one set, None if there is no such set."""
    machine_set = scene.machine_sets.get(name)
    if machine_set is None:
        return None
    rows = [_machine_row(m) for m in scene.machines.values() if m.machine_set == name]
    rows.sort(key=lambda row: (_RANKS[row.state], natural(row.key)))
    head = MachineSetHead(
        row_of(machine_set),
        tuple(_terms(machine_set)),
        _counts(rows),
        "" if scene.machines_read else "The machines are not read yet.",
    )
    return {"machine_set": [head], "machines": rows[:MOST_MACHINES]}


def row_of(machine_set: MachineSetView) -> MachineSetRow:
    spec, status = machine_set.spec, machine_set.status
    share = min(100.0, 100 * status.available / spec.replicas) if spec.replicas else 100.0
    return MachineSetRow(
        key=machine_set.metadata.name,
        class_ref=spec.template.spec.class_ref,
        replicas=spec.replicas,
        machines=status.replicas,
        ready=status.ready,
        available=status.available,
        up_to_date=status.up_to_date,
        replacing=status.replacing,
        preserved=status.preserved,
        share=round(share, 1),
        waits=tuple((c.reason, c.message) for c in machine_set.waiting()),
    )


def _terms(machine_set: MachineSetView) -> Iterable[tuple[str, str]]:
    """Yield what the spec says about the number and the replacement of machines."""
    spec = machine_set.spec
    yield "Update policy", spec.update_policy
    yield "Surge", str(spec.max_surge)
    yield "At most unhealthy", str(spec.health.max_unhealthy)
    yield "At most replaced at once", str(spec.health.max_replacing)
    if spec.autoscaling is not None:
        scale = spec.autoscaling
        yield "Autoscaling", f"{scale.min_replicas} to {scale.max_replicas} machines"


def _machine_row(machine: RolloutMachine) -> SetMachineRow:
    state, meta = state_of(machine), machine.metadata
    return SetMachineRow(
        key=meta.name,
        node=machine.node,
        state=state,
        phase=machine.status.phase or "Unknown",
        since=meta.creation_timestamp,
        why=_why(machine, state),
    )


def state_of(machine: RolloutMachine) -> SetMachineState:
    meta = machine.metadata
    if meta.deletion_timestamp is not None or LEAVING in meta.annotations:
        return SetMachineState.LEAVING
    return _STATES.get(machine.status.phase, SetMachineState.COMING)


def _why(machine: RolloutMachine, state: SetMachineState) -> str:
    """Return why the machine does not run, or why it leaves and what it waits for."""
    by_type = {c.type: c for c in machine.status.conditions}
    if state is SetMachineState.LEAVING:
        chosen = machine.metadata.annotations.get(LEAVING, "")
        waits = by_type.get(MachineConditionType.DELETABLE)
        return ": ".join(filter(None, (chosen, _unmet(waits))))
    if state is SetMachineState.RUNNING:
        return ""
    return next(filter(None, (_unmet(by_type.get(each)) for each in EXPLAINING)), "")


def _unmet(condition: RuleCondition | None) -> str:
    """Return reason and message of a condition that is not True, else ""."""
    if condition is None or condition.status == "True":
        return ""
    return ": ".join(filter(None, (condition.reason, condition.message)))


def _counts(rows: Iterable[SetMachineRow]) -> tuple[tuple[str, str, int], ...]:
    tally = Counter(row.state for row in rows)
    return tuple((s.letter, s.value, tally[s]) for s in SetMachineState if tally[s])
