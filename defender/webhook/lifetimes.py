"""When a permit that an act of somebody else drew is over. Pure.

Nobody renews or releases such a permit, and its holder cannot be looked at. So it lasts

    a deletion   until the Node is gone; one that did not begin after BEGINS never will
    a cordon     until it is undone, or its time is over: by then the node's own state counts it
    evictions    QUIET after the last one, or until the cordon's end if the node is cordoned

and never keeps a slot from healing for longer than STUCK.
"""

from datetime import datetime, timedelta

from defender.ledger import LedgerPermit
from defender.webhook.acts import USER
from kubenode.api.v1alpha1 import Disruption
from kubenode.runtime.kube.objects import Node

BEGINS = timedelta(minutes=1)
QUIET = timedelta(minutes=2)
STUCK = timedelta(hours=1)
"""A Node that finalizers keep: it counts as leaving, no longer as under a permit."""


def over(held: LedgerPermit, node: Node | None, now: datetime) -> str:
    """Why the permit may be released, "" if it may not or is not of this kind."""
    if held.holder.kind != USER:
        return ""
    if node is None:
        return "the node is gone"
    last = max(held.grants[-1][1], held.renewed_at or held.grants[-1][1])
    if node.metadata.deletion_timestamp is not None:
        return "the deletion does not end" if now >= last + STUCK else ""
    if held.class_ is Disruption.NODE:
        return "the deletion did not begin" if now >= last + BEGINS else ""
    if not node.spec.unschedulable:
        return "the node is in service" if now >= last + QUIET else ""
    return "its time is over" if now >= held.expires_at else ""
