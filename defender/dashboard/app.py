"""The dashboard as a Starlette application that can be mounted anywhere: pages, streams and assets.

Unknown callers are sent to the login page. Known ones without the right to read are told which
right is missing. Posts are in `posts`.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlencode

from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from defender.dashboard.acts import OperatorActions
from defender.dashboard.doors import FLASH, Visit, VisitorAuthenticator
from defender.dashboard.extras import extra
from defender.dashboard.live import MOST_CLIENTS, ClientPosition, Hub
from defender.dashboard.pages import MENU, PAGES, DashboardPage
from defender.dashboard.render import Renderer, View, safe
from defender.dashboard.scene import Scene, SceneBuilder
from defender.dashboard.views.freshness import freshness
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.reviews import Unverified
from kubenode.runtime.site.browser import SafeHeaders, WebRefusal, root
from kubenode.runtime.site.environment import site_assets

log = logging.getLogger(__name__)

STATIC_FILES = Path(__file__).with_name("static")
Endpoint = Callable[[Request, Visit], Awaitable[Response]]


class Site:
    """Dependencies of all endpoints."""

    def __init__(
        self,
        board: SceneBuilder,
        hub: Hub,
        doors: VisitorAuthenticator,
        renderer: Renderer,
        kube: Kube,
        acts: OperatorActions,
    ) -> None:
        self.board, self.hub, self.doors, self.renderer = board, hub, doors, renderer
        self.kube, self.acts, self.clock = kube, acts, board.clock

    def routes(self) -> list[Route | Mount]:
        routes: list[Route | Mount] = [
            Route("/healthz", _healthz),
            Route("/find", self.known(self.find)),
            Mount("/static", site_assets(STATIC_FILES), name="static"),
        ]
        for page in PAGES:
            routes.append(Route(f"/live{page.path}", self.known(partial(self.stream, page))))
            routes.append(Route(page.path, self.known(partial(self.page, page))))
        return routes

    def app(self, more: list[Route]) -> Starlette:
        return Starlette(
            routes=[*more, *self.routes()],
            middleware=[Middleware(SafeHeaders)],
            exception_handlers={404: self._missing, 405: self._missing},
        )

    # -- who asks -------------------------------------------------------------------------------

    def known(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        """Return a handler that calls the endpoint for people who may read, and refuses others."""

        async def answer(request: Request) -> Response:
            try:
                visit = await self.doors.visit(request)
                if visit is None:
                    return self._log_in_first(request)
                if not visit.rights.read:
                    raise WebRefusal(403, self._may_not_read(visit))
                response = await endpoint(request, visit)
            except (WebRefusal, Unverified) as error:
                return self.refused(request, error)
            except ClientDisconnect:
                return PlainTextResponse("the connection ended before the form did", 400)
            if visit.fresh:
                self.doors.remember(
                    response, visit.person, self.doors.secure(request), visit.session
                )
            return response

        return answer

    def _log_in_first(self, request: Request) -> Response:
        """Answer an unknown caller. A stream cannot follow a redirect to a page, so it gets an
        error.
        """
        if request.method != "GET" or request.url.path.startswith(f"{root(request)}/live/"):
            return PlainTextResponse("log in first", 401)
        inner = request.url.path.removeprefix(root(request)) or "/"
        query = f"?{request.url.query}" if request.url.query else ""
        where = urlencode({"to": inner + query}) if inner + query != "/" else ""
        return RedirectResponse(f"{root(request)}/login" + (f"?{where}" if where else ""), 303)

    def _may_not_read(self, visit: Visit) -> str:
        return (
            f"{visit.person.name} may not read this dashboard: that takes the right to get"
            " defenderpolicies of the group kubenode.io. Ask for it, or log in as somebody else."
        )

    def refused(self, request: Request, error: WebRefusal | Unverified) -> Response:
        code = error.code if isinstance(error, WebRefusal) else 503
        response = self.plain(
            request, "refused.html", code, title="Not now" if code == 503 else "Not done",
            message=str(error),
        )  # fmt: skip
        response.headers.update(error.headers if isinstance(error, WebRefusal) else {})
        return response

    async def _missing(self, request: Request, error: Exception) -> Response:
        text = "There is no such page. The menu above leads to those that there are."
        return self.plain(request, "refused.html", 404, title="Not here", message=text)

    # -- pages ----------------------------------------------------------------------------------

    def plain(self, request: Request, template: str, code: int = 200, **given: object) -> Response:
        """Return a page that any caller may see, known or not."""
        text = self.renderer.page(template, root=root(request), visit=None, menu=MENU, **given)
        return HTMLResponse(text, code)

    async def page(self, page: DashboardPage, request: Request, visit: Visit) -> Response:
        key, params, build = self._built(page, request)
        position, parts = self.hub.snapshot(key, root(request), build)
        slots = {
            name: {key: safe(html) for key, html in fragments.items()}
            for name, fragments in parts.items()
        }
        if not slots.keys() - {"freshness"}:
            return await self._missing(request, WebRefusal(404, ""))
        text = self.renderer.page(
            page.template,
            root=root(request),
            visit=visit,
            form_token=self.doors.form_token(visit.session),
            menu=MENU,
            page=page,
            title=page.title,
            params=dict.fromkeys(page.asks, "") | params,
            slots=slots,
            live=_live_address(request),
            seen=str(position),
            now=self.clock.now(),
            told=self.doors.read_message(request),
            **await extra(page.name, self.board, self.kube, params),
        )
        response = HTMLResponse(text)
        if request.cookies.get(FLASH):
            self.doors.untell(response, self.doors.secure(request))
        return response

    async def find(self, request: Request, visit: Visit) -> Response:
        """Redirect to the node if only one matches, else to the list of matches."""
        text = request.query_params.get("q", "").strip()[:253]
        names = list(self.board.scene().fleet.names())
        matches = [text] if text in names else [name for name in names if text and text in name]
        if len(matches) == 1:
            return RedirectResponse(f"{root(request)}/nodes/{quote(matches[0])}", 303)
        return RedirectResponse(f"{root(request)}/nodes?{urlencode({'q': text})}", 303)

    async def stream(self, page: DashboardPage, request: Request, visit: Visit) -> Response:
        if self.hub.clients >= MOST_CLIENTS:
            raise WebRefusal(
                503, f"{MOST_CLIENTS} pages are followed at once: reload it yourself.",
                {"Retry-After": "30"},
            )  # fmt: skip
        key, _, build = self._built(page, request)
        last_event = request.headers.get("Last-Event-ID") or request.query_params.get("seen", "")
        events = self.hub.follow(key, root(request), build, ClientPosition.read(last_event))
        return EventSourceResponse(events, ping=3600)

    def _built(
        self, page: DashboardPage, request: Request
    ) -> tuple[str, dict[str, str], Callable[[Scene], View]]:
        params = page.read(request.query_params, request.path_params)

        def build(scene: Scene) -> View:
            view = page.build(scene, params)
            if view is not None and page.name == "pauses":
                view = {**view, "acts": list(self.acts.past())}
            return {"freshness": freshness(scene), **(view or {})}

        return f"{page.name} {urlencode(sorted(params.items()))}", params, build


def _live_address(request: Request) -> str:
    inner = request.url.path.removeprefix(root(request))
    query = f"?{request.url.query}" if request.url.query else ""
    return f"{root(request)}/live{quote(inner)}{query}"


async def _healthz(request: Request) -> Response:
    return PlainTextResponse("ok\n")
