"""Limit that stops repairs of faults with a common cause: a reboot does not fix a broken kernel.

It also stops rollouts to nodes with the cause. The MachineComponentSet that caused it is paused by
whoever reads the policy's condition CommonCause.
"""

from typing import TYPE_CHECKING

from defender.decision.limits.breaker import independent
from defender.decision.limits.case import LimitCase, LimitRefusal, spread_requeue
from defender.decision.limits.stops import SELDOM
from kubenode.api.v1alpha1 import Operation, Reason

if TYPE_CHECKING:
    from defender.decision.breaker.watch import BreakerWatch

STOPPED_OPERATIONS = frozenset({Operation.REPAIR, Operation.REPLACE, Operation.ROLLOUT})
"""Operations that a common cause stops."""


def common_cause(case: LimitCase, watch: "BreakerWatch") -> LimitRefusal | None:
    """Refuse the act if the node has a common cause, unless its fault is unrelated."""
    view = watch.view(case.ask.node)
    if (
        not watch.causes
        or view is None
        or case.ask.operation not in STOPPED_OPERATIONS
        or case.inevitable
    ):
        return None
    for cause in view.causes:
        why = watch.causes.get(cause)
        if why is None or independent(case, watch, watch.having(cause)):
            continue
        message = f"{case.where('faults')} have a cause in common: {why}"
        scope = f"{cause[0]}={cause[1]}"
        return LimitRefusal(
            Reason.COMMON_CAUSE, message, spread_requeue(case.now, SELDOM, case.ask.node), scope
        )
    return None
