"""Rollouts of component sets: why one stops, and what resumes or undoes it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from kubenode.api.meta import Condition
from kubenode.api.names import list_first
from kubenode.api.v1alpha1.machinecomponentset import (
    ComponentSetConditionType,
    MachineComponentSet,
    SetRevision,
)

SHOWN = 5
"""Names to list in a message before the rest is counted."""


class RolloutReason(StrEnum):
    """Reasons of the conditions of a set, besides the phases."""

    WAITING_FOR_PERMIT = "WaitingForPermit"
    WINDOW_CLOSED = "WindowClosed"
    PARTITION_REACHED = "PartitionReached"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    AGENTS_UNKNOWN = "AgentsUnknown"
    USER = "User"
    AUTO_PAUSED = "AutoPaused"
    INSPECTION_FAILED = "InspectionFailed"
    INCONCLUSIVE = "Inconclusive"
    FROZEN = "Frozen"
    MELTDOWN = "Meltdown"
    MACHINES_FAILED = "MachinesFailed"
    ROLLED_BACK = "RolledBack"
    CONFLICT = "Conflict"
    VERSION_SKEW = "VersionSkew"
    MISSING_COMPONENT = "MissingComponent"


STICKY = frozenset(
    {RolloutReason.AUTO_PAUSED, RolloutReason.INSPECTION_FAILED, RolloutReason.INCONCLUSIVE}
)
"""Stops that last until a person pauses and resumes the set, or asks for another revision."""


def list_names(names: Iterable[str]) -> str:
    """Return the first names, sorted, and how many more there are."""
    return list_first(sorted(names), SHOWN)


def find_stop(set_: MachineComponentSet) -> Condition | None:
    """Return why the set stopped by itself; None if it did not."""
    pause = find_pause(set_)
    return pause if pause is not None and pause.reason in STICKY else None


def find_pause(set_: MachineComponentSet) -> Condition | None:
    """Return the condition Paused; None unless it is True."""
    conditions = set_.status.conditions
    paused = next((c for c in conditions if c.type == ComponentSetConditionType.PAUSED), None)
    return paused if paused is not None and paused.status == "True" else None


def describe_resume(before: MachineComponentSet, stop: Condition | None) -> str:
    """Describe what happens to a set that was resumed.

    before: the set as it was before that.
    stop: why it had stopped by itself; None if it had not.
    """
    status, batch = before.status, before.status.batch
    if status.rejected_revision and status.rejected_revision == status.update_revision:
        return (
            f"paused false, frozen false; revision {status.rejected_revision} was rolled back and"
            " is not tried again: ask for another component or other values"
        )
    pause = find_pause(before)
    if pause is not None and pause.reason == RolloutReason.MELTDOWN:
        return f"paused false, frozen false; it still waits, {pause.reason}: {pause.message}"
    if stop is None:
        stop_fields = [field for field in ("paused", "frozen") if getattr(before.spec, field)]
        return (
            f"goes on: {' and '.join(stop_fields)} no more"
            if stop_fields
            else "was not held: nothing changes"
        )
    if batch is not None and batch.failed:
        return f"goes on: batch {batch.index} tries {list_names(batch.failed)} once more"
    return f"goes on with batch {batch.index}" if batch is not None else "goes on"


def find_undo(set_: MachineComponentSet) -> SetRevision | None:
    """Return the revision to which an undo returns the set, None if there is none.

    During a rollout it is the current revision, the last one whose rollout completed. Otherwise it
    is the newest older revision that was not rejected.
    """
    spec = set_.spec
    content = (spec.component, spec.values, spec.desired_state)
    return choose_undo(content, RevisionNames.of(set_.status), set_.status.revisions)


class RevisionContent(Protocol):
    """Content of a revision, however it was decoded."""

    @property
    def name(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def component(self) -> str: ...
    @property
    def values(self) -> Mapping[str, str]: ...
    @property
    def desired_state(self) -> str: ...


class RevisionSource(Protocol):
    """Status of a set, however it was decoded."""

    @property
    def current_revision(self) -> str: ...
    @property
    def update_revision(self) -> str: ...
    @property
    def rejected_revision(self) -> str: ...


@dataclass(frozen=True, slots=True)
class RevisionNames:
    """Names of the revisions of a set: the last complete one, the target and the rejected one."""

    current: str
    update: str
    rejected: str

    @classmethod
    def of(cls, status: RevisionSource) -> "RevisionNames":
        return cls(status.current_revision, status.update_revision, status.rejected_revision)


R = TypeVar("R", bound=RevisionContent)
Content = tuple[str, Mapping[str, str], str]


def choose_undo(content: Content, names: RevisionNames, revisions: Sequence[R]) -> R | None:
    """Return the revision to which an undo returns a set; see find_undo.

    content: component, values and desired state of the spec.
    """
    current = next((each for each in revisions if each.name == names.current), None)
    if current is None:
        return None
    if names.update != names.current:
        return None if _content(current) == content else current
    older = [
        revision
        for revision in revisions
        if revision.number < current.number
        and revision.name != names.rejected
        and _content(revision) != content
    ]
    return max(older, key=lambda revision: revision.number, default=None)


def _content(revision: RevisionContent) -> Content:
    return revision.component, revision.values, revision.desired_state


def undo_spec(set_: MachineComponentSet, target: SetRevision) -> dict[str, Any]:
    """Return the merge patch of the spec that asks for the content of the revision."""
    removed = dict.fromkeys(set_.spec.values.keys() - target.values.keys())
    return {
        "component": target.component,
        "values": {**removed, **target.values},
        "desiredState": target.desired_state.value,
    }
