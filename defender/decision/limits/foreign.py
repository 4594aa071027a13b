"""ForeignOwner: another owner works on the node, or is about to remove it."""

from datetime import datetime
from typing import TYPE_CHECKING

from defender.decision.census import CensusMember
from defender.decision.limits.case import LimitRefusal, spread_requeue
from kubenode.api.foreign import SHUTDOWN
from kubenode.api.v1alpha1 import Ask, Operation, Reason

if TYPE_CHECKING:
    from defender.decision.control import RiskControl

OTHERS_OWN = (Operation.DELETE, Operation.SCALE_IN)
"""Acts of the owner that set the mark, which the mark must not block."""


def foreign(
    ask: Ask, member: CensusMember, control: "RiskControl", now: datetime
) -> LimitRefusal | None:
    """Refuse the act if another owner works on the node. Two owners would undo each other's
    work.
    """
    if not member.foreign or ask.operation in OTHERS_OWN:
        return None
    if member.foreign == SHUTDOWN and control.ledger.open_of(ask.holder, ask.node):
        return None  # it is off because this holder switched it off
    return LimitRefusal(
        Reason.FOREIGN_OWNER,
        f"node {ask.node}: another owner is at work on it: {member.foreign}",
        spread_requeue(now, control.requeue_after, ask.node),
        f"node={ask.node}",
    )
