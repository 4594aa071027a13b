"""Faults with a common cause are not repaired one by one: no reboot cures a broken kernel.

Rollouts of nodes that have it stop too. The MachineComponentSet that brought it is paused by who
reads the policy's condition CommonCause.
"""

from typing import TYPE_CHECKING

from defender.limits.breaker import independent
from defender.limits.case import LimitCase, LimitRefusal, look_again_at
from defender.limits.stops import SELDOM
from kubenode.api.v1alpha1 import Operation, Reason

if TYPE_CHECKING:
    from defender.breaker.watch import BreakerWatch

HELD = frozenset({Operation.REPAIR, Operation.REPLACE, Operation.ROLLOUT})


def common_cause(case: LimitCase, watch: "BreakerWatch") -> LimitRefusal | None:
    view = watch.view(case.ask.node)
    if not watch.causes or view is None or case.ask.operation not in HELD or case.inevitable:
        return None
    for cause in view.causes:
        why = watch.causes.get(cause)
        if why is None or independent(case, watch, watch.having(cause)):
            continue
        message = f"{case.where('faults')} have a cause in common: {why}"
        scope = f"{cause[0]}={cause[1]}"
        return LimitRefusal(
            Reason.COMMON_CAUSE, message, look_again_at(case.now, SELDOM, case.ask.node), scope
        )
    return None
