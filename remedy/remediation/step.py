"""Converts a remediation request to evidence for rules, and computes its status. Pure.

It is evidence like any other: a HostEvent of source ClusterAPI, open as long as the request exists.
Either a rule creates the job, under Kube Defender, or none does; nothing else acts. Sources: the
health check's contract in kubenode.api.v1alpha1.remediation, `spec.providerID` and `status.nodeRef`
of cluster.x-k8s.io Machines, v1beta1 and v1beta2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubenode.api.v1alpha1 import JobPhase, KubeNodeRemediation, RemedyOperationJob
from kubenode.api.v1alpha1.hostevent import (
    HostEvent,
    HostEventClass,
    HostEventPhase,
    HostEventSource,
)
from kubenode.api.v1alpha1.remediation import KubeNodeRemediationStatus, RemediationPhase
from remedy.hostdoctor.report import Reported, ReportedHost

GROUP = "cluster.x-k8s.io"
SCOPE = "cluster-api"
"""Scope of the list of all requests: a request that it lacks is over."""


@dataclass(frozen=True, slots=True)
class OwnerMachine:
    """The Machine that a request is about, as its owner reference names it."""

    namespace: str
    name: str
    uid: str
    version: str


def owner_of(request: KubeNodeRemediation) -> OwnerMachine | None:
    """Return the owning Machine; None if there is none: then the request is about no machine."""
    for reference in request.metadata.owner_references:
        group, _, version = reference.api_version.partition("/")
        if group == GROUP and reference.kind == "Machine":
            return OwnerMachine(
                request.metadata.namespace or "", reference.name, reference.uid, version
            )
    return None


def host_of(owner: OwnerMachine | None, machine: Mapping[str, Any] | None) -> ReportedHost | None:
    """Return the host of the Machine; None if unknown, so that no rule ever sees the request.

    machine: current object at the API server; None: gone
    """
    if owner is None or machine is None or machine["metadata"].get("uid") != owner.uid:
        return None
    provider = str((machine.get("spec") or {}).get("providerID") or "")
    node = str(((machine.get("status") or {}).get("nodeRef") or {}).get("name") or "")
    return ReportedHost(provider_id=provider, names=(node,)) if node else None


def build_report(request: KubeNodeRemediation, host: ReportedHost | None) -> Reported:
    meta = request.metadata
    return Reported(
        source=HostEventSource.CLUSTER_API,
        external_id=f"{meta.namespace}/{meta.name}/{meta.uid}",
        class_=HostEventClass.UNHEALTHY,
        host=host,
        phase=HostEventPhase.ACTIVE,
        severity=request.spec.severity,
        not_before=meta.creation_timestamp,
        attributes={"machine": f"{meta.namespace}/{meta.name}"},
        message=f"the MachineHealthCheck of Machine {meta.namespace}/{meta.name} asks for a repair",
        silent=True,
    )


def status_of(
    before: KubeNodeRemediationStatus,
    host: ReportedHost | None,
    event: HostEvent | None,
    jobs: Sequence[RemedyOperationJob],
    now: datetime,
) -> KubeNodeRemediationStatus:
    """Return the new status of a request. `jobs`: jobs of the event's node."""
    name = event.metadata.name if event is not None else ""
    node = event.spec.node.name if event is not None else ""
    phase, job, message = _describe_progress(host, name, node, jobs)
    after = KubeNodeRemediationStatus(
        phase=phase, node=node, host_event=name, job=job, message=message[:1024]
    )
    same = after == before.model_copy(update={"told_at": None})
    return after.model_copy(update={"told_at": before.told_at if same else now})


def _describe_progress(
    host: ReportedHost | None, event: str, node: str, jobs: Sequence[RemedyOperationJob]
) -> tuple[RemediationPhase, str, str]:
    waiting = RemediationPhase.WAITING
    if host is None:
        why = "its Machine is gone, or has no node: there is nothing here to be repaired"
        return waiting, "", why
    if not event or not node:
        return waiting, "", f"no Node of this cluster is {' '.join(host.names)}"
    ours = [job for job in jobs if event in job.spec.host_events]
    open_ = [job for job in jobs if not job.status.phase.closed]
    for job in open_:
        if job in ours:
            human = job.status.phase is JobPhase.NEEDS_HUMAN
            phase = RemediationPhase.NEEDS_HUMAN if human else RemediationPhase.REPAIRING
            return phase, job.metadata.name, f"{job.status.phase}: {job.status.message}"
    if open_:
        other = open_[0].metadata.name
        return waiting, "", f"job {other} repairs the node for another reason"
    rule = f"a NodeRemedier with hostEvent {{source: {HostEventSource.CLUSTER_API}}} decides"
    if not ours:
        return waiting, "", f"HostEvent {event} is told; {rule}"
    last = max(ours, key=lambda job: (str(job.metadata.creation_timestamp), job.metadata.name))
    ended = f"job {last.metadata.name} ended {last.status.phase}, and the Machine is not healthy"
    return waiting, last.metadata.name, f"{ended}; {rule}"
