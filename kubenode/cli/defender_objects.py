"""Reads the objects that Kube Defender decides by once: nodes, policies, permits and jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from defender.decision.jobs import ObservedJob
from defender.decision.permit_reader import UnreadablePermit, read_permit
from defender.decision.policies import LoadedPolicy, read_policy
from kubenode.api.v1alpha1 import DefenderPolicy, Permit, RemedyOperationJob
from kubenode.cli.cluster import require_crds
from kubenode.cli.live import once
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs

POLICIES = paths.custom(DefenderPolicy.resource.plural)
PERMITS = paths.custom(Permit.resource.plural)
JOBS = paths.custom(RemedyOperationJob.resource.plural)


@dataclass(frozen=True, slots=True)
class DefenderObjects:
    """The objects that Kube Defender decides by.

    unreadable: names of permits that this version cannot read, with the reason.
    """

    nodes: Mapping[str, Node]
    policies: Sequence[LoadedPolicy]
    permits: Sequence[Permit]
    jobs: Sequence[ObservedJob]
    unreadable: Mapping[str, str] = field(default_factory=dict)


async def read_objects(kube: Kube) -> DefenderObjects:
    """List the objects. Raises Refusal without our kinds, KubeError if a right is missing."""
    await require_crds(kube)
    nodes = Informer(kube, paths.nodes(), structs(Node))
    policies = Informer(kube, POLICIES, read_policy)
    permits = Informer(kube, PERMITS, read_permit)
    jobs = Informer(kube, JOBS, structs(ObservedJob))
    informers: Sequence[Informer[Any]] = (nodes, policies, permits, jobs)
    for informer in informers:  # fail early: an Informer retries forever
        await kube.get(informer.path, query={"limit": 1})
    await once(*informers)
    unreadable = {
        name: permit.why
        for name, permit in sorted(permits.cache.items())
        if isinstance(permit, UnreadablePermit)
    }
    return DefenderObjects(
        dict(nodes.cache),
        sorted(policies.cache.values(), key=lambda policy: policy.name),
        list(permits.cache.values()),
        list(jobs.cache.values()),
        unreadable,
    )
