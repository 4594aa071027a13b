"""Host Doctor running beside a test, without the rest of the remedy operator."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry
from support.audit_lines import Kept
from support.running import running, until

from kubenode.api.v1alpha1.hostevent import HostEvent
from kubenode.runtime.clock import Clock, SystemClock
from kubenode.runtime.controller.controller import Controller
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs
from kubenode.runtime.process import serve
from remedy.hostdoctor.desk import HostEventService
from remedy.hostdoctor.gate import DeliveryAuthenticatorSettings
from remedy.hostdoctor.metrics import HostDoctorMetrics
from remedy.hostdoctor.server import HostDoctorListener, HostDoctorServer, HostDoctorSettings
from remedy.hostdoctor.sweep import Sweep

EVENTS = paths.custom("hostevents")
TOKEN = "a-token-of-the-tests-0123456789"


class LaterClock(SystemClock):
    """Whose wall clock is ahead."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead


@dataclass
class Doctor:
    """One replica."""

    desk: HostEventService
    server: HostDoctorServer
    registry: CollectorRegistry
    sweep: Sweep
    nodes: Informer[Node]
    events: Informer[HostEvent]
    audit: Kept = field(default_factory=Kept)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    async def post(
        self, path: str, body: Any, token: str = TOKEN, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any], Mapping[str, str]]:
        """Status, JSON and headers of the answer."""
        given = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        async with aiohttp.ClientSession() as session:
            sent = {"data": body} if isinstance(body, bytes) else {"json": body}
            async with session.post(f"{self.url}{path}", headers=given, **sent) as answer:
                return answer.status, await answer.json(), answer.headers

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def doctoring(
    kube: Kube,
    folder: Path,
    *,
    clock: Clock | None = None,
    settings: HostDoctorSettings | None = None,
    leader: bool = True,
) -> AsyncIterator[Doctor]:
    """Plain HTTP on a free port and TOKEN, unless `settings` say otherwise."""
    clock, registry, audit = clock or SystemClock(), CollectorRegistry(), Kept()
    nodes: Informer[Node] = Informer(kube, paths.nodes(), structs(Node), clock=clock)
    events: Informer[HostEvent] = Informer(kube, EVENTS, HostEvent.from_server, clock=clock)
    metrics = HostDoctorMetrics(registry)
    desk = HostEventService(kube, nodes, events, clock, metrics)
    sweep = Sweep(desk, clock, AlwaysLeader())
    swept = Controller("host-events", sweep.reconcile, clock=clock)
    swept.watch(events)
    sweep.attach(swept.queue)
    if settings is None:
        file = folder / "tokens"
        file.write_text(f"{TOKEN}\n")
        settings = HostDoctorSettings(0, tls=False, gate=DeliveryAuthenticatorSettings((file,)))
    host_doctor = HostDoctorListener(desk, kube, clock, metrics, settings, audit)
    led = [swept] if leader else []
    server = host_doctor.server
    async with running(serve([*host_doctor.parts, *led], [nodes, events])):
        await until(lambda: server.listening.is_set() and desk.ready, 60, "Host Doctor listens")
        yield Doctor(desk, server, registry, sweep, nodes, events, audit)


async def make_node(kube: Kube, name: str, address: str = "", provider: str = "") -> None:
    spec = {"providerID": provider} if provider else {}
    await kube.create(paths.nodes(), {"metadata": {"name": name}, "spec": spec})
    if address:
        addresses = [{"type": "InternalIP", "address": address}]
        patch = {"status": {"addresses": addresses}}
        await kube.patch(paths.node(name, "status"), patch, STRATEGIC_PATCH)


async def stored(kube: Kube) -> list[HostEvent]:
    found = await kube.get(EVENTS)
    return [HostEvent.model_validate(each, extra="ignore") for each in found["items"]]


async def forget(kube: Kube) -> None:
    for path in (EVENTS, paths.nodes()):
        try:
            await kube.call("DELETE", path)
        except NotFound:
            continue
