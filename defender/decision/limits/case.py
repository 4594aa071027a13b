"""Input and output of a limit."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zlib import crc32

from defender.decision.census import Census, CensusMember, CensusTally
from defender.decision.coverage import EVERYBODYS, Ruling, ScopedLimit
from defender.decision.ledger import LedgerPermit, PermitLedger
from defender.decision.limits.demand import Demand, demand
from defender.decision.pauses import describe_scope
from defender.decision.policies import LoadedPolicy
from kubenode.api.v1alpha1 import Ask, Operation, Reason
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec, Rate

if TYPE_CHECKING:
    from defender.decision.control import RiskControl

REQUEUE_AFTER = timedelta(seconds=15)
"""Default time to ask again."""


@dataclass(frozen=True, slots=True)
class LimitRefusal:
    """A refusal. `used` and `limit` count permits, nodes or pods, None if the reason has no
    count.
    """

    reason: Reason
    message: str
    requeue_at: datetime
    scope: str = ""
    used: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class LimitCase:
    """One act under one policy.

    mine: the holder's own open permit on the node, which does not count against it. None for none.
    ruling: the policy as it applies to the node, with each limit in the node's scope.
    costs: healthy nodes that the act takes out of service: 1, or 0 for a node that is not healthy.
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
        """Whether the act prepares a planned event that happens anyway. A refusal would not avoid
        the loss.
        """
        return self.ask.operation is Operation.EVACUATE and self.ask.inevitable

    @property
    def bounds(self) -> tuple[ScopedLimit, ...]:
        """The limits that apply to acts of this class."""
        return self.ruling.for_class(self.ask.class_)

    def compute_demand(self, bound: ScopedLimit, tally: CensusTally) -> Demand:
        """Return what the limit demands in its group."""
        limit, small = bound.limit, self.spec.small_pool.nodes
        return demand(limit.max_concurrent, limit.min_healthy, small, tally.members)

    def later(self) -> datetime:
        """Return a time to ask again, different for each node so that requests are spread."""
        return spread_requeue(self.now, self.control.requeue_after, self.ask.node)

    def used(self, bound: ScopedLimit) -> int:
        """Return the open permits that count in the limit, without the holder's own.

        A node that was relabelled counts in both groups, so relabelling frees no slot.
        """
        return self.control.counts.used(bound, self.mine)

    def tokens(self, bound: ScopedLimit, rate: Rate) -> float:
        """Return the tokens that are left, without those of our grants that may not be written."""
        return self.control.counts.tokens(bound, rate, self.now, self.mine)

    def inside(self, bound: ScopedLimit) -> bool:
        """Return whether the scope's tally counts the node."""
        return not self.census.is_excluded(self.member, bound.group)

    @property
    def of_policy(self) -> str:
        """The policy as the end of a message, "" for the default policies."""
        return "" if self.policy.name in EVERYBODYS else f" of policy {self.policy.name}"

    def where(self, scope: str) -> str:
        return describe_scope(scope) + self.of_policy


def spread(node: str) -> float:
    """Return a number from 0 to 1 that depends only on the node's name."""
    return (crc32(node.encode()) % 1000) / 1000


def spread_requeue(now: datetime, after: timedelta, node: str) -> datetime:
    """Return a time between `after` and twice `after` from now, spread by the node's name."""
    return now + after + after * spread(node)
