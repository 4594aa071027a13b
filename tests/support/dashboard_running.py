"""A running Kube Defender with its dashboard, over the embedded API server, in the test's loop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry
from support.remedy_hand import NOWHERE
from support.running import running, until

from defender.dashboard.server import Dashboard, DashboardSettings
from defender.server.auth.gate import open_gate
from defender.service import Defender, DefenderSettings
from kubenode.cli.cluster import crds
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.identity import Identity
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.process import serve
from kubenode.runtime.site.people import IdentityProvider, Writers
from simulation.apiserver import EmbeddedApiServer

LINK = "let-me-in"
QUICK = DefenderSettings(round=0.2)


class KnownPeople:
    """A Gate for tests of pages: tokens by name, and who may do what."""

    def __init__(self, tokens: dict[str, str], may: dict[str, set[tuple[str, str]]]) -> None:
        self.tokens, self.rights = tokens, may

    async def identify(self, token: str) -> Identity | None:
        name = self.tokens.get(token)
        return Identity(name) if name else None

    async def may(self, who: Identity, verb: str, resource: str, name: str = "") -> bool:
        return (verb, resource) in self.rights.get(who.name, set())


READS = ("get", "defenderpolicies")
PAUSES = ("patch", "defenderpolicies")
DECIDES = ("patch", "remedyoperationjobs")
ROLLS = ("patch", "machinecomponentsets")


@dataclass
class Running:
    """`kube` is whoever else writes; `url` has no link."""

    kube: Kube
    defender: Defender
    dashboard: Dashboard
    api: EmbeddedApiServer | None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.dashboard.server.port}"

    @property
    def way_in(self) -> str:
        return f"{self.url}/login?link={LINK}"


@asynccontextmanager
async def api_server() -> AsyncIterator[tuple[EmbeddedApiServer, Kube]]:
    """Empty but for our kinds."""
    api = EmbeddedApiServer(crds=crds())
    await api.start()
    kube = Kube(PlainTransport(api.url), rate=100_000, burst=100_000)
    try:
        yield api, kube
    finally:
        await kube.close()
        await api.stop()


@asynccontextmanager
async def dashboard_over(
    api: EmbeddedApiServer | None,
    kube: Kube,
    gate: IdentityProvider | None = None,
    writers: Writers | None = None,
    **settings: Any,
) -> AsyncIterator[Running]:
    """It answers when this yields, and everything has been read. `api` is for `writers` alone."""
    clock = SystemClock()
    defender = Defender(kube, AlwaysLeader(), clock, CollectorRegistry(), QUICK)
    given: dict[str, Any] = {"link": LINK, "leases": False} | settings
    chosen = DashboardSettings(**given)
    dashboard = Dashboard(
        defender,
        kube,
        clock,
        gate or open_gate(clock),
        writers or Writers(kube, lambda token: PlainTransport(api.url) if api else NOWHERE),
        chosen,
    )
    parts, ground = [*defender.parts, dashboard.server], [*defender.ground, *dashboard.ground]
    async with running(serve(parts, ground)):
        await until(dashboard.server.listening.is_set, 60, "the dashboard listens")
        await until(
            lambda: not defender.ready() and dashboard.board.scene().loaded, 30, "it is read"
        )
        yield Running(kube, defender, dashboard, api)
