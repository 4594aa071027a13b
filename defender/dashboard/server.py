"""Build the dashboard, with its own server for people."""

from dataclasses import dataclass

from starlette.applications import Starlette

from defender.dashboard.acts import OperatorActions, audit
from defender.dashboard.app import Site
from defender.dashboard.leases import LeaseReader
from defender.dashboard.machine import RolloutMachine
from defender.dashboard.machine_set import MachineSetView
from defender.dashboard.posts import FormHandlers
from defender.dashboard.recorder import UsageRecorder
from defender.dashboard.render import Renderer
from defender.dashboard.rights import rights_of
from defender.dashboard.rollout import SetRollout
from defender.dashboard.scene import SceneBuilder
from defender.service import Defender
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.configmaps import ConfigMapStore
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import structs
from kubenode.runtime.process import Part
from kubenode.runtime.site.attempts import LoginAttempts
from kubenode.runtime.site.entrance import Entrance
from kubenode.runtime.site.live import Hub
from kubenode.runtime.site.people import IdentityProvider, Writers
from kubenode.runtime.site.seals import seal_from
from kubenode.runtime.site.server import SiteServer, SiteSettings
from kubenode.runtime.site.signouts import NAME, SignOuts
from kubenode.runtime.site.visitors import VisitorAuthenticator


@dataclass(frozen=True, slots=True)
class DashboardSettings(SiteSettings):
    """Settings of the dashboard.

    insight_url: address of Insight that pages of jobs link to, "" for none.
    leases: whether programs and agents hold Leases, which those of a simulation do not.
    """

    leases: bool = True
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
        doors = VisitorAuthenticator(gate, seal, clock, proxy, self.sign_outs, rights_of, link)
        acts = OperatorActions(writers, clock)
        site = Site(self.board, self.hub, doors, renderer, kube, acts)
        entrance, desk = Entrance(site, LoginAttempts(), audit), FormHandlers(site, acts, clock)
        self.app: Starlette = site.app([*entrance.routes(), *desk.routes()])
        self.server = SiteServer(self.app, self.settings, self.hub.close)

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
        return self.settings.build_url(self.server.port)
