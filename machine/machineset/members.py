"""The machines of a set as its decisions see them, and what is wanted of them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from kubenode.api.share import is_ratio, share_of
from kubenode.api.v1alpha1.machineset import ScaleInOrder


class RemovalReason(StrEnum):
    """Why a machine was chosen to be given up: the value of its annotation."""

    SCALE_IN = "ScaleIn"
    REPLACE = "Replace"


@dataclass(frozen=True, slots=True)
class SetMember:
    """A machine of the set.

    failed        it will not come to run by itself any more
    gone          its instance is: people would find nothing to look at
    initialized   it has run once
    ready         its Node, or where it has none its agent, is
    available     ready for long enough, and not just back from repair
    outdated      made from another content of its class
    unhealthy     why it is to be replaced, "" if it is not
    ailing        not unhealthy yet: it will be, once its Node's condition has lasted long enough
    repair        the open job that holds its node, or the machine itself, "" for none
    preserved     failed, and kept until then beside the set
    """

    name: str
    created: datetime
    zone: str = ""
    deleting: bool = False
    failed: bool = False
    gone: bool = False
    initialized: bool = False
    ready: bool = False
    available: bool = False
    outdated: bool = False
    unhealthy: str = ""
    ailing: bool = False
    repair: str = ""
    delete_first: bool = False
    hands_off: bool = False
    preserved: datetime | None = None
    leaving: RemovalReason | None = None

    @property
    def sick(self) -> bool:
        """Counts against `maxUnhealthy`: one under repair does too."""
        return bool(self.unhealthy or self.repair)

    @property
    def coming(self) -> bool:
        return not (self.initialized or self.sick)


@dataclass(frozen=True, slots=True)
class SetTarget:
    """As `spec` of the MachineSet. `replace_outdated`: updatePolicy is Replace."""

    replicas: int
    max_surge: int | str = 1
    order: ScaleInOrder = ScaleInOrder.NEWEST
    replace_outdated: bool = False
    max_unhealthy: int | str = "20%"
    max_replacing: int = 1
    preserve_max: int = 1
    preserve_for: timedelta = timedelta(hours=24)

    @property
    def surge(self) -> int:
        return at_least_one(self.max_surge, self.replicas)


@dataclass(frozen=True, slots=True)
class SetObservation:
    """frozen   why nothing may be given up now, "" if it may
    blocked  why none can be made now, "" if one can
    room     how many may be made now by the limits of the class
    """

    now: datetime
    members: Sequence[SetMember]
    frozen: str = ""
    blocked: str = ""
    room: int = 1000


class Crew:
    """Members sorted by what becomes of them; each is in one of the first four.

    staying    they are what `replicas` counts
    leaving    chosen to be given up, and still whole
    deleting   on their way out; what runs of them still costs
    preserved  kept for people, counted nowhere
    """

    def __init__(self, members: Sequence[SetMember]) -> None:
        self.preserved = [m for m in members if m.preserved is not None]
        counted = [m for m in members if m.preserved is None]
        self.deleting = [m for m in counted if m.deleting]
        live = [m for m in counted if not m.deleting]
        self.leaving = [m for m in live if m.leaving is not None]
        self.staying = [m for m in live if m.leaving is None]
        self.sick = [m for m in live if m.sick]
        self.coming = [m for m in self.staying if m.coming]
        self.total = len(counted)

    def too_many_sick(self, wanted: SetTarget) -> str:
        """Why none may be replaced, "" if one may."""
        live = len(self.staying) + len(self.leaving)
        if len(self.sick) <= at_least_one(wanted.max_unhealthy, live):
            return ""
        return (
            f"{len(self.sick)} of {live} machines are unhealthy or under repair, more than"
            f" {wanted.max_unhealthy}: none is replaced"
        )


def at_least_one(share: int | str, total: int) -> int:
    """A percentage is rounded down to at least one; a number, and 0%, mean what they say."""
    found = share_of(share, total)
    return max(found, 1) if is_ratio(share) and share != "0%" else found
