"""The simulated world: everything of the demo that is not KubeNode.

All of it uses the API server over HTTP, as in a real cluster. It is created once and then runs as
parts.
"""

import random
from collections.abc import Callable
from itertools import islice

from kubenode.api.v1alpha1 import DefenderPolicy
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, Pod, structs
from kubenode.runtime.process import Part
from simulation.demo.agenda import Agenda
from simulation.demo.detectors import DemoDetectors
from simulation.demo.faults import Kind
from simulation.demo.fleet import Place, node_object, places
from simulation.demo.hosts import DemoHost, HostAct
from simulation.demo.kubelets import LEASES, Kubelets, all_at_once
from simulation.demo.ledger import Ledger
from simulation.demo.observer import Observer
from simulation.demo.power import Machines
from simulation.demo.rollout import Rollout
from simulation.demo.scenarios import Scenario
from simulation.demo.trouble import Trouble
from simulation.demo.watches import Watching
from simulation.demo.workloads import NAMESPACE, STUBBORN, SYSTEM, Workloads
from simulation.hosts.components import SimulatedComponents

NAMESPACES = ("kubenode-system", "kubenode-agents", "default", LEASES, SYSTEM, NAMESPACE)
WIDTH = 32
"""Concurrent requests while the fleet is created."""
LOOKAHEAD = 200
SLACK = 0.5
"""Seconds that a response may take at any speed."""


class DemoWorld:
    """A fleet with its workload, its faults and its observer.

    kube: the client of everything simulated.
    eyes: the client of the observer alone.
    scenario: the plan of faults.
    """

    def __init__(
        self,
        kube: Kube,
        eyes: Kube,
        *,
        scenario: Scenario,
        nodes: int,
        seed: int,
        speed: float,
        policy: DefenderPolicy,
        clock: Clock,
        news: Callable[[str], None],
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._news = news
        self._rng = random.Random(seed)
        self.places: list[Place] = places(nodes)
        self.hosts = {p.name: DemoHost(p) for p in self.places}
        self.ledger = Ledger(slack=max(SLACK, 20 / speed))
        self.observer = Observer(policy, self.ledger, speed)
        self.pods: Informer[Pod] = Informer(kube, paths.pods(), structs(Pod), name="demo pods")
        self.nodes: Informer[Node] = Informer(kube, paths.nodes(), structs(Node), name="demo nodes")
        # Two agendas, so that on a busy machine heartbeats never delay the report of a fault.
        self.agenda = Agenda("fleet", clock)
        self.routine = Agenda("heartbeats", clock, width=4)
        self.detectors = DemoDetectors(
            kube,
            list(self.hosts.values()),
            self.agenda,
            self.routine,
            clock,
            speed,
            self._signalled,
            self._withdrawn,
            self._rng,
        )
        self.kubelets = Kubelets(
            kube, self.hosts, self.pods, self.agenda, self.routine, clock, speed, self._rng
        )
        self.machines = Machines(self.hosts, self.agenda, clock, speed, self._rng)
        soon = list(islice(scenario.plan(seed, self.places, speed), LOOKAHEAD))
        firsts = {p.kind: p.nodes[0] for p in reversed(soon)}
        self._quiet = scenario.quiet
        self._by_hand = firsts.get(Kind.RUNTIME_HUNG, "")
        self.workloads = Workloads(
            kube,
            self.hosts,
            self.pods,
            self.nodes,
            self.agenda,
            clock,
            self._rng,
            firsts.get(Kind.RUNTIME_SHIMS, ""),
        )
        self.trouble = Trouble(
            kube,
            self.hosts,
            scenario.plan(seed, self.places, speed),
            self.ledger,
            self.detectors,
            self.workloads,
            self.agenda,
            clock,
            speed,
            self._rng,
        )
        self.watching = Watching(eyes, self.observer, self.ledger, clock, self._handle_job)
        self.software = {
            place.name: SimulatedComponents()
            for place in self.places
            if scenario.rollout and not place.control_plane
        }
        self.rollout = (
            Rollout(kube, eyes, self.places, self.software, clock, news)
            if scenario.rollout
            else None
        )
        if scenario.pauses:
            self.trouble.is_interrupted = self.watching.has_active_breaker
        self._blocked = False
        for host in self.hosts.values():
            host.changed = self._host_changed
            host.acted = self._host_acted

    async def create(self) -> None:
        """Create namespaces, nodes, Leases, the detectors' first reports and workloads."""
        for name in NAMESPACES:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            try:
                await self._kube.create(paths.namespaces(), body)
            except AlreadyExists:
                continue
        await all_at_once(WIDTH, [self._node(host) for host in self.hosts.values()])
        await self.workloads.create()
        if self._quiet:
            await self.workloads.loosen(STUBBORN)
        if self.rollout is not None:
            await self.rollout.create()
        if self._by_hand:
            await self.trouble.cordon_by_hand(self._by_hand)

    async def _node(self, host: DemoHost) -> None:
        await self._kube.create(
            paths.nodes(), node_object(host.place, self._clock.now() + host.clock_ahead)
        )
        await self.kubelets.register(host)
        await self.detectors.start(host)

    def ground(self) -> list[Part]:
        """Return the parts that run before and after the controllers: informers, kubelets, the
        observer.
        """
        return [
            self.pods,
            self.nodes,
            self.agenda,
            self.routine,
            self.kubelets,
            self.workloads,
            self.watching,
            *self.watching.parts(),
            *(self.rollout.ground if self.rollout is not None else ()),
        ]

    @property
    def stories(self) -> list[Part]:
        """Return the parts that change the fleet, which start with the controllers."""
        return [self.trouble, *([self.rollout] if self.rollout is not None else ())]

    @property
    def behind(self) -> float:
        return max(self.agenda.behind, self.routine.behind)

    def _host_changed(self, host: DemoHost) -> None:
        self.detectors.schedule_checks(host)
        self.kubelets.schedule_report(host)

    def _host_acted(self, act: HostAct) -> None:
        what = f"{act.verb} {act.unit}".strip()
        self._news(f"{act.node}: {what}")
        self.watching.host_acted(act.node, what)

    def _signalled(self, node: str) -> None:
        self.ledger.signalled(node, self._clock.monotonic())

    def _withdrawn(self, node: str) -> None:
        self.ledger.withdrawn(node, self._clock.monotonic())

    def _handle_job(self, node: str, phase: str, hold: str) -> None:
        if phase == "NeedsHuman":
            self.trouble.call_person(node)
        if hold == "PDBBlocked" and not self._blocked:
            self._blocked = True
            self.trouble.blocked()
