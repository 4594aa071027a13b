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

from defender.dashboard.people import Writers
from defender.dashboard.server import Dashboard, DashboardSettings
from defender.server.auth.gate import RequestAuthenticator, RequestAuthenticatorSettings
from defender.service import Defender, DefenderSettings
from kubenode.cli.engine import engines
from kubenode.providers.registry import Providers
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informers import Informers
from kubenode.runtime.process import Part
from machine.operator import MachineOperator
from remedy.operator import RemedyOperator
from simulation.demo.agents import Agents
from simulation.demo.hosts import DemoHost
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
) -> Iterator[Controllers]:
    """Yield the parts of KubeNode.

    central: the client of the operators.
    agents: the client of all agents.
    machines: the provider that runs the hosts' machines.
    software: component ports by node, in a scenario in which nodes are Machines; else empty.
    """
    registry = CollectorRegistry()
    fence = AlwaysLeader()
    settings = defender_settings(speed)
    if software:  # a rollout requests permits at its own pace
        settings = replace(settings, requeue_after=DefenderSettings().requeue_after / PACE)
    shared = Informers()
    defender = Defender(central, fence, clock, registry, settings, informer=shared)
    dashboard = dashboard_of(defender, central, clock)
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
        try:
            yield Controllers(
                parts=[
                    *defender.parts,
                    *remedy.parts,
                    *(machine.parts if machine is not None else ()),
                    fleet,
                ],
                ground=[
                    central.delay,
                    *defender.ground,
                    *remedy.ground,
                    *(machine.ground if machine is not None else ()),
                    *dashboard.ground,
                    dashboard.server,
                ],
                defender=defender,
                dashboard=dashboard,
            )
        finally:
            remedy.close()


def dashboard_of(defender: Defender, kube: Kube, clock: Clock) -> Dashboard:
    """Return a dashboard on a free port of loopback.

    The embedded API server knows no tokens, so a link with a secret gives access.
    """
    link = DashboardSettings(link=secrets.token_urlsafe(18))
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
