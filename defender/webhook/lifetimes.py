"""Lifetimes of permits for acts of users. Pure.

Nobody renews or releases such a permit, and its holder cannot be checked. It lasts:

- a deletion: until the Node is gone, or for BEGINS if the deletion does not begin.
- a cordon: until it is undone, or the permit expires. Then the node's own state counts it.
- evictions: until QUIET after the last one, or until the cordon's end if the node is cordoned.

A deletion that does not end keeps its slot for at most STUCK, so that it does not block repairs.
"""

from datetime import datetime, timedelta

from defender.decision.ledger import LedgerPermit
from defender.webhook.acts import USER
from kubenode.api.v1alpha1 import Disruption
from kubenode.runtime.kube.objects import Node

BEGINS = timedelta(minutes=1)
QUIET = timedelta(minutes=2)
STUCK = timedelta(hours=1)
"""Time after which a Node that finalizers keep only counts as leaving, not as under a permit."""


def explain_release(permit: LedgerPermit, node: Node | None, now: datetime) -> str:
    """Return why the permit may be released, "" if it may not or is of another kind."""
    if permit.holder.kind != USER:
        return ""
    if node is None:
        return "the node is gone"
    last = max(permit.grants[-1][1], permit.renewed_at or permit.grants[-1][1])
    if node.metadata.deletion_timestamp is not None:
        return "the deletion does not end" if now >= last + STUCK else ""
    if permit.class_ is Disruption.NODE:
        return "the deletion did not begin" if now >= last + BEGINS else ""
    if not node.spec.unschedulable:
        return "the node is in service" if now >= last + QUIET else ""
    return "its time is over" if now >= permit.expires_at else ""
