"""Marks of clusters: a word, and a symbol that differs in shape and not only in colour. Pure."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum

from kubenode.api.conditions import find_condition
from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1 import MemberCluster
from kubenode.api.v1alpha1.membercluster import MEMBER_INSTALLED, MemberPhase
from kubenode.api.v1alpha1.release import ClusterPhase, ReleaseCluster

ENDS_SOON = timedelta(days=14)
MarkCounts = tuple[tuple[str, str, int], ...]
"""Symbol, word and number of each mark, without those that are not there."""


class MemberMark(StrEnum):
    """State of a member cluster, the most important first."""

    UNREACHABLE = "Unreachable"
    INCOMPLETE = "Kinds missing"
    ENDING = "Credential ends"
    PENDING = "Not probed yet"
    PAUSED = "Paused"
    CONNECTED = "Connected"

    @property
    def letter(self) -> str:
        """Name of its symbol."""
        return _MEMBER_LETTERS[self]


_MEMBER_LETTERS = {
    MemberMark.UNREACHABLE: "f",
    MemberMark.INCOMPLETE: "w",
    MemberMark.ENDING: "p",
    MemberMark.PENDING: "s",
    MemberMark.PAUSED: "c",
    MemberMark.CONNECTED: "h",
}


def mark_member(cluster: MemberCluster, now: datetime) -> MemberMark:
    status = cluster.status
    if status.phase is None or status.phase is MemberPhase.PENDING:
        return MemberMark.PENDING
    if status.phase is MemberPhase.UNREACHABLE:
        return MemberMark.UNREACHABLE
    if status.phase is MemberPhase.PAUSED:
        return MemberMark.PAUSED
    installed = find_condition(status.conditions, MEMBER_INSTALLED)
    if installed is not None and installed.status is ConditionStatus.FALSE:
        return MemberMark.INCOMPLETE
    return MemberMark.ENDING if ends_soon(cluster, now) else MemberMark.CONNECTED


def ends_soon(cluster: MemberCluster, now: datetime) -> bool:
    """Return whether the credential ends within ENDS_SOON, or has ended."""
    expires_at = cluster.status.credentials_expire_at
    return expires_at is not None and expires_at < now + ENDS_SOON


class ProgressMark(StrEnum):
    """Progress of a cluster in a release, the most important first."""

    FAILED = "Failed"
    DRIFTED = "Drifted"
    ROLLING_BACK = "Rolling back"
    APPLYING = "Applying"
    VERIFYING = "Verifying"
    SKIPPED = "Skipped"
    PENDING = "Pending"
    ROLLED_BACK = "Rolled back"
    SUCCEEDED = "Succeeded"

    @property
    def letter(self) -> str:
        """Name of its symbol."""
        return _PROGRESS_LETTERS[self]


_PROGRESS_LETTERS = {
    ProgressMark.FAILED: "f",
    ProgressMark.DRIFTED: "p",
    ProgressMark.ROLLING_BACK: "w",
    ProgressMark.APPLYING: "r",
    ProgressMark.VERIFYING: "u",
    ProgressMark.SKIPPED: "c",
    ProgressMark.PENDING: "s",
    ProgressMark.ROLLED_BACK: "l",
    ProgressMark.SUCCEEDED: "h",
}
_OF_PHASE = {
    ClusterPhase.PENDING: ProgressMark.PENDING,
    ClusterPhase.APPLYING: ProgressMark.APPLYING,
    ClusterPhase.VERIFYING: ProgressMark.VERIFYING,
    ClusterPhase.SUCCEEDED: ProgressMark.SUCCEEDED,
    ClusterPhase.FAILED: ProgressMark.FAILED,
    ClusterPhase.SKIPPED: ProgressMark.SKIPPED,
    ClusterPhase.ROLLING_BACK: ProgressMark.ROLLING_BACK,
    ClusterPhase.ROLLED_BACK: ProgressMark.ROLLED_BACK,
}
PROGRESS_RANKS = {mark: rank for rank, mark in enumerate(ProgressMark)}
MEMBER_RANKS = {mark: rank for rank, mark in enumerate(MemberMark)}


def mark_progress(cluster: ReleaseCluster) -> ProgressMark:
    mark = _OF_PHASE[cluster.phase]
    return ProgressMark.DRIFTED if cluster.drift and mark is ProgressMark.SUCCEEDED else mark


def count_progress(marks: Iterable[ProgressMark]) -> MarkCounts:
    tally = Counter(marks)
    return tuple((mark.letter, mark.value, tally[mark]) for mark in ProgressMark if tally[mark])


def count_members(marks: Iterable[MemberMark]) -> MarkCounts:
    tally = Counter(marks)
    return tuple((mark.letter, mark.value, tally[mark]) for mark in MemberMark if tally[mark])
