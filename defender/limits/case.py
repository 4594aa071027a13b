"""What a limit is asked about, and how it says no."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zlib import crc32

from defender.census import Census, CensusMember, CensusTally
from defender.coverage import EVERYBODYS, Ruling, ScopedLimit
from defender.ledger import LedgerPermit, PermitLedger
from defender.limits.demand import Demand, demand
from defender.policies import LoadedPolicy
from kubenode.api.v1alpha1 import Ask, Operation, Reason
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec, Rate

if TYPE_CHECKING:
    from defender.control import RiskControl

LOOK_AGAIN = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class LimitRefusal:
    """`used` and `limit` in permits, nodes or pods, None where the reason has no count."""

    reason: Reason
    message: str
    look_again_at: datetime
    scope: str = ""
    used: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class LimitCase:
    """One act, judged under one policy.

    mine    the holder's own open permit on the node, which must not stand in its own way
    ruling  the policy as it is about this node: its limits, each in the node's scope
    costs   healthy nodes that granting takes away: 1, or 0 for one that is not healthy now
    """

    ask: Ask
    member: CensusMember
    policy: LoadedPolicy
    spec: DefenderPolicySpec
    control: "RiskControl"
    now: datetime
    mine: LedgerPermit | None
    ruling: Ruling
    costs: int

    @property
    def census(self) -> Census:
        return self.control.census

    @property
    def ledger(self) -> PermitLedger:
        return self.control.ledger

    @property
    def inevitable(self) -> bool:
        """A planned event that comes anyway: refusing would only make the loss hard."""
        return self.ask.operation is Operation.EVACUATE and self.ask.inevitable

    @property
    def bounds(self) -> tuple[ScopedLimit, ...]:
        """The limits for acts of this class."""
        return self.ruling.for_class(self.ask.class_)

    def asked(self, bound: ScopedLimit, tally: CensusTally) -> Demand:
        """What a limit asks for in its group."""
        limit, small = bound.limit, self.spec.small_pool.nodes
        return demand(limit.max_concurrent, limit.min_healthy, small, tally.members)

    def later(self) -> datetime:
        """A time to ask again, different for each node, so that they do not come all at once."""
        return look_again_at(self.now, self.control.look_again, self.ask.node)

    def used(self, bound: ScopedLimit) -> int:
        """Open permits that count in the limit, less our own.

        A node that has moved to another group since counts in both: relabelling frees no slot.
        """
        return self.control.counts.used(bound, self.mine)

    def tokens(self, bound: ScopedLimit, rate: Rate) -> float:
        """What is left in the limit's bucket, less what those of our grants took that may not
        have been written."""
        return self.control.counts.tokens(bound, rate, self.now, self.mine)

    def inside(self, bound: ScopedLimit) -> bool:
        """Whether the node is one of those that the scope's tally counts."""
        return not self.census.left_out(self.member, bound.group)

    @property
    def of_policy(self) -> str:
        """The policy for the end of a sentence, unless it is the one that everybody has."""
        return "" if self.policy.name in EVERYBODYS else f" of policy {self.policy.name}"

    def where(self, scope: str) -> str:
        return scope + self.of_policy


def spread(node: str) -> float:
    """A part of 1 that is different for each node and always the same for one."""
    return (crc32(node.encode()) % 1000) / 1000


def look_again_at(now: datetime, after: timedelta, node: str) -> datetime:
    """`after` to twice `after` from now, spread by the node's name."""
    return now + after + after * spread(node)
