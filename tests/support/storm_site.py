"""Kube Defender, and the remedy operator where needed, on an embedded API server of their own."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from prometheus_client import CollectorRegistry
from support.embedded import EmbeddedPlane
from support.remedy_cluster import Cluster
from support.running import running, until

from defender.service import Defender, DefenderSettings
from kubenode.api.v1alpha1 import GROUP, KINDS, DefenderPolicy
from kubenode.cli.cluster import crds
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.process import serve
from remedy.operator import RemedyOperator
from rules.diagnose import Diagnoser
from simulation.demo.server import hook

PERMITS = paths.custom("permits")
POLICIES = paths.custom("defenderpolicies")
ZONE = "topology.kubernetes.io/zone"


class Quick(Informer[Any]):
    """Notices within seconds, not within a minute, that nobody answers."""

    def __init__(self, *what: Any, **options: Any) -> None:
        super().__init__(*what, **options, watch_seconds=2.0, grace=0.5, backoff=(0.05, 0.5))

    def fresh(self, limit: float = 4.0) -> bool:
        return super().fresh(limit)


@contextmanager
def plane() -> Iterator[EmbeddedPlane]:
    hooks = {f"{kind.resource.plural}.{GROUP}": hook(kind) for kind in KINDS}
    with EmbeddedPlane(crds=crds(), admission=hooks) as found:
        yield found


def client(url: str) -> Kube:
    return Kube(PlainTransport(url), rate=2000, burst=4000)


@asynccontextmanager
async def site(plane: EmbeddedPlane) -> AsyncIterator[Cluster]:
    """An empty cluster, and a client of it for the test's own hand."""
    kube = client(plane.server)
    cluster = Cluster(kube)
    try:
        await empty(cluster)
        yield cluster
        await empty(cluster)
    finally:
        await kube.close()


async def empty(cluster: Cluster) -> None:
    await cluster.clean()
    for collection in (PERMITS, POLICIES):
        await cluster.kube.call("DELETE", collection)


async def policy(cluster: Cluster, **spec: Any) -> None:
    """The policy `default`, for all nodes, from YAML-like fields."""
    body = {"metadata": {"name": "default"}, "spec": {"nodes": {"all": True}} | spec}
    await cluster.kube.create(POLICIES, DefenderPolicy.from_user(body).to_dict())


async def zones(cluster: Cluster, each: int, names: Iterable[str] = "abc") -> list[str]:
    """`each` Ready nodes in every zone: a0, a1, ... b0, ..."""
    made = [(f"{zone}{i}", zone) for zone in names for i in range(each)]
    for name, zone in made:
        await cluster.node(name, labels={ZONE: zone})
    return [name for name, _ in made]


async def open_permits(cluster: Cluster) -> set[str]:
    """Names of the permits on record that were not given back."""
    found = (await cluster.kube.get(PERMITS))["items"]
    over = ("Released", "Revoked")
    return {p["metadata"]["name"] for p in found if p.get("status", {}).get("state") not in over}


def sees(defender: Defender) -> bool:
    """Also the pending pods, without which nothing that moves pods is allowed."""
    return not defender.ready() and defender.control.displaced is not None


@asynccontextmanager
async def defending(kube: Kube, nodes: int, **settings: Any) -> AsyncIterator[Defender]:
    """Until the end of the block; ready, and all `nodes` seen, when it begins."""
    given = DefenderSettings(**({"round": 0.2} | settings))
    defender = Defender(
        kube, AlwaysLeader(), SystemClock(), CollectorRegistry(), given, informer=Quick
    )
    async with running(serve(defender.parts, defender.ground)):
        await until(lambda: sees(defender), 60, "Kube Defender is ready")
        await until(lambda: len(defender.census) == nodes, 60, "all nodes are seen")
        yield defender


@asynccontextmanager
async def remedying(
    kube: Kube, defender: Defender, diagnoser: Diagnoser
) -> AsyncIterator[RemedyOperator]:
    """The remedy operator, asking this Kube Defender, until the end of the block."""
    operator = RemedyOperator(
        kube, defender, diagnoser, AlwaysLeader(), SystemClock(), CollectorRegistry()
    )
    try:
        async with running(serve(operator.parts, operator.ground)):
            await until(operator.ready, 60, "the operator is ready")
            yield operator
    finally:
        operator.close()
