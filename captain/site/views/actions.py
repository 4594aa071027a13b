"""What a person can do with a release now."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import ApprovalSubject, ReleaseState, StagePhase
from kubenode.runtime.release_control import find_objection


class ReleaseAction(StrEnum):
    """What a person can do with a release."""

    APPROVE = "Approve"
    PAUSE = "Pause"
    RESUME = "Resume"
    ROLLBACK = "Rollback"
    ABORT = "Abort"


STATES = {
    ReleaseAction.PAUSE: ReleaseState.PAUSE,
    ReleaseAction.RESUME: ReleaseState.RUN,
    ReleaseAction.ROLLBACK: ReleaseState.ROLLBACK,
    ReleaseAction.ABORT: ReleaseState.ABORT,
}
MEANINGS = {
    ReleaseAction.PAUSE: "nothing more is written. What clusters have begun goes on there.",
    ReleaseAction.RESUME: "the release goes on. Failed clusters are tried again.",
    ReleaseAction.ROLLBACK: "each cluster gets back what stood there before the release. It does"
    " not run again.",
    ReleaseAction.ABORT: "the release ends where it is: nothing more is written, and nothing is"
    " restored.",
}
SEVERE = (ReleaseAction.ROLLBACK, ReleaseAction.ABORT)


@dataclass(frozen=True, slots=True)
class ReleaseChoice:
    """An action, and what follows from it.

    stage: the stage of an approval, "" for other actions.
    severe: whether it cannot be undone.
    """

    action: ReleaseAction
    means: str
    stage: str = ""

    @property
    def severe(self) -> bool:
        return self.action in SEVERE


@dataclass(frozen=True, slots=True)
class ReleaseActionsPart:
    """The choices that a person with these rights has."""

    template: ClassVar[str] = "parts/release_actions.html"
    choices: Sequence[ReleaseChoice]
    key: str = "actions"


def list_choices(release: Release) -> Iterator[ReleaseChoice]:
    """Yield the actions that would change something."""
    if stage := find_unapproved(release):
        text = f"stage {stage} starts. Your user name is stored with the approval."
        yield ReleaseChoice(ReleaseAction.APPROVE, text, stage)
    for action, state in STATES.items():
        if has_effect(release, action) and not find_objection(release, state):
            yield ReleaseChoice(action, MEANINGS[action])


def find_unapproved(release: Release) -> str:
    """Return the stage that waits for an approval, "" if none does."""
    starts = (entry for entry in release.spec.approvals if entry.subject is ApprovalSubject.START)
    approved = {entry.stage for entry in starts}
    waiting = (s.name for s in release.status.stages if s.phase is StagePhase.AWAITING_APPROVAL)
    return next((name for name in waiting if name not in approved), "")


def has_effect(release: Release, action: ReleaseAction) -> bool:
    """Return whether the release is not in that state already."""
    state, stopped = release.spec.state, release.status.stop is not None
    match action:
        case ReleaseAction.RESUME:
            return stopped or state is ReleaseState.PAUSE
        case ReleaseAction.PAUSE:
            return state is not ReleaseState.PAUSE
        case ReleaseAction.ROLLBACK:
            return state is not ReleaseState.ROLLBACK and release.status.rollback is None
        case _:
            return state is not STATES[action]
