"""`kubenode explain permit NAME`: who holds the permit, since when, and where does it count?"""

from collections.abc import Mapping
from typing import Any

import typer

from defender.decision.ledger import JOB
from defender.decision.permit_reader import UnreadablePermit, read_permit
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Permit, RemedyOperationJob
from kubenode.api.v1alpha1.permit import PermitState
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound

MEANS = {
    PermitState.GRANTED: "held: the node may be disrupted",
    PermitState.RELEASED: "given back: it counts in rates alone",
    PermitState.REVOKED: "taken back: nothing new may start; its holder stops and gives it back",
    PermitState.OVERDUE: "overdue: its holder neither renews it nor ends, so the slot stays taken",
    None: "being written: it is worth nothing yet",
}


async def explain_permit(name: str, kubeconfig: str | None, context: str | None) -> Exit:
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        for line in await lines(kube, name):
            typer.echo(line)
    return Exit.FINE


async def lines(kube: Kube, name: str) -> list[str]:
    """Describe the permit and its holder. Raises Refusal if the permit does not exist."""
    try:
        permit = await kube.get(paths.custom(Permit.resource.plural, name), read_permit)
    except NotFound as error:
        text = f"there is no permit {name}; `kubectl get permits` lists those that are"
        raise Refusal(text) from error
    return [*_of_permit(permit), *await _of_holder(kube, permit)]


def _unread(permit: Permit) -> list[str]:
    if not isinstance(permit, UnreadablePermit):
        return []
    effect = "its node is refused, and it counts in every limit, while it is open"
    return [f"  cannot be read: {permit.why}; {effect}"]


def _of_permit(permit: Permit) -> list[str]:
    spec, status = permit.spec, permit.status
    output = [
        f"permit {permit.metadata.name}: {spec.operation} of class {spec.class_} on node"
        f" {spec.node_name}",
        f"  {MEANS[status.state]}",
        *_unread(permit),
        *(f"  granted {grant.class_} at {format_time(grant.at)}" for grant in spec.grants),
    ]
    for what, at in (
        ("renewed", status.renewed_at),
        ("given back", status.released_at),
        ("its holder is looked at", status.expires_at),
    ):
        if at is not None and (what != "its holder is looked at" or status.released_at is None):
            output.append(f"  {what} at {format_time(at)}")
    if status.scopes:
        output.append(f"  counts in {', '.join(status.scopes)}")
    return output


async def _of_holder(kube: Kube, permit: Permit) -> list[str]:
    holder = permit.spec.holder
    text = f"  held for {holder.kind} {holder.name}"
    if holder.kind != JOB:
        return [text]
    path = paths.custom(RemedyOperationJob.resource.plural, holder.name)
    try:
        raw_job: Mapping[str, Any] = await kube.get(path)
    except NotFound:
        return [f"{text}, which is gone: Kube Defender frees the permit"]
    job = RemedyOperationJob.model_validate(raw_job, extra="ignore")
    if job.metadata.uid != holder.uid:
        return [f"{text}; a job of that name is there, but it is another one"]
    return [f"{text}, phase {job.status.phase}: {job.status.message or _doing(job)}"]


def _doing(job: RemedyOperationJob) -> str:
    step = next((s.name for s in reversed(job.status.steps)), "no step yet")
    return f"rung {job.rung.name}, step {step}"
