"""Members and target of a set, as its decisions see them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from kubenode.api.share import is_ratio, share_of
from kubenode.api.v1alpha1.machineset import ScaleInOrder


class RemovalReason(StrEnum):
    """Why a Machine was chosen for removal: the value of its annotation."""

    SCALE_IN = "ScaleIn"
    REPLACE = "Replace"


@dataclass(frozen=True, slots=True)
class SetMember:
    """A Machine of the set.

    deleting: the Machine is being deleted.
    failed: it will not run by itself any more.
    gone: its instance is gone, so preserving it would show nothing.
    initialized: it has run once.
    ready: its Node is ready; without a Node, its agent.
    available: ready for long enough, also since the last repair.
    outdated: made from other content of its class.
    unhealthy: why it is to be replaced, "" if it is healthy.
    ailing: it becomes unhealthy if its Node's condition lasts.
    repair: the open job on its node, or the operation on the machine itself, "" for none.
    delete_first: a person marked it to be removed first.
    hands_off: a person marked it to be left alone.
    preserved: the time until which the failed Machine is kept besides the set, None if it is not.
    leaving: why it was chosen for removal, None if it was not.
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
        """Whether the member counts against `maxUnhealthy`, as one under repair does."""
        return bool(self.unhealthy or self.repair)

    @property
    def coming(self) -> bool:
        """Whether the member has not run yet, and is not sick."""
        return not (self.initialized or self.sick)


@dataclass(frozen=True, slots=True)
class SetTarget:
    """The spec of the MachineSet.

    replace_outdated: updatePolicy is Replace.
    chosen: names of the Machines that an autoscaler or a person has chosen for removal. They do not
        count for `replicas`.
    """

    replicas: int
    max_surge: int | str = 1
    order: ScaleInOrder = ScaleInOrder.NEWEST
    replace_outdated: bool = False
    max_unhealthy: int | str = "20%"
    max_replacing: int = 1
    preserve_max: int = 1
    preserve_for: timedelta = timedelta(hours=24)
    chosen: frozenset[str] = frozenset()

    @property
    def surge(self) -> int:
        """How many Machines may exist above `replicas`."""
        return resolve_share(self.max_surge, self.replicas)


@dataclass(frozen=True, slots=True)
class SetObservation:
    """What a set has observed.

    frozen: why no Machine may be removed now, "" if one may.
    blocked: why no Machine can be created now, "" if one can.
    room: how many Machines the limits of the class allow to create now.
    """

    now: datetime
    members: Sequence[SetMember]
    frozen: str = ""
    blocked: str = ""
    room: int = 1000


class Crew:
    """The members of a set by their fate. Each is in one of the first four lists.

    staying: members that count for `replicas`.
    leaving: chosen for removal, and not being deleted.
    deleting: being deleted; until they are gone they still cost.
    preserved: kept for inspection, and not counted.
    sick: members that are unhealthy or under repair.
    coming: staying members that have not run yet.
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
        """Return why no Machine may be replaced, "" if one may."""
        live = len(self.staying) + len(self.leaving)
        if len(self.sick) <= resolve_share(wanted.max_unhealthy, live):
            return ""
        return (
            f"{len(self.sick)} of {live} machines are unhealthy or under repair, more than"
            f" {wanted.max_unhealthy}: none is replaced"
        )


def resolve_share(share: int | str, total: int) -> int:
    """Return the number for a count or percentage. A percentage above 0% yields at least 1."""
    count = share_of(share, total)
    return max(count, 1) if is_ratio(share) and share != "0%" else count
