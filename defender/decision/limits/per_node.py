"""perNode: how often one node may be disrupted, over all rules and operations."""

from defender.decision.ledger import JOB, LedgerPermit
from defender.decision.limits.case import LimitCase, LimitRefusal
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
        permit
        for permit in on_node
        if permit.granted_at > case.now - rule.within
        and permit is not case.mine
        and not _same_job(case, permit)
    ]
    acts = {
        permit.holder.uid if permit.holder.kind == JOB else permit.name: permit for permit in recent
    }
    if len(acts) < rule.max_acts:
        return None
    first = min(permit.granted_at for permit in recent)
    return LimitRefusal(
        Reason.PER_NODE,
        f"node {case.ask.node}: {len(acts)} of {rule.max_acts} disruptions in"
        f" {format_duration(rule.within)} were spent",
        first + rule.within,
        f"node={case.ask.node}",
        len(acts),
        rule.max_acts,
    )


def _same_job(case: LimitCase, permit: LedgerPermit) -> bool:
    return permit.holder.kind == JOB and permit.same_holder(case.ask.holder)
