"""`kubenode member list`."""

from datetime import datetime, timedelta
from typing import Any

import typer

from kubenode.api.conditions import find_condition
from kubenode.api.v1alpha1 import MemberCluster
from kubenode.api.v1alpha1.membercluster import MEMBER_REACHABLE, MemberPhase
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.lengths import length
from kubenode.cli.options import Listing
from kubenode.cli.tables import show
from kubenode.runtime.kube.lists import decoded
from kubenode.runtime.kube.paths import custom

COLUMNS = {
    "NAME": "name",
    "PHASE": "phase",
    "REASON": "reason",
    "VERSION": "version",
    "MACHINES": "machines",
    "CONTACT": "contact",
    "EXPIRES": "expires",
}
WIDE = {"LABELS": "labels", "MESSAGE": "message"}


async def list_members(output: Listing, kubeconfig: str | None, context: str | None) -> None:
    """Print the MemberClusters."""
    plural = MemberCluster.resource.plural
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {plural})
        members = [each async for each in decoded(kube, custom(plural), MemberCluster.from_server)]
        now = kube.clock.now()
    rows = [build_row(member, now) for member in members]
    if not rows and output in (Listing.TABLE, Listing.WIDE):
        typer.echo("no MemberClusters; create one with `kubenode member import`")
        return
    show(rows, COLUMNS, WIDE, output, MemberCluster.resource.kind)


def build_row(member: MemberCluster, now: datetime) -> dict[str, Any]:
    status = member.status
    reach = find_condition(status.conditions, MEMBER_REACHABLE)
    contact, expires_at = status.last_contact, status.credentials_expire_at
    labels = member.metadata.labels
    return {
        "name": member.metadata.name,
        "phase": status.phase or MemberPhase.PENDING,
        "reason": "" if reach is None else reach.reason,
        "version": status.version,
        "machines": status.machines,
        "contact": "" if contact is None else length(now - contact),
        "expires": "" if expires_at is None else length(max(expires_at - now, timedelta())),
        "labels": ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        "message": "" if reach is None else reach.message,
    }
