"""The pages of the dashboard, and the search of nodes. Posts are in `posts`."""

from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route

from defender.dashboard.acts import OperatorActions
from defender.dashboard.extras import extra
from defender.dashboard.pages import PAGES
from defender.dashboard.rights import Rights
from defender.dashboard.scene import Scene, SceneBuilder
from defender.dashboard.views.freshness import freshness
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.site.browser import root
from kubenode.runtime.site.live import Hub
from kubenode.runtime.site.live_site import LiveSite, Params, SitePage
from kubenode.runtime.site.parts import PartRenderer, View
from kubenode.runtime.site.visitors import Visit, VisitorAuthenticator


class Site(LiveSite[Scene, Rights]):
    """Dependencies of all endpoints."""

    def __init__(
        self,
        board: SceneBuilder,
        hub: Hub[Scene],
        doors: VisitorAuthenticator[Rights],
        renderer: PartRenderer,
        kube: Kube,
        acts: OperatorActions,
    ) -> None:
        super().__init__(
            board,
            hub,
            doors,
            renderer,
            board.clock,
            pages=PAGES,
            program="Kube Defender",
            reading="get defenderpolicies",
        )
        self.scenes, self.kube, self.acts = board, kube, acts

    def routes(self) -> list[Route | Mount]:
        return [Route("/find", self.known(self.find)), *super().routes()]

    def view(self, page: SitePage[Scene], scene: Scene, params: Params) -> View | None:
        view = super().view(page, scene, params)
        if view is not None and page.name == "pauses":
            return {**view, "acts": list(self.acts.past())}
        return view

    def doubts(self, scene: Scene) -> View:
        return {"freshness": freshness(scene)}

    async def extra(self, page: SitePage[Scene], params: Params) -> dict[str, Any]:
        return await extra(page.name, self.scenes, self.kube, params)

    async def find(self, request: Request, visit: Visit[Rights]) -> Response:
        """Redirect to the node if only one matches, else to the list of matches."""
        text = request.query_params.get("q", "").strip()[:253]
        names = list(self.scenes.scene().fleet.names())
        matches = [text] if text in names else [name for name in names if text and text in name]
        if len(matches) == 1:
            return RedirectResponse(f"{root(request)}/nodes/{quote(matches[0])}", 303)
        return RedirectResponse(f"{root(request)}/nodes?{urlencode({'q': text})}", 303)
