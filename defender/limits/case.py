"""What a limit is asked about, and how it says no."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zlib import crc32

from defender.census import Census, Group, Health, Member
from defender.ledger import Held, Ledger
from defender.policies import BUILT_IN_NAME, Policy
from kubenode.api.share import is_ratio
from kubenode.api.v1alpha1 import Ask, Disruption, Operation, Reason
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec, Limit

if TYPE_CHECKING:
    from defender.control import RiskControl

LOOK_AGAIN = timedelta(seconds=15)
EVERYBODYS = ("default", BUILT_IN_NAME)
BY_DEFAULT = frozenset({Disruption.PODS, Disruption.NODE})
"""The classes of a limit that names none."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """`used` and `limit` in permits or nodes, None where the reason has no count."""

    reason: Reason
    message: str
    look_again_at: datetime
    scope: str = ""
    used: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One act, judged under one policy.

    mine  the holder's own open permit on the node, which must not stand in its own way
    """

    ask: Ask
    member: Member
    policy: Policy
    spec: DefenderPolicySpec
    control: "RiskControl"
    now: datetime
    mine: Held | None

    @property
    def census(self) -> Census:
        return self.control.census

    @property
    def ledger(self) -> Ledger:
        return self.control.ledger

    @property
    def inevitable(self) -> bool:
        """A planned event that comes anyway: refusing would only make the loss hard."""
        return self.ask.operation is Operation.EVACUATE and self.ask.inevitable

    def later(self) -> datetime:
        """A time to ask again, different for each node, so that they do not come all at once."""
        return look_again_at(self.now, self.control.look_again, self.ask.node)

    def classes(self, limit: Limit) -> frozenset[Disruption]:
        return frozenset(limit.classes) if limit.classes else BY_DEFAULT

    def others_in(self, group: Group) -> Iterator[Held]:
        """Open permits of a group, less our own.

        A node that has moved to another group since counts in both: relabelling frees no slot.
        """
        for held in self.ledger.open():
            if held is not self.mine and self._counts_in(held, group):
                yield held

    def _counts_in(self, held: Held, group: Group) -> bool:
        return (
            self.census.belongs(held.node, group) or held.scopes is None or group[1] in held.scopes
        )

    def granted_in(self, group: Group, since: datetime) -> Iterator[tuple[datetime, Disruption]]:
        """Grants of a group, oldest first, less those of ours that may not have been written."""
        for at, held, place in self.ledger.grants_since(since):
            if held is self.mine and (held.late or place >= len(held.grants) - held.unsure):
                continue
            if self._counts_in(held, group) and held.operation in self.spec.operations:
                yield at, held.grants[place][0]

    def healthy_in(self, group: Group) -> int:
        """Nodes of a group that are Ready, schedulable and without an open permit."""
        return healthy_in(self.census, self.ledger, group)

    @property
    def healthy_itself(self) -> bool:
        """Whether the node counts as healthy now, so that granting takes one away."""
        return self.member.health is Health.HEALTHY and not self.ledger.open_on(self.member.name)

    def small(self, limit: Limit, group: Group) -> bool:
        """Whether the group is so small that a share of it says nothing."""
        shares = (limit.max_concurrent, limit.min_healthy)
        return (
            any(share is not None and is_ratio(share) for share in shares)
            and self.census.tally(group).members <= self.spec.small_pool.nodes
        )

    def where(self, scope: str) -> str:
        """The scope for a sentence; the policy too, unless it is the one that everybody has."""
        return scope if self.policy.name in EVERYBODYS else f"{scope} of policy {self.policy.name}"


def healthy_in(census: Census, ledger: Ledger, group: Group) -> int:
    taken = {held.node for held in ledger.open() if census.belongs(held.node, group)}
    members = (census.member(name) for name in taken)
    return census.tally(group).healthy - sum(
        member is not None and member.health is Health.HEALTHY for member in members
    )


def look_again_at(now: datetime, after: timedelta, node: str) -> datetime:
    """`after` to twice `after` from now, spread by the node's name."""
    return now + after + after * ((crc32(node.encode()) % 1000) / 1000)
