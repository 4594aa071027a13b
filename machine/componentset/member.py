"""One machine as a component set sees it: its assignment, its progress and its health."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class MemberState(StrEnum):
    """Progress of a machine with what this set assigned to it.

    NONE: nothing is assigned.
    AHEAD: the machine downloads the revision of the next batch; the one before stays in force.
    PENDING: the agent has not completed the assignment.
    WAITING: the agent waits for a permit.
    ACTING: a permit is granted, or the agent acts.
    SUCCEEDED: the assigned revision, attempt and content are in force, and the machine is well.
    UNWELL: they are in force, but the agent does not answer or the Node is not healthy.
    DRIFTED: they were in force; the agent corrects the drift by itself.
    FAILED: this attempt ended without success.
    """

    NONE = "None"
    AHEAD = "Ahead"
    PENDING = "Pending"
    WAITING = "Waiting"
    ACTING = "Acting"
    SUCCEEDED = "Succeeded"
    UNWELL = "Unwell"
    DRIFTED = "Drifted"
    FAILED = "Failed"


IN_FLIGHT = frozenset({MemberState.PENDING, MemberState.WAITING, MemberState.ACTING})
"""States in which a machine is out of service, or may be at any moment, for a change."""


@dataclass(frozen=True, slots=True)
class RolloutMember:
    """One machine of a component set, at one moment.

    domains: the machine's value of each topology key of the strategy's spread, in that order.
    canary: whether the strategy's canary selector matches the machine.
    fresh: no version of the component is known on the machine, so a change is an installation.
    newcomer: starts without workload and is not initialized, so nothing that runs is disturbed.
    answers: the agent's Lease is fresh. False if that is unknown.
    available: the agent answers, and the Node, if one is expected, is Ready and schedulable.
    open_job: the open job that holds the Node, "" for none.
    revision: the revision that this set assigned, "" for none.
    stale: the assignment was rendered from properties of the machine that have changed since.
    standing: the progress of the machine with the assignment.
    drift: the component has drifted, so a permit is for a correction and not for a rollout.
    broken: the component is in a state that impairs the machine.
    since: when the machine's timeout began to run: for a change, or since it became unwell. None
        while no timeout runs.
    patience: the timeout.
    version: the installed version, "" if unknown.
    why: what the agent reports of the component's state, at most 200 characters.
    back: the revision to which a repair job wants the machine returned now, "" for none.
    rolled_back_from: the revision from which a repair job returned the machine, "" for none.
    repaired: the job that holds the Node is the one that asked for the return.
    """

    name: str
    uid: str = ""
    zone: str = ""
    domains: tuple[str, ...] = ()
    canary: bool = False
    fresh: bool = False
    newcomer: bool = False
    answers: bool = True
    available: bool = True
    open_job: str = ""
    revision: str = ""
    attempt: int = 0
    batch: int = 0
    stale: bool = False
    standing: MemberState = MemberState.NONE
    drift: bool = False
    broken: bool = False
    since: datetime | None = None
    patience: timedelta = timedelta(minutes=15)
    version: str = ""
    why: str = ""
    back: str = ""
    rolled_back_from: str = ""
    repaired: bool = False

    @property
    def down(self) -> bool:
        """Whether the machine is out of service for any reason, or may be at any moment."""
        if not self.available or self.broken:
            return True
        return self.standing in IN_FLIGHT and not (
            self.drift and self.standing is MemberState.WAITING
        )

    def late(self, now: datetime) -> bool:
        """Return whether the timeout of the change has expired."""
        return self.standing in (MemberState.PENDING, MemberState.ACTING) and self._is_late(now)

    def ill(self, now: datetime) -> bool:
        """Return whether the change was applied, and the machine has been unwell for the whole
        timeout.
        """
        return self.standing is MemberState.UNWELL and self._is_late(now)

    def _is_late(self, now: datetime) -> bool:
        return self.since is not None and now >= self.since + self.patience

    def failed(self, now: datetime) -> bool:
        """Return whether this attempt has failed."""
        return self.standing is MemberState.FAILED or self.late(now)

    def busy(self, now: datetime) -> bool:
        """Return whether the host may be in the middle of a change."""
        return self.standing is MemberState.ACTING and not self.late(now)
