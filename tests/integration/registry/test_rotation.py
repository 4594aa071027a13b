"""Certificates that live for seconds, rotated under a stream of writes: no write is lost.

failurePolicy is Fail: a call of the webhook that fails for any cause fails the write.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry
from support.registry_plane import RegistryPlane
from support.remedy_cluster import RULES, Cluster, operating
from support.remedy_engine import a_diagnoser
from support.running import running, until
from support.webhook_world import a_spec

from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.official import connect
from kubenode.runtime.process import serve
from kubenode.runtime.tls.certificates import split
from kubenode.runtime.tls.rotation import CertificateLifetimes
from remedy.webhook.webhook import RuleWebhook, RuleWebhookSettings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

LIVES = CertificateLifetimes(
    authority=timedelta(seconds=24), serving=timedelta(seconds=8), settle=timedelta(seconds=3)
)


@asynccontextmanager
async def a_replica(plane: RegistryPlane) -> AsyncIterator[tuple[Kube, RuleWebhook]]:
    """An operator with its webhook in this process, under the chart's rights."""
    kube = Kube(connect(str(plane.kubeconfig)))
    clock, registry = SystemClock(), CollectorRegistry()
    operator = Cluster(kube).operator(a_diagnoser())
    settings = RuleWebhookSettings(plane.port, hosts=("127.0.0.1",), lives=LIVES)
    webhook = RuleWebhook(operator, kube, clock, registry, settings)
    try:
        async with operating(operator), running(serve(webhook.parts)):
            await until(webhook.server.listening.is_set, 60, "the webhook listens")
            yield kube, webhook
    finally:
        webhook.close()
        await kube.close()


async def test_rotation_while_rules_are_written_loses_no_request(plane: RegistryPlane) -> None:
    await asyncio.to_thread(plane.hook, "Fail")
    person = Kube(connect(str(plane.cp.kubeconfig)))
    served: set[bytes] = set()
    trusted: set[bytes] = set()
    writes, errors, bundle = 0, [], b""
    async with a_replica(plane):
        await _trusted(person)
        ends = asyncio.get_running_loop().time() + 100
        while len(served) < 5 or len(trusted) < 3 or writes < 200:
            assert asyncio.get_running_loop().time() < ends, (len(served), len(trusted), writes)
            writes += 1
            spec = a_spec(mode="DryRun", priority=writes % 1000)
            try:
                await person.patch(f"{RULES}/rotated", {"spec": spec})
            except KubeError as error:
                errors.append(str(error))
            if writes % 25 == 1:
                bundle = await asyncio.to_thread(plane.bundle)
                trusted |= set(split(bundle))
            served.add(await _handshake(plane.port, bundle))
        await person.delete(f"{RULES}/rotated")
    await person.close()
    await asyncio.to_thread(plane.unhook)
    assert errors == []


async def _handshake(port: int, bundle: bytes) -> bytes:
    """The certificate that a new caller meets, who trusts what was published a moment ago.

    The API server keeps its connections for long, and would meet few of the certificates.
    """
    tls = ssl.create_default_context(cadata=bundle.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    try:
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return found
    finally:
        writer.close()


async def _trusted(person: Kube) -> None:
    """Create the rule as soon as the API server has heard of our first authority."""
    body = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "NodeRemedier",
        "metadata": {"name": "rotated"},
        "spec": a_spec(mode="DryRun"),
    }
    for _ in range(300):
        try:
            await person.create(RULES, body)
            return
        except KubeError as error:
            assert "webhook" in str(error), error
            await asyncio.sleep(0.1)
    raise AssertionError("the API server never trusted the webhook")
