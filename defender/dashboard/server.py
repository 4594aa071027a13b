"""Build the dashboard, with its own server for people."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette

from defender.dashboard.acts import OperatorActions
from defender.dashboard.app import Site
from defender.dashboard.doors import VisitorAuthenticator
from defender.dashboard.leases import LeaseReader
from defender.dashboard.live import Hub
from defender.dashboard.machine import RolloutMachine
from defender.dashboard.machine_set import MachineSetView
from defender.dashboard.people import IdentityProvider, Proxy, Writers
from defender.dashboard.posts import Entrance, FormHandlers
from defender.dashboard.recorder import UsageRecorder
from defender.dashboard.render import Renderer
from defender.dashboard.rollout import SetRollout
from defender.dashboard.scene import SceneBuilder
from defender.service import Defender
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.configmaps import NAMESPACE, ConfigMapStore
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import structs
from kubenode.runtime.process import Part
from kubenode.runtime.serverlimits import DEFAULT, HttpLimits
from kubenode.runtime.site.attempts import LoginAttempts
from kubenode.runtime.site.seals import seal_from
from kubenode.runtime.site.signouts import NAME, SignOuts
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.webserver import WebServer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """Settings of the dashboard.

    address, port: where people reach it. Port 0 takes a free one.
    key_file: file with the key of cookies, shared by replicas. None: a key of this process.
    link: part of an address that gives its bearer all rights, "" for none.
    context: TLS context, None for plain HTTP.
    flag: name of the port in errors.
    namespace: namespace of the leaders' Leases, where replicas with a shared key exchange logouts.
    insight_url: address of Insight that pages of jobs link to, "" for none.
    leases: whether programs and agents hold Leases, which those of a simulation do not.
    """

    address: str = "127.0.0.1"
    port: int = 0
    key_file: str | Path | None = None
    proxy: Proxy = field(default_factory=Proxy)
    link: str = field(default="", repr=False)
    context: LiveContext | None = None
    flag: str = "--dashboard-port"
    namespace: str = NAMESPACE
    leases: bool = True
    limits: HttpLimits = DEFAULT
    insight_url: str = ""


class Dashboard:
    """The dashboard. `ground` and `server` are parts of the program that runs `defender`."""

    def __init__(
        self,
        defender: Defender,
        kube: Kube,
        clock: Clock,
        gate: IdentityProvider,
        writers: Writers,
        settings: DashboardSettings | None = None,
    ) -> None:
        self.settings = settings or DashboardSettings()
        self.rollouts: Informer[SetRollout] = defender.informer(
            kube,
            paths.custom("machinecomponentsets"),
            structs(SetRollout),
            clock=clock,
            name="rollouts of dashboard",
        )
        self.machines: Informer[RolloutMachine] = defender.informer(
            kube,
            paths.custom("machines"),
            structs(RolloutMachine),
            clock=clock,
            name="machines of dashboard",
        )
        self.machine_sets: Informer[MachineSetView] = defender.informer(
            kube,
            paths.custom("machinesets"),
            structs(MachineSetView),
            clock=clock,
            name="machine sets of dashboard",
        )
        self.board = SceneBuilder(defender, self.rollouts, self.machines, self.machine_sets, clock)
        if self.settings.leases:
            reader = LeaseReader(kube, clock, self.settings.namespace, self.board.touch)
            self.board.leases = reader
        renderer = Renderer(self.settings.insight_url)
        self.recorder = UsageRecorder(defender, self.board.usage, clock)
        self.hub = Hub(self.board, renderer, clock)
        seal = seal_from(self.settings.key_file)
        shared = ConfigMapStore(kube, NAME, self.settings.namespace)
        self.sign_outs = SignOuts(shared if self.settings.key_file else None, clock)
        proxy, link = self.settings.proxy, self.settings.link
        doors = VisitorAuthenticator(gate, seal, clock, proxy, self.sign_outs, link)
        acts = OperatorActions(writers, clock)
        site = Site(self.board, self.hub, doors, renderer, kube, acts)
        entrance, desk = Entrance(site, LoginAttempts()), FormHandlers(site, acts, clock)
        self.app: Starlette = site.app([*entrance.routes(), *desk.routes()])
        self.server = DashboardServer(self.app, self.settings, self.hub.close)

    @property
    def ground(self) -> list[Part]:
        """Parts that the dashboard needs, without a lease."""
        leases: list[Part] = [self.board.leases] if self.board.leases is not None else []
        sets = self.machine_sets
        return [
            self.rollouts,
            self.machines,
            sets,
            *leases,
            self.recorder,
            self.hub,
            self.sign_outs,
        ]

    @property
    def url(self) -> str:
        """Its address once `server.listening` is set, with the link if there is one."""
        address = self.settings.address
        host = f"[{address}]" if ":" in address else address
        link = f"login?link={self.settings.link}" if self.settings.link else ""
        scheme = "http" if self.settings.context is None else "https"
        return f"{scheme}://{host}:{self.server.port}/{link}"


class DashboardServer(WebServer):
    """A part. `context` None: plain HTTP, for loopback and behind a proxy with TLS."""

    name = "dashboard server"

    def __init__(
        self,
        app: Starlette,
        settings: DashboardSettings,
        leaving: Callable[[], None],
    ) -> None:
        self._how = "plain" if settings.context is None else "TLS"
        super().__init__(
            app,
            address=settings.address,
            port=settings.port,
            flag=settings.flag,
            context=settings.context,
            limits=settings.limits,
            leaving=leaving,
        )

    def announce(self) -> None:
        where = {"address": self.address, "port": self.port, "how": self._how}
        log.info("dashboard listens", extra=where)
