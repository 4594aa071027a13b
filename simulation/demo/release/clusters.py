"""The clusters of the scenario: an embedded API server each, and KubeNode in the members.

Captain reaches its members by TLS and a token, as in a real fleet.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from prometheus_client import CollectorRegistry

from captain.operator import Captain, CaptainSettings
from captain.releases.clusters import MANAGER
from defender.service import Defender
from kubenode.api.v1alpha1 import MemberCluster, default_policy
from kubenode.cli.engine import engines
from kubenode.cli.member_app import MEMBERS_NAMESPACE
from kubenode.cli.member_identity import (
    MemberEndpoint,
    build_kubeconfig,
    build_member,
    build_secret,
)
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import APPLY_PATCH, Kube
from kubenode.runtime.kube.informers import Informers
from kubenode.runtime.kube.official import connect
from kubenode.runtime.process import Part
from kubenode.runtime.tls.certificates import new_authority, new_serving
from remedy.operator import RemedyOperator
from simulation.apiserver.access import Tls
from simulation.demo.release.payload import OLD, RULE, build_rule
from simulation.demo.server import api_server

HOST = "127.0.0.1"
CERTIFICATE_LIFE = timedelta(days=7)
NAMESPACES = ("kubenode-system", "kubenode-agents")


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """An API server with our kinds.

    kube: client of the programs in the cluster.
    eyes: client of people and of the observer.
    """

    name: str
    kubeconfig: Path
    endpoint: MemberEndpoint
    token: str
    kube: Kube
    eyes: Kube


@dataclass(frozen=True, slots=True)
class DemoPrograms:
    """The parts of a program, and those that only follow the API server."""

    parts: list[Part]
    ground: list[Part]


async def make_certificate(folder: Path, clock: Clock) -> Tls:
    """Create an authority and a certificate for loopback."""
    now = clock.now()
    authority = new_authority(CERTIFICATE_LIFE, now)
    serving = new_serving(authority, [HOST], CERTIFICATE_LIFE, now)
    tls = Tls(folder / "server.pem", folder / "server.key", folder / "authority.pem")
    files = {
        tls.cert_file: serving.certificate,
        tls.key_file: serving.key,
        tls.ca_file: authority.certificate,
    }
    for path, content in files.items():
        await asyncio.to_thread(path.write_bytes, content)
    return tls


@contextlib.asynccontextmanager
async def run_cluster(
    name: str, folder: Path, tls: Tls, clock: Clock, port: int = 0
) -> AsyncIterator[DemoCluster]:
    """Run the API server of a cluster. Raises Refusal if `port` is not available."""
    token, kubeconfig = secrets.token_urlsafe(18), folder / f"{name}.yaml"
    async with api_server(port, tls=tls, tokens=(token,)) as server:
        await server.write_kubeconfig(kubeconfig)
        authority = await asyncio.to_thread(tls.ca_file.read_text)
        endpoint = MemberEndpoint(server.url, authority)
        clients = [Kube(connect(str(kubeconfig)), clock=clock) for _ in range(2)]
        try:
            yield DemoCluster(name, kubeconfig, endpoint, token, *clients)
        finally:
            for client in clients:
                await client.close()


@contextlib.contextmanager
def run_member_programs(member: DemoCluster, clock: Clock) -> Iterator[DemoPrograms]:
    """Yield Kube Defender and a Remedy operator with both rule engines."""
    registry, fence, shared = CollectorRegistry(), AlwaysLeader(), Informers()
    defender = Defender(member.kube, fence, clock, registry, informer=shared)
    with engines() as diagnoser:
        remedy = RemedyOperator(
            member.kube, defender, diagnoser, fence, clock, registry, informer=shared
        )
        try:
            yield DemoPrograms(
                [*defender.parts, *remedy.parts],
                [member.kube.delay, *defender.ground, *remedy.ground],
            )
        finally:
            remedy.close()


@contextlib.asynccontextmanager
async def run_captain(cluster: DemoCluster, clock: Clock) -> AsyncIterator[DemoPrograms]:
    """Yield Captain."""
    settings = CaptainSettings(MEMBERS_NAMESPACE)
    captain = Captain(cluster.kube, AlwaysLeader(), clock, CollectorRegistry(), settings)
    try:
        yield DemoPrograms(captain.parts, [cluster.kube.delay, *captain.ground])
    finally:
        await captain.close()


async def prepare_member(member: DemoCluster) -> None:
    """Create what stands in a member before the first release. An earlier one left the rule."""
    for name in NAMESPACES:
        await create_namespace(member.eyes, name)
    await member.eyes.create(paths.custom("defenderpolicies"), default_policy().to_dict())
    path = paths.custom("noderemediers", RULE)
    await member.eyes.patch(path, build_rule(OLD), APPLY_PATCH, query={"fieldManager": MANAGER})


async def create_namespace(kube: Kube, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await kube.create(paths.namespaces(), body)


async def import_member(captain: Kube, member: DemoCluster, stage: str) -> None:
    """Store what `kubenode member import` stores in Captain's cluster.

    The identity in the member is the token of its server, which knows no users.
    """
    kubeconfig = build_kubeconfig(member.name, member.endpoint, member.token)
    secret = build_secret(MEMBERS_NAMESPACE, member.name, kubeconfig)
    secrets_path = paths.resource("/api/v1", "secrets", namespace=MEMBERS_NAMESPACE)
    await captain.create(secrets_path, secret)
    body = build_member(member.name, {"stage": stage})
    await captain.create(paths.custom(MemberCluster.resource.plural), body)
