"""One machine as a component set sees it: what is assigned, how far its host is, how it is."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class MemberState(StrEnum):
    """How far a machine is with what this set assigned to it.

    NONE       nothing is assigned
    AHEAD      downloads the next batch's revision; the one before stays in force
    PENDING    its agent has not done with it
    WAITING    its agent waits for a permit
    ACTING     a permit is given, or its agent acts
    SUCCEEDED  this revision, attempt and content, by an agent that lives
    UNWELL     likewise, but the agent is silent since, or the Node not Ready
    DRIFTED    it was; its agent puts it right by itself
    FAILED     this attempt has ended without success
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


@dataclass(frozen=True, slots=True)
class RolloutMember:
    """domains    its value of each topology key that the strategy spreads over, in that order
    canary     the strategy's canary selector matches it
    fresh      it never had this component: what is new there is an installation
    newcomer   provisioned and not initialized: nothing runs there that could be disturbed
    answers    its agent's Lease is fresh; unknown is not
    available  it answers, and its Node, where one is expected, is Ready and takes pods
    held       the open job that holds its Node, "" for none
    revision   assigned by this set, "" for none
    stale      what is assigned was rendered for something that the machine no longer is
    drift      what waits for a permit is a correction, not a change of ours
    broken     the component is in a state of which the machine is the worse
    since      from when its time runs, of one that is not well since when; None while it waits
    patience   how long it may take from then on
    version    installed, "" for unknown
    why        what its agent says of a failure
    back       the revision that a job wants it taken back to now, "" for none
    left       the revision that a job took it back from, "" for none
    repaired   the job that holds its node is the one that took it back
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
    held: str = ""
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
    left: str = ""
    repaired: bool = False

    @property
    def down(self) -> bool:
        """Whether it is out of service, or may be at any moment, for whatever reason."""
        if not self.available or self.broken:
            return True
        return self.standing in IN_FLIGHT and not (
            self.drift and self.standing is MemberState.WAITING
        )

    def late(self, now: datetime) -> bool:
        """Whether its time is over without an end."""
        return self.standing in (MemberState.PENDING, MemberState.ACTING) and self._over(now)

    def ill(self, now: datetime) -> bool:
        """Whether it took the change, and has not been well for as long as a change may take."""
        return self.standing is MemberState.UNWELL and self._over(now)

    def _over(self, now: datetime) -> bool:
        return self.since is not None and now >= self.since + self.patience

    def failed(self, now: datetime) -> bool:
        """Whether this attempt has failed."""
        return self.standing is MemberState.FAILED or self.late(now)

    def busy(self, now: datetime) -> bool:
        """Whether its host may be in the middle of a change."""
        return self.standing is MemberState.ACTING and not self.late(now)
