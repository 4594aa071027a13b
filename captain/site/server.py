"""Builds Captain's pages, with their own server for people."""

from starlette.applications import Starlette

from captain.site.acts import ReleaseActions, audit
from captain.site.pages import CaptainPages, CaptainRenderer
from captain.site.posts import ReleasePosts
from captain.site.rights import read_captain_rights
from captain.site.scene import CaptainScene
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.configmaps import ConfigMapStore
from kubenode.runtime.process import Part
from kubenode.runtime.site.attempts import LoginAttempts
from kubenode.runtime.site.entrance import Entrance
from kubenode.runtime.site.live import Hub, LiveSource
from kubenode.runtime.site.people import IdentityProvider, Writers
from kubenode.runtime.site.seals import seal_from
from kubenode.runtime.site.server import SiteServer, SiteSettings
from kubenode.runtime.site.signouts import SignOuts
from kubenode.runtime.site.visitors import SiteCookies, VisitorAuthenticator

COOKIES = SiteCookies("kubenode-captain", "kubenode-captain-told")
SIGN_OUTS = "kubenode-captain-signouts"


class CaptainSite:
    """Captain's pages. `ground` and `server` are parts of the program, on every replica."""

    def __init__(
        self,
        board: LiveSource[CaptainScene],
        kube: Kube,
        clock: Clock,
        gate: IdentityProvider,
        writers: Writers,
        settings: SiteSettings,
    ) -> None:
        self.settings, self.board = settings, board
        renderer = CaptainRenderer()
        self._hub = Hub(board, renderer, clock)
        shared = ConfigMapStore(kube, SIGN_OUTS, settings.namespace)
        self._sign_outs = SignOuts(shared if settings.key_file else None, clock)
        doors = VisitorAuthenticator(
            gate,
            seal_from(settings.key_file),
            clock,
            settings.proxy,
            self._sign_outs,
            read_captain_rights,
            settings.link,
            COOKIES,
        )
        pages = CaptainPages(board, self._hub, doors, renderer, clock)
        entrance = Entrance(pages, LoginAttempts(), audit)
        posts = ReleasePosts(pages, ReleaseActions(writers, clock))
        self.app: Starlette = pages.app([*entrance.routes(), *posts.routes()])
        self.server = SiteServer(self.app, settings, self._hub.close)

    @property
    def parts(self) -> list[Part]:
        return [self._hub, self._sign_outs, self.server]

    @property
    def url(self) -> str:
        """Its address once `server.listening` is set, with the link if there is one."""
        return self.settings.build_url(self.server.port)
