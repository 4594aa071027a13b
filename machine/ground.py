"""Dependencies that all controllers of the Machine operator share: caches, clock, lease, recorder.

The caches are filled on each replica. Decisions and acts need the lease.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from kubenode.api.v1alpha1 import (
    JobPhase,
    Machine,
    MachineClass,
    MachineComponent,
    MachineComponentSet,
    MachineSet,
    NodeClass,
    NodeSet,
    RemedyOperationJob,
)
from kubenode.runtime.audit import SILENT, Audit
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.controller import Controller, Reconcile
from kubenode.runtime.controller.factory import build_controller
from kubenode.runtime.disruption.guard import DisruptionGuard, never_frozen
from kubenode.runtime.disruption.permits import ApiPermits, PermitReader
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.informers import MakeInformer
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, structs
from kubenode.runtime.recorder import EventRecorder
from kubenode.runtime.telemetry.metrics import RuntimeMetrics as RuntimeMetrics
from machine.bootstrap.lifesigns import STALE_SECONDS, AgentLease, Lifesigns, decode_lease
from machine.bootstrap.step import TokenLifetimes
from machine.certificates.controller import OF_NODE, nodes_of_machine
from machine.meltdown import Meltdown, MeltdownTimes
from machine.names import LEASES

COMPONENT = "kubenode-machine"
CLOSED = frozenset(phase.value for phase in JobPhase if phase.closed)


class RepairJobSpec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""
    mode: str = ""


class JobTimeline(msgspec.Struct, gc=False):
    closed: datetime | None = None


class RepairJobStatus(msgspec.Struct, gc=False):
    phase: str = ""
    timeline: JobTimeline = msgspec.field(default_factory=JobTimeline)


class RepairJob(msgspec.Struct, gc=False):
    """The fields of a RemedyOperationJob that tell which node it holds."""

    metadata: KubeObjectMeta
    spec: RepairJobSpec = msgspec.field(default_factory=RepairJobSpec)
    status: RepairJobStatus = msgspec.field(default_factory=RepairJobStatus)

    @property
    def holds(self) -> bool:
        """Whether the job is open and may act on its node."""
        return self.spec.mode in ("Enforce", "Approve") and self.status.phase not in CLOSED


@dataclass(frozen=True, slots=True)
class MachineSettings:
    """Settings of the Machine operator.

    lives: lifetimes of bootstrap tokens.
    stale: seconds without renewal after which an agent's Lease is stale.
    workers: workers of each controller.
    freeze: when a meltdown is detected, and how long it lasts.
    scan: seconds between two searches for orphans.
    prometheus: URL of Prometheus, "" for none.
    """

    lives: TokenLifetimes = field(default_factory=TokenLifetimes)
    stale: float = STALE_SECONDS
    workers: int = 8
    freeze: MeltdownTimes = field(default_factory=MeltdownTimes)
    scan: float = 900.0
    prometheus: str = ""


class SharedCaches:
    """The shared dependencies.

    fence: the lease, checked before every write.
    registry: where metrics are registered.
    runtime: metrics of informers and queues, None for none.
    audit: the audit log.
    restored: returns why destructive acts are frozen after a restore of etcd, "" if they are not.
    permit_reader: reads a Permit before an act. None: from the API server.
    informer: makes informers. `Informers` shares them with other parts of the process.
    creation_locks: by class, held while a Machine is created, because the class has limits.
    """

    def __init__(
        self,
        kube: Kube,
        fence: Fence,
        clock: Clock,
        registry: CollectorRegistry,
        settings: MachineSettings | None = None,
        runtime: RuntimeMetrics | None = None,
        audit: Audit = SILENT,
        restored: Callable[[], str] = never_frozen,
        permit_reader: PermitReader | None = None,
        informer: MakeInformer = Informer,
    ) -> None:
        self.informer = informer
        self.restored = restored
        self.guard = DisruptionGuard(
            permit_reader or ApiPermits(kube), fence, clock, audit, restored
        )
        self.kube, self.fence, self.clock, self.registry = kube, fence, clock, registry
        self.settings = settings or MachineSettings()
        self.audit, self._runtime = audit, runtime
        self.machines = self._custom(Machine)
        self.classes = self._custom(MachineClass)
        self.machine_sets = self._custom(MachineSet)
        self.node_classes = self._custom(NodeClass)
        self.node_sets = self._custom(NodeSet)
        self.components = self._custom(MachineComponent)
        self.component_sets = self._custom(MachineComponentSet)
        self.nodes: Informer[Node] = informer(
            kube, paths.nodes(), structs(Node), clock=clock, name="nodes of machines"
        )
        self.jobs: Informer[RepairJob] = informer(
            kube,
            paths.custom(RemedyOperationJob.resource.plural),
            structs(RepairJob),
            clock=clock,
            name="jobs on machines",
        )
        self.machines.add_index(OF_NODE, nodes_of_machine)
        self.jobs.add_index(OF_NODE, lambda job: (job.spec.node_name,))
        self.leases: Informer[AgentLease] = informer(
            kube,
            paths.leases(LEASES),
            decode_lease,
            clock=clock,
            name="leases of agents",
            resync=None,
        )
        self.lifesigns = Lifesigns(
            clock, self.leases.fresh, self.leases.synced.is_set, stale=self.settings.stale
        )
        self.leases.add_handler(self.lifesigns.changed)
        self.meltdown = Meltdown(
            clock,
            self.informers,
            self.machines.cache,
            lambda machine: bool(self.find_open_job(machine.node_name)),
            self.settings.freeze,
            restored,
        )
        self.leases.add_handler(self.meltdown.lease_changed)
        self.creation_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._alive: list[Controller] = []
        self.lifesigns.wake = self._woken
        self.recorder = EventRecorder(kube, COMPONENT, clock)

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        return (
            self.machines,
            self.classes,
            self.machine_sets,
            self.node_classes,
            self.node_sets,
            self.components,
            self.component_sets,
            self.nodes,
            self.jobs,
            self.leases,
        )

    def controller(self, name: str, reconcile: Reconcile) -> Controller:
        """Build a controller with its queue and metrics."""
        return build_controller(
            name,
            reconcile,
            clock=self.clock,
            fence=self.fence,
            metrics=self._runtime,
            workers=self.settings.workers,
        )

    def on_lifesign(self, controller: Controller) -> None:
        """Let the controller reconcile a Machine when its agent's liveness changes."""
        self._alive.append(controller)

    def _woken(self, name: str) -> None:
        if name in self.machines.cache:
            for controller in self._alive:
                controller.queue.add(name)

    def find_open_job(self, node: str) -> str:
        """Return the open job that may act on the node, "" for none."""
        for job in self.jobs.by(OF_NODE, node):
            if job.holds:
                return job.metadata.name
        return ""

    def repaired(self, node: str) -> datetime | None:
        """Return when the last job that acted on the node was closed, None if none is known."""
        ends = (
            job.status.timeline.closed
            for job in self.jobs.by(OF_NODE, node)
            if job.spec.mode in ("Enforce", "Approve")
        )
        return max((end for end in ends if end is not None), default=None)

    def _custom(self, kind: Any) -> Informer[Any]:
        path = paths.custom(kind.resource.plural)
        return self.informer(self.kube, path, kind.from_server, clock=self.clock)
