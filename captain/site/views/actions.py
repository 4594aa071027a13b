"""What a person can do with a release now."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import (
    ApprovalSubject,
    ReleaseReason,
    ReleaseStage,
    ReleaseState,
    StagePhase,
)
from kubenode.runtime.release_control import find_objection


class ReleaseAction(StrEnum):
    """What a person can do with a release."""

    APPROVE = "Approve"
    APPROVE_ENFORCE = "ApproveEnforce"
    PAUSE = "Pause"
    RESUME = "Resume"
    ROLLBACK = "Rollback"
    ABORT = "Abort"

    @property
    def verb(self) -> str:
        """The action in logs."""
        return "approve Enforce" if self is ReleaseAction.APPROVE_ENFORCE else self.lower()


APPROVALS = {
    ReleaseAction.APPROVE: ApprovalSubject.START,
    ReleaseAction.APPROVE_ENFORCE: ApprovalSubject.ENFORCE,
}
STATES = {
    ReleaseAction.PAUSE: ReleaseState.PAUSE,
    ReleaseAction.RESUME: ReleaseState.RUN,
    ReleaseAction.ROLLBACK: ReleaseState.ROLLBACK,
    ReleaseAction.ABORT: ReleaseState.ABORT,
}
MEANINGS = {
    ReleaseAction.APPROVE: "the stage starts. Your user name is stored with the approval.",
    ReleaseAction.APPROVE_ENFORCE: "rules act in the clusters whose evidence waits for a person."
    " Your user name is stored with the approval.",
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

    @property
    def label(self) -> str:
        if not self.stage:
            return self.action.value
        enforces = self.action is ReleaseAction.APPROVE_ENFORCE
        return f"Approve {'Enforce in ' if enforces else ''}stage {self.stage}"


@dataclass(frozen=True, slots=True)
class ReleaseActionsPart:
    """The choices that a person with these rights has."""

    template: ClassVar[str] = "parts/release_actions.html"
    choices: Sequence[ReleaseChoice]
    key: str = "actions"


def list_choices(release: Release) -> Iterator[ReleaseChoice]:
    """Yield the actions that would change something."""
    for action, subject in APPROVALS.items():
        for stage in list_unapproved(release, subject):
            yield ReleaseChoice(action, MEANINGS[action], stage)
    for action, state in STATES.items():
        if has_effect(release, action) and not find_objection(release, state):
            yield ReleaseChoice(action, MEANINGS[action])


def list_unapproved(release: Release, subject: ApprovalSubject) -> Iterator[str]:
    """Yield the stages that wait for an approval of this subject."""
    given = {entry.stage for entry in release.spec.approvals if entry.subject is subject}
    for stage in release.status.stages:
        if stage.name not in given and waits_for_approval(stage, subject):
            yield stage.name


def waits_for_approval(stage: ReleaseStage, subject: ApprovalSubject) -> bool:
    if subject is ApprovalSubject.START:
        return stage.phase is StagePhase.AWAITING_APPROVAL
    return any(each.reason is ReleaseReason.AWAITING_APPROVAL for each in stage.clusters)


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
