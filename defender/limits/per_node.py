"""perNode: how often one node may be disrupted, over all rules and operations."""

from defender.ledger import JOB, LedgerPermit
from defender.limits.case import LimitCase, LimitRefusal
from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Reason


def per_node(case: LimitCase) -> LimitRefusal | None:
    """Count the permits of the node within the window. Those of one RemedyOperationJob count once.

    A job that released its slot to wait for a PodDisruptionBudget continues what it began.
    """
    on_node = case.ledger.on_node(case.ask.node)
    if not on_node or case.inevitable:
        return None
    rule = case.spec.per_node
    recent = [
        held
        for held in on_node
        if held.granted_at > case.now - rule.within
        and held is not case.mine
        and not _same_job(case, held)
    ]
    acts = {held.holder.uid if held.holder.kind == JOB else held.name: held for held in recent}
    if len(acts) < rule.max_acts:
        return None
    first = min(held.granted_at for held in recent)
    return LimitRefusal(
        Reason.PER_NODE,
        f"node {case.ask.node}: {len(acts)} of {rule.max_acts} disruptions in"
        f" {format_duration(rule.within)} were spent",
        first + rule.within,
        f"node={case.ask.node}",
        len(acts),
        rule.max_acts,
    )


def _same_job(case: LimitCase, held: LedgerPermit) -> bool:
    return held.holder.kind == JOB and held.same_holder(case.ask.holder)
