"""A real Kube Defender, and Remedy operator, on a real API server.

Each runs under exactly its rights in charts/kubenode: what it lacks fails a test.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from prometheus_client import CollectorRegistry
from support.control_plane import ControlPlane
from support.machine_world import CHARTS, until
from support.remedy_cluster import Cluster, kubelets, operating
from support.remedy_engine import two_engines
from support.running import running as in_background

from defender.service import Defender, DefenderSettings
from kubenode.api.v1alpha1 import DefenderPolicy
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.official import connect
from kubenode.runtime.kube.paths import custom
from kubenode.runtime.process import serve
from remedy.operator import RemedyOperator

REMEDY = "system:serviceaccount:kubenode-system:kubenode-remedy"
DEFENDER = "system:serviceaccount:kubenode-system:kubenode-defender"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kubenode-system")
POLICIES, PERMITS = custom("defenderpolicies"), custom("permits")
SETTINGS = DefenderSettings(
    life=timedelta(seconds=90), requeue_after=timedelta(milliseconds=200), round=0.2
)


async def rule_by(kube: Kube, policy: DefenderPolicy) -> None:
    """Instead of a policy of this name that an earlier test on the same server has left; permits
    of that time count no more.
    """
    for permit in (await kube.get(PERMITS))["items"]:
        with suppress(NotFound):
            await kube.delete(f"{PERMITS}/{permit['metadata']['name']}")
    with suppress(NotFound):
        await kube.delete(f"{POLICIES}/{policy.metadata.name}")
    await kube.create(POLICIES, policy.to_dict())


@asynccontextmanager
async def defending(
    plane: ControlPlane, cluster: Cluster, policy: DefenderPolicy, nodes: Sequence[str] = ()
) -> AsyncIterator[Defender]:
    """Ready, with these nodes, which are made and live until the end of the block."""
    plane.kubectl("apply", "-f", CHARTS / "defender" / "rbac.yaml")
    await rule_by(cluster.kube, policy)
    for name in nodes:
        await cluster.node(name)
    kube = Kube(connect(str(plane.kubeconfig_for(DEFENDER, GROUPS))))
    defender = Defender(kube, AlwaysLeader(), SystemClock(), CollectorRegistry(), SETTINGS)

    async def seen() -> bool:
        counted = defender.control.displaced is not None and len(defender.census) >= len(nodes)
        return counted and not defender.ready()

    try:
        async with (
            in_background(kubelets(cluster, nodes)),
            in_background(serve(defender.parts, defender.ground)),
        ):
            await until(seen, "Kube Defender is ready and has seen all nodes and pods")
            yield defender
    finally:
        await kube.close()
        await cluster.kube.delete(f"{POLICIES}/{policy.metadata.name}")


@asynccontextmanager
async def repairing(plane: ControlPlane, defender: Defender) -> AsyncIterator[RemedyOperator]:
    """The Remedy operator under this Kube Defender, with both engines."""
    plane.kubectl("apply", "-f", CHARTS / "remedy" / "rbac.yaml")
    kube = Kube(connect(str(plane.kubeconfig_for(REMEDY, GROUPS))))
    operator = RemedyOperator(
        kube, defender, two_engines(), AlwaysLeader(), SystemClock(), CollectorRegistry()
    )
    try:
        async with operating(operator):
            yield operator
    finally:
        await kube.close()
