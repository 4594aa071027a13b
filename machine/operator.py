"""The Machine operator: its informers and controllers, wired.

Ground and parts as in every program: the ground follows the API server on each replica, the parts
decide and act under the lease.
"""

from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.audit import SILENT, Audit
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.controller import Controller, Reconcile
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.process import Part
from kubenode.runtime.recorder import EventRecorder
from kubenode.runtime.telemetry.metrics import Metrics as RuntimeMetrics
from machine.access import MachineAccess
from machine.bootstrap.controller import OF_MACHINE, Bootstrapper
from machine.bootstrap.lifesigns import STALE_SECONDS, AgentLease, Lifesigns, decode_lease
from machine.bootstrap.step import Lives
from machine.bootstrap.tokens import Tokens
from machine.certificates.controller import OF_NODE, Approver, nodes_of_machine, nodes_of_open
from machine.certificates.whose import look, machine_of
from machine.certificates.wire import SigningRequest, decode_request, requests
from machine.metrics import MachineCollector, Metrics
from machine.names import LEASES

COMPONENT = "kubenode-machine"


@dataclass(frozen=True, slots=True)
class MachineSettings:
    """lives  of bootstrap tokens; stale  seconds after which an agent's Lease is; workers each"""

    lives: Lives = field(default_factory=Lives)
    stale: float = STALE_SECONDS
    workers: int = 8


class MachineOperator:
    """kube     the API server
    fence    the lease: checked before every write
    runtime  where informers and queues show themselves, if anywhere
    audit    where grants and refusals are written down
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
    ) -> None:
        self.settings = settings or MachineSettings()
        self._fence, self._clock, self._runtime = fence, clock, runtime
        self.machines: Informer[Machine] = Informer(
            kube, paths.custom(Machine.resource.plural), Machine.from_server, clock=clock
        )
        self.requests: Informer[SigningRequest] = Informer(
            kube, requests(), decode_request, clock=clock
        )
        self.machines.add_index(OF_NODE, nodes_of_machine)
        self.requests.add_index(OF_NODE, nodes_of_open)
        self.requests.add_index(OF_MACHINE, lambda request: (machine_of(look(request)),))
        self.leases: Informer[AgentLease] = Informer(
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
        self.recorder = EventRecorder(kube, COMPONENT, clock)
        access, tokens = MachineAccess(kube), Tokens(kube)
        approver = Approver(
            kube,
            self.requests,
            self.machines,
            access,
            tokens,
            clock,
            fence,
            self.recorder,
            Metrics(registry),
            audit,
        )
        self.certificates = self._controller("certificates", approver.reconcile)
        self.certificates.watch(self.requests)
        self.certificates.watch(self.machines, approver.concerned)
        bootstrapper = Bootstrapper(
            self.machines,
            self.requests,
            access,
            tokens,
            self.lifesigns,
            clock,
            fence,
            self.recorder,
            self.settings.lives,
        )
        self.bootstrap = self._controller("bootstrap", bootstrapper.reconcile)
        self.bootstrap.watch(self.machines, bootstrapper.changed)
        self.bootstrap.watch(self.requests, bootstrapper.noticed)
        self.lifesigns.wake = self._woken
        registry.register(MachineCollector(self.machines.cache.values, clock))
        if runtime is not None:
            for each in self._informers:
                runtime.informer(each)
            runtime.recorder(self.recorder)

    @property
    def _informers(self) -> tuple[Informer[Any], ...]:
        return (self.machines, self.requests, self.leases)

    @property
    def ground(self) -> list[Part]:
        """What may run without the lease, and ends last."""
        return [*self._informers, self.recorder]

    @property
    def parts(self) -> list[Part]:
        """What decides and acts: to be started once the lease is held."""
        return [self.certificates, self.bootstrap]

    def ready(self) -> bool:
        """Whether the caches are current."""
        return all(informer.fresh() for informer in self._informers)

    def _woken(self, name: str) -> None:
        if name in self.machines.cache:
            self.bootstrap.queue.add(name)

    def _controller(self, name: str, reconcile: Reconcile) -> Controller:
        queue: WorkQueue[str] = WorkQueue(self._clock)
        meter = self._runtime.controller(name, queue) if self._runtime is not None else None
        return Controller(
            name,
            reconcile,
            workers=self.settings.workers,
            queue=queue,
            clock=self._clock,
            fence=self._fence,
            meter=meter,
        )
