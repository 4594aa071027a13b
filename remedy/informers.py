"""Informers of the Remedy operator, which run on every replica."""

from typing import Any

from kubenode.api.base import API_VERSION, Resource
from kubenode.api.v1alpha1 import (
    AgentAssignment,
    HostEvent,
    HostProbe,
    KubeNodeRemediation,
    Machine,
    NodeRecord,
    NodeRemedier,
    RemedyOperationJob,
)
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.informers import MakeInformer
from kubenode.runtime.kube.objects import Node, structs
from remedy import mappers
from remedy.hostdoctor.machines import MachineView
from remedy.hostprobes.controller import NODE_INDEX
from remedy.hostprobes.desk import WITNESS_INDEX
from remedy.hostprobes.witnesses import part_of
from remedy.job.migration.cordon_index import CORDONING, cordoning
from remedy.remedier.event_sources import NodeEventSources
from remedy.remedier.leases import (
    AGENT_LEASES,
    NODE_LEASES,
    WATCH_SECONDS,
    Renewal,
    decode_renewal,
)


class RemedyInformers:
    """Caches of every kind that the operator reads, with their indexes.

    events: Events about Nodes. Decisions continue without them; only their leaves are unknown.
    node_leases, agent_leases: without them Lease ages are unknown, and rules continue; jobs begin
        once the agents' Leases were read
    """

    def __init__(self, kube: Kube, clock: Clock, make: MakeInformer) -> None:
        def of(kind: type[Resource]) -> Informer[Any]:
            return make(kube, paths.custom(kind.resource.plural), kind.from_server, clock=clock)

        def leases(namespace: str) -> Informer[Renewal]:
            return make(
                kube,
                paths.leases(namespace),
                decode_renewal,
                clock=clock,
                name=f"leases of {namespace}",
                watch_seconds=WATCH_SECONDS,
                resync=None,
            )

        self.nodes: Informer[Node] = make(kube, paths.nodes(), structs(Node), clock=clock)
        self.events = NodeEventSources(kube, clock, make)
        self.remediers: Informer[NodeRemedier] = of(NodeRemedier)
        self.jobs: Informer[RemedyOperationJob] = of(RemedyOperationJob)
        self.node_records: Informer[NodeRecord] = of(NodeRecord)
        self.host_events: Informer[HostEvent] = of(HostEvent)
        self.probes: Informer[HostProbe] = of(HostProbe)
        self.requests: Informer[KubeNodeRemediation] = of(KubeNodeRemediation)
        self.assignments: Informer[AgentAssignment] = of(AgentAssignment)
        self.machines: Informer[MachineView] = make(
            kube,
            paths.custom(Machine.resource.plural),
            structs(MachineView),
            clock=clock,
            name="machines of hosts",
        )
        self.node_leases = leases(NODE_LEASES)
        self.agent_leases = leases(AGENT_LEASES)
        self._add_indexes()

    def _add_indexes(self) -> None:
        self.probes.add_index(NODE_INDEX, lambda probe: (probe.spec.node_name,))
        self.probes.add_index(WITNESS_INDEX, part_of)
        mappers.index(self.jobs)
        self.jobs.add_index(CORDONING, cordoning)

    @property
    def _required(self) -> tuple[Informer[Any], ...]:
        """The caches that a decision about a node needs."""
        return (
            self.nodes,
            self.remediers,
            self.jobs,
            self.node_records,
            self.host_events,
            self.probes,
        )

    @property
    def all(self) -> tuple[Informer[Any], ...]:
        """Every informer, in the order in which they start."""
        return (
            *self._required,
            *self.events.informers,
            self.requests,
            self.assignments,
            self.machines,
            self.node_leases,
            self.agent_leases,
        )

    def fresh(self) -> bool:
        """Report whether the caches that decisions need are current."""
        return all(informer.fresh() for informer in self._required)

    def kinds(self) -> list[tuple[str, str, Informer[Any]]]:
        """Return kind and API version of the objects that rules and jobs are about."""
        custom = (
            (NodeRemedier, self.remediers),
            (RemedyOperationJob, self.jobs),
            (HostEvent, self.host_events),
            (HostProbe, self.probes),
            (KubeNodeRemediation, self.requests),
        )
        names = [(kind.resource.kind, API_VERSION, informer) for kind, informer in custom]
        return [("Node", "v1", self.nodes), *names]
