"""All of KubeNode for the demo, as `kubenode run all` runs it, with an agent for each host.

Nothing here is simulated. The programs' own durations, such as the life of a permit or the time
until a requeue, are divided by the speed, like those of the rules and the policy.
"""

import contextlib
import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from prometheus_client import CollectorRegistry

from defender.dashboard.server import Dashboard, DashboardSettings
from defender.server.auth.gate import RequestAuthenticator, RequestAuthenticatorSettings
from defender.service import Defender, DefenderSettings
from kubenode.api.v1alpha1 import Permit
from kubenode.cli.engine import engines
from kubenode.cli.stream import StreamParts
from kubenode.providers.registry import Providers
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.informers import Informers
from kubenode.runtime.process import Part
from kubenode.runtime.site.people import Writers
from kubenode.runtime.stream.derivation import StreamIdentity
from kubenode.runtime.stream.exporter import StreamExporter
from machine.operator import MachineOperator
from remedy.operator import RemedyOperator
from simulation.demo.agents import Agents
from simulation.demo.history import CLUSTER
from simulation.demo.hosts import DemoHost
from simulation.demo.insight import DemoInsight
from simulation.demo.power import Machines
from simulation.demo.rollout import PACE
from simulation.hosts.components import SimulatedComponents

PERMIT_LIFE = timedelta(minutes=6)
"""At any speed a permit must outlast the minute that the remedy operator allows for one act, and
the five minutes before its end in which it is renewed. A shorter one would be renewed in every
reconcile.
"""


@dataclass(frozen=True, slots=True)
class Controllers:
    """The parts of KubeNode.

    parts: decide and act.
    ground: only follow the API server.
    dashboard: one of the parts; everybody who has its address may do everything in it.
    """

    parts: list[Part]
    ground: list[Part]
    defender: Defender
    dashboard: Dashboard
    insight: DemoInsight | None = None


@contextlib.contextmanager
def controllers(
    central: Kube,
    agents: Kube,
    hosts: dict[str, DemoHost],
    machines: Machines,
    software: dict[str, SimulatedComponents],
    clock: Clock,
    speed: float,
    seed: int,
    insight: DemoInsight | None = None,
) -> Iterator[Controllers]:
    """Yield the parts of KubeNode.

    central: the client of the operators.
    agents: the client of all agents.
    machines: the provider that runs the hosts' machines.
    software: component ports by node, in a scenario in which nodes are Machines; else empty.
    insight: receiver of the stream, None for none.
    """
    registry = CollectorRegistry()
    fence = AlwaysLeader()
    settings = defender_settings(speed)
    if software:  # a rollout requests permits at its own pace
        settings = replace(settings, requeue_after=DefenderSettings().requeue_after / PACE)
    shared = Informers()
    defender = Defender(central, fence, clock, registry, settings, informer=shared)
    dashboard = dashboard_of(defender, central, clock, insight.url if insight else "")
    rng = random.Random(seed)
    fleet = Agents(agents, hosts.values(), software, clock, speed, rng)
    machine = (
        MachineOperator(central, fence, clock, registry, permits=defender, informer=shared)
        if software
        else None
    )
    with engines() as diagnoser:
        remedy = RemedyOperator(
            central,
            defender,
            diagnoser,
            fence,
            clock,
            registry,
            informer=shared,
            providers=Providers([machines]),
        )
        stream = stream_to(insight, remedy, shared, central, clock, registry)
        try:
            yield Controllers(
                parts=[
                    *defender.parts,
                    *remedy.parts,
                    *stream.parts,
                    *(machine.parts if machine is not None else ()),
                    fleet,
                ],
                ground=[
                    central.delay,
                    *defender.ground,
                    *remedy.ground,
                    *(machine.ground if machine is not None else ()),
                    *stream.ground,
                    *dashboard.ground,
                    dashboard.server,
                ],
                defender=defender,
                dashboard=dashboard,
                insight=insight,
            )
        finally:
            remedy.close()


def stream_to(
    insight: DemoInsight | None,
    remedy: RemedyOperator,
    informers: Informers,
    kube: Kube,
    clock: Clock,
    registry: CollectorRegistry,
) -> StreamParts:
    """Return the parts that send the stream to Insight, and Insight; none without it."""
    if insight is None:
        return StreamParts()
    permits: Informer[Permit] = informers(
        kube, paths.custom("permits"), Permit.from_server, clock=clock, name="permits of the stream"
    )
    jobs, nodes = remedy.informers.jobs, remedy.informers.nodes
    identity = StreamIdentity(CLUSTER)
    exporter = StreamExporter(jobs, permits, nodes, insight, identity, clock, registry)
    return StreamParts((exporter,), (permits, insight))


def dashboard_of(defender: Defender, kube: Kube, clock: Clock, insight_url: str) -> Dashboard:
    """Return a dashboard on a free port of loopback.

    The embedded API server knows no tokens, so a link with a secret gives access.
    """
    link = DashboardSettings(link=secrets.token_urlsafe(18), leases=False, insight_url=insight_url)
    return Dashboard(
        defender,
        kube,
        clock,
        RequestAuthenticator(None, clock, RequestAuthenticatorSettings()),
        Writers(kube),
        link,
    )


def defender_settings(speed: float) -> DefenderSettings:
    plain = DefenderSettings()
    return DefenderSettings(
        life=max(PERMIT_LIFE, plain.life / speed),
        requeue_after=plain.requeue_after / speed,
        grace=plain.grace / speed,
        round=max(0.5, plain.round / speed),
        pace=plain.pace.faster(speed),
    )
