"""The Machine operator: builds its controllers and informers."""

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry

from defender.client import Permits
from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.audit import SILENT, Audit
from kubenode.runtime.clock import Clock
from kubenode.runtime.disruption.guard import never_frozen
from kubenode.runtime.disruption.permits import PermitReader
from kubenode.runtime.disruption.wakes import wake_by_name
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.informers import MakeInformer
from kubenode.runtime.process import Part
from kubenode.runtime.telemetry.metrics import RuntimeMetrics as RuntimeMetrics
from machine.access import MachineAccess
from machine.bootstrap.controller import OF_MACHINE, Bootstrapper
from machine.bootstrap.tokens import Tokens
from machine.certificates.controller import OF_NODE, OF_USER, Approver, nodes_of_open
from machine.certificates.requester import machine_of, parse_request
from machine.certificates.wire import SigningRequest, decode_request, requests
from machine.clusterapi.adoption import Adoption
from machine.component.controller import MachineComponents
from machine.componentset.parts import ComponentSets
from machine.disruption.disruptions import NodeDisruptions
from machine.disruption.sweeper import Sweeper
from machine.ground import MachineSettings, SharedCaches
from machine.insight.metrics import InsightCollector
from machine.insight.rollouts import RolloutCollector
from machine.inspection.inspector import ClusterInspector
from machine.inspection.prometheus import Prometheus
from machine.machine.controller import wired
from machine.machineclass.controller import MachineClasses
from machine.machineset.controller import MachineSets
from machine.metrics import MachineCollector, MachineMetrics
from machine.nodesets.controller import NodeClasses, NodeSets
from machine.nodesets.nodes import NodeMachines
from machine.orphans.collector import Orphans
from machine.orphans.sightings import Sightings
from machine.secretaccess.controller import SecretAccess
from machine.site_settings import Provisioning


class MachineOperator:
    """The Machine operator. Other arguments are as for `machine.ground.SharedCaches`.

    permits: client of Kube Defender, None if none is configured.
    provisioning: what provisioning needs, None if no machines are provisioned.
    restored: returns why destructive acts are frozen after a restore of etcd, "" if they are not.
    permit_reader: reads a Permit right before an act. None: from the API server.
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
        permits: Permits | None = None,
        provisioning: Provisioning | None = None,
        restored: Callable[[], str] = never_frozen,
        permit_reader: PermitReader | None = None,
        informer: MakeInformer = Informer,
    ) -> None:
        self.grounds = SharedCaches(
            kube,
            fence,
            clock,
            registry,
            settings,
            runtime,
            audit,
            restored,
            permit_reader,
            informer,
        )
        ground = self.grounds
        self.machines, self.lifesigns = ground.machines, ground.lifesigns
        self.disruptions = NodeDisruptions(ground, permits)
        self.sweeper = Sweeper(ground, self.disruptions)
        prometheus = Prometheus(ground.settings.prometheus)
        self.inspector = ClusterInspector(kube, fence, clock, ground.nodes, prometheus)
        self.components = MachineComponents(ground)
        self.component_sets = ComponentSets(ground, self.disruptions, self.inspector)
        self.secret_access = SecretAccess(ground)
        self.requests: Informer[SigningRequest] = informer(
            kube, requests(), decode_request, clock=clock
        )
        self.requests.add_index(OF_NODE, nodes_of_open)
        self.requests.add_index(OF_USER, lambda request: (request.spec.username,))
        self.requests.add_index(OF_MACHINE, lambda request: (machine_of(parse_request(request)),))
        access, tokens = MachineAccess(kube, self.machines.read), Tokens(kube)
        approver = Approver(
            kube,
            self.requests,
            self.machines,
            access,
            tokens,
            clock,
            fence,
            ground.recorder,
            MachineMetrics(registry),
            audit,
        )
        self.certificates = ground.controller("certificates", approver.reconcile)
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
            ground.recorder,
            ground.settings.lives,
        )
        self.bootstrap = ground.controller("bootstrap", bootstrapper.reconcile)
        self.bootstrap.watch(self.machines, bootstrapper.changed)
        self.bootstrap.watch(self.requests, bootstrapper.noticed)
        ground.on_lifesign(self.bootstrap)
        provisioning = provisioning or Provisioning()
        life = wired(ground, self.disruptions, provisioning, self._later)
        self.life = ground.controller("machine", life.reconcile)
        self.life.watch(self.machines, life.of_machine)
        self.life.watch(ground.nodes, life.of_node)
        self.life.watch(ground.classes, life.of_class)
        self.life.watch(ground.component_sets, life.of_set)
        on_wake = self.disruptions.wakes.on_wake
        on_wake.append(wake_by_name(Machine.resource.kind, lambda name: self.life.queue.add(name)))
        self.machine_sets = MachineSets(ground, self.disruptions)
        on_wake.append(self.machine_sets.wake)
        self.node_classes, self.node_sets = NodeClasses(ground), NodeSets(ground)
        self.node_machines = NodeMachines(ground, self.disruptions)
        on_wake.append(self.node_machines.wake)
        sightings = Sightings()
        self.classes = MachineClasses(ground, provisioning.instances, sightings)
        self.orphans = Orphans(ground, provisioning, sightings, ground.settings.scan)
        self.adoption = Adoption(ground)
        registry.register(MachineCollector(self.machines.cache.values, clock))
        registry.register(InsightCollector(self.machines.cache.values))
        registry.register(
            RolloutCollector(
                self.machines.cache.values,
                ground.component_sets.cache.values,
                ground.meltdown.frozen,
            )
        )
        if runtime is not None:
            for each in self._informers:
                runtime.informer(each)
            runtime.recorder(ground.recorder)

    def _later(self, machine: str, seconds: float) -> None:
        self.life.queue.add_after(machine, seconds)

    @property
    def _informers(self) -> tuple[Informer[Any], ...]:
        return (
            *self.grounds.informers,
            self.requests,
            self.disruptions.permits,
            self.secret_access.roles,
            self.secret_access.bindings,
        )

    @property
    def ground(self) -> list[Part]:
        """Parts that run without the lease and end last."""
        return [*self._informers, self.grounds.meltdown, self.grounds.recorder]

    @property
    def parts(self) -> list[Part]:
        """Parts that decide and act, to be started once the lease is held."""
        return [
            self.certificates,
            self.bootstrap,
            self.life,
            self.machine_sets.controller,
            self.classes.controller,
            self.node_classes.controller,
            self.node_sets.controller,
            self.node_machines.controller,
            self.components.controller,
            self.secret_access.controller,
            *self.component_sets.parts,
            self.orphans,
            self.adoption,
            self.disruptions.wakes,
            self.sweeper.controller,
        ]

    def ready(self) -> bool:
        """Return whether all caches are fresh."""
        return all(informer.fresh() for informer in self._informers)
