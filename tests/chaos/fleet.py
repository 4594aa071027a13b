"""The simulated fleet that chaos falls upon: that of the demo, with faults for a while only.

Its kubelets, detectors, workloads and people are the demo's, its agents' code is real, and the
demo's independent observer judges every act, by watches that no blow falls on.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from chaos.restore import RestorableObserver, RestorableWatching
from chaos.switchboard import provider_id
from support.running import until

from kubenode.api.scale import scaled
from kubenode.api.v1alpha1 import DefenderPolicy, NodeRemedier, default_policy
from kubenode.cli.library import library
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.process import Part
from remedy.job.steps.table import unable
from simulation.demo.detectors import LONGEST
from simulation.demo.faults import Plan, Planned
from simulation.demo.fleet import Place, node_object
from simulation.demo.hosts import DemoHost, HostAct
from simulation.demo.scenarios import MIX, FaultPace, Scenario
from simulation.demo.world import DemoWorld

NEVER = 1e9
READY_SECONDS = 300.0
LEASE_EVERY, GRACE = 10.0, 90.0
"""Real seconds of kubelets and their node controller, at any speed: a node controller in a hurry
would give all nodes up whenever the API server is away.
"""
AT_ONCE = (4, 2, None, 2, None, 6)
"""Nodes at once by each limit of the policy that ships, whose shares suit larger fleets: cluster,
zone, rack, pool, control plane, and acts on hosts alone. So many for each hundred nodes; in a rack
and of the control plane it is one, as it ships.
"""
RATED = 300
"""Nodes that the policy's rates suit: 300 acts on hosts alone an hour are one on each."""
ACTS = 100
"""On one node within a day: the run strikes each more often than life does."""
NEW = "20%"
"""Nodes with new faults that open a breaker, twice what ships: the API server is away for up to
seven minutes of the fleet's, and what began meanwhile is new all at once. A small fleet is struck
so often that what is new must not open it.
"""
CLOCKS_EVERY = 10
CLOCKS = {3: timedelta(hours=2), 7: timedelta(hours=-2)}
"""By how much the clocks of two of ten hosts are ahead; nobody has measured it."""
STRANGERS = timedelta(hours=1)
"""Of a real fleet. Rules that ship call a fault of the same class on the same node within a day a
relapse, take the next rung, and after three leave the node to a person: rightly, as one that fails
three times a day is bad. Here faults are dealt out in turn and have nothing to do with each other:
of 10,000 a day each node of 800 has twelve. What comes an hour later is another fault; what
comes sooner is a relapse, here as there.
"""


@dataclass(frozen=True, slots=True)
class Limited(Scenario):
    """Its faults end `lasts` seconds after the first may come."""

    lasts: float = NEVER

    def plan(self, seed: int, fleet: Sequence[Place], speed: float) -> Plan:
        return self._until(Scenario.plan(self, seed, fleet, speed))

    def _until(self, planned: Plan) -> Iterator[Planned]:
        for one in planned:
            if one.at + (one.lasts or 0.0) > self.lasts:
                return
            yield one


def scenario(nodes: int, speed: float, every: float, lasts: float, storms: bool) -> Limited:
    """every  mean seconds of the run between single faults
    storms  whether zones fail too: each holds its repairs for ten real minutes
    """
    share = max(0.6, 300 / nodes)
    storm = lasts * speed / 3 if storms else NEVER * speed
    pace = FaultPace(
        every=every * speed / share,
        storm=storm,
        storms=NEVER * speed,
        lasts=240,
        spread=60,
        share=0.45,
    )
    return Limited("chaos", "faults of every sort", nodes, speed, pace, MIX, lasts=lasts)


def policy(speed: float, nodes: int) -> DefenderPolicy:
    """The one that ships, faster, and for nodes that are struck again and again."""
    body = scaled(default_policy(), speed).to_dict()
    spec = body["spec"]
    spec["perNode"]["maxActs"] = ACTS
    for limit, most in zip(spec["limits"], AT_ONCE, strict=True):
        if most is not None:
            limit["maxConcurrent"] = most * max(1, nodes // 100)
        if "rate" in limit:
            limit["rate"]["count"] *= max(1, nodes // RATED)
            limit["rate"]["burst"] *= max(1, nodes // RATED)
    spec["breaker"]["trip"]["newFaultsPer10m"] = NEW if nodes >= RATED else "100%"
    spec["breaker"]["trip"]["escalations"]["count"] = ACTS
    return DefenderPolicy.from_user({"metadata": body["metadata"], "spec": spec})


def rules(speed: float) -> list[NodeRemedier]:
    """All of the library that a job can carry out, for faults that come in turn."""
    return [scaled(_strange(rule), speed) for rule in library() if not unable(rule.spec)]


def _strange(rule: NodeRemedier) -> NodeRemedier:
    spec = rule.spec
    changes = {
        "relapse": spec.relapse.model_copy(update={"within": min(spec.relapse.within, STRANGERS)}),
        "attempts": spec.attempts.model_copy(
            update={"within": min(spec.attempts.within, STRANGERS)}
        ),
    }
    return rule.model_copy(update={"spec": spec.model_copy(update=changes)})


class Fleet(DemoWorld):
    """A World with an observer of its own.

    pace  how fast Kube Defender does what its policy does not say
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
        pace: float = 1.0,
    ) -> None:
        super().__init__(
            kube,
            eyes,
            scenario=scenario,
            nodes=nodes,
            seed=seed,
            speed=speed,
            policy=policy,
            clock=clock,
            news=news,
        )
        self.observer = RestorableObserver(policy, self.ledger, pace)
        self.watching: RestorableWatching = RestorableWatching(
            eyes, self.observer, self.ledger, clock, self._handle_job
        )
        for index, host in enumerate(self.hosts.values()):
            host.clock_ahead = CLOCKS.get(index % CLOCKS_EVERY, timedelta(0))
        self.host_acted_too: Callable[[HostAct], None] = lambda act: None
        self.kubelets.lease_every, self.kubelets.grace = LEASE_EVERY, GRACE
        self.detectors.heartbeat = LONGEST / speed

    def _host_acted(self, act: HostAct) -> None:
        super()._host_acted(act)
        self.host_acted_too(act)

    async def register_again(self, name: str) -> None:
        """Register a node whose Node object was deleted, as a kubelet that is restarted does."""
        host = self.hosts[name]
        with suppress(AlreadyExists):
            await self._kube.create(paths.nodes(), self._node_body(host))
        await self.kubelets.report(host)
        await self.detectors.beat(host)
        self.detectors.schedule_checks(host)

    async def tell_again(self) -> None:
        """Kubelets and controllers write what a server that was put back has lost: kubelets look
        at their Node every ten seconds. Detectors only repeat themselves at their next heartbeat.
        """
        for name in self.hosts.keys() - self.observer.nodes.keys():
            await self.register_again(name)
        self.kubelets.tell_again(LEASE_EVERY)
        self.workloads.recount()
        self._blocked = False

    def _node_body(self, host: DemoHost) -> dict[str, Any]:
        return node_object(host.place, self._clock.now() + host.clock_ahead)

    def ground(self) -> list[Part]:
        """All but the observer, who looks once the product runs: its processes start for longer
        than a breaker may be late.
        """
        return [self.pods, self.nodes, self.agenda, self.routine, self.kubelets, self.workloads]

    def sight(self) -> list[Part]:
        return [self.watching, *self.watching.parts()]

    async def seen(self) -> None:
        """Until the observer knows all nodes, and all of them are well."""
        await until(self._all_well, READY_SECONDS, "all nodes are seen, and Ready")

    def _all_well(self) -> bool:
        nodes = self.observer.nodes
        return len(nodes) == len(self.hosts) and all(node.ready for node in nodes.values())


class Switched(Fleet):
    """A Fleet whose machines the provider `local` switches."""

    def _node_body(self, host: DemoHost) -> dict[str, Any]:
        body = super()._node_body(host)
        body["spec"]["providerID"] = provider_id(host.place.zone, host.name)
        return body

    async def _node(self, host: DemoHost) -> None:
        await self._kube.create(paths.nodes(), self._node_body(host))
        await self.kubelets.register(host)
        await self.detectors.start(host)
