"""The pages: their names, live parts, and the parameters of their addresses."""

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment

from captain.site.rights import CaptainRights
from captain.site.scene import CaptainScene
from captain.site.views.cluster import view_cluster
from captain.site.views.clusters import FILTERS, SHOWS, SORTS, view_clusters
from captain.site.views.freshness import list_doubts
from captain.site.views.release import view_release
from captain.site.views.releases import view_releases
from kubenode.runtime.clock import Clock
from kubenode.runtime.site.environment import site_environment
from kubenode.runtime.site.live import Hub, LiveSource
from kubenode.runtime.site.live_site import LiveSite, Params, SitePage
from kubenode.runtime.site.parts import PagePart, PartRenderer, View
from kubenode.runtime.site.visitors import VisitorAuthenticator

PAGES: tuple[SitePage[CaptainScene], ...] = (
    SitePage("clusters", "Clusters", "/", view_clusters, FILTERS, place="clusters"),
    SitePage("cluster", "Cluster", "/clusters/{name}", view_cluster, place="clusters"),
    SitePage("releases", "Releases", "/releases", view_releases, place="releases"),
    SitePage("release", "Release", "/releases/{name}", view_release, place="releases"),
)
CHOICES: Mapping[str, Mapping[str, Any]] = {"clusters": {"shows": SHOWS, "sorts": SORTS}}


class CaptainRenderer:
    """Renders view models as HTML. A model names its own template."""

    def __init__(self) -> None:
        self._environment: Environment = site_environment("captain.site")

    def part(self, model: PagePart, root: str) -> str:
        return self._environment.get_template(model.template).render(it=model, root=root).strip()

    def page(self, template: str, **given: object) -> str:
        return self._environment.get_template(template).render(**given)


class CaptainPages(LiveSite[CaptainScene, CaptainRights]):
    """Captain's pages, which read only."""

    def __init__(
        self,
        board: LiveSource[CaptainScene],
        hub: Hub[CaptainScene],
        doors: VisitorAuthenticator[CaptainRights],
        renderer: PartRenderer,
        clock: Clock,
    ) -> None:
        super().__init__(
            board,
            hub,
            doors,
            renderer,
            clock,
            pages=PAGES,
            program="Captain",
            reading="get memberclusters and releases",
        )

    def doubts(self, scene: CaptainScene) -> View:
        return {"freshness": list(list_doubts(scene))}

    async def extra(self, page: SitePage[CaptainScene], params: Params) -> dict[str, Any]:
        return dict(CHOICES.get(page.name, {}))
