"""A site of live pages as a Starlette application: pages, streams, posts and assets.

Unknown callers are sent to the login page. Known ones without the right to read are told which
right is missing. Logins are in `entrance`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.reviews import Unverified
from kubenode.runtime.site.browser import SafeHeaders, WebRefusal, form, from_here, root
from kubenode.runtime.site.environment import site_assets
from kubenode.runtime.site.live import MOST_CLIENTS, ClientPosition, Hub, LiveSource
from kubenode.runtime.site.parts import PartRenderer, View, safe
from kubenode.runtime.site.visitors import R, Visit, VisitorAuthenticator

LONGEST_PARAM = 317
FORGED = (
    "The form did not come from a page of this site that is open now: open the page anew and send"
    " it from there."
)
S = TypeVar("S")
Params = Mapping[str, str]
Endpoint = Callable[[Request, Visit[R]], Awaitable[Response]]
Post = Callable[[Request, Visit[R], dict[str, str]], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class SitePage(Generic[S]):
    """One page.

    path: the route. Its parameters and those of `asks` are passed to `build`.
    place: the menu entry to which it belongs.
    build: returns the live parts, None if there is no such page.
    """

    name: str
    title: str
    path: str
    build: Callable[[S, Params], View | None]
    asks: tuple[str, ...] = ()
    place: str = ""

    @property
    def template(self) -> str:
        return f"{self.name}.html"

    def read(self, query: Mapping[str, str], path: Mapping[str, str]) -> dict[str, str]:
        """Return the parameters for `build`, bounded in length."""
        params = {name: query[name] for name in self.asks if query.get(name)}
        return {k: v[:LONGEST_PARAM] for k, v in (params | dict(path)).items()}


class LiveSite(Generic[S, R]):
    """Pages over `board`.

    program: its name in messages.
    reading: the right to read, in words.
    """

    def __init__(
        self,
        board: LiveSource[S],
        hub: Hub[S],
        doors: VisitorAuthenticator[R],
        renderer: PartRenderer,
        clock: Clock,
        *,
        pages: Sequence[SitePage[S]],
        program: str,
        reading: str,
    ) -> None:
        self.board, self.hub, self.doors, self.renderer = board, hub, doors, renderer
        self.clock, self._pages = clock, pages
        self._program, self._reading = program, reading
        self._menu = tuple((page.name, page.title, page.path) for page in pages if is_entry(page))

    # -- what a site may change -----------------------------------------------------------------

    def view(self, page: SitePage[S], scene: S, params: Params) -> View | None:
        """Return the live parts of a page, None if there is no such page."""
        return page.build(scene, params)

    def doubts(self, scene: S) -> View:
        """Return the slot `freshness`: what is wrong with the data."""
        return {"freshness": []}

    async def extra(self, page: SitePage[S], params: Params) -> dict[str, Any]:
        """Return variables of a page that are computed for one visit and not updated."""
        return {}

    # -- routes ---------------------------------------------------------------------------------

    def routes(self) -> list[Route | Mount]:
        routes: list[Route | Mount] = [
            Route("/healthz", _healthz),
            Mount("/static", site_assets(), name="static"),
        ]
        for page in self._pages:
            routes.append(Route(f"/live{page.path}", self.known(partial(self.stream, page))))
            routes.append(Route(page.path, self.known(partial(self.page, page))))
        return routes

    def app(self, more: Sequence[Route]) -> Starlette:
        return Starlette(
            routes=[*more, *self.routes()],
            middleware=[Middleware(SafeHeaders)],
            exception_handlers={404: self._missing, 405: self._missing},
        )

    # -- who asks -------------------------------------------------------------------------------

    def known(self, endpoint: Endpoint[R]) -> Callable[[Request], Awaitable[Response]]:
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

    def posted(self, post: Post[R]) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler restricted to valid forms of known people."""

        async def checked(request: Request, visit: Visit[R]) -> Response:
            fields = await form(request)
            shown = fields.get("form_token", "")
            if not from_here(request) or not self.doors.form_token_fits(visit.session, shown):
                raise WebRefusal(403, FORGED)
            return await post(request, visit, fields)

        return self.known(checked)

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

    def _may_not_read(self, visit: Visit[R]) -> str:
        return (
            f"{visit.person.name} may not read this dashboard: that takes the right to"
            f" {self._reading} of the group kubenode.io. Ask for it, or log in as somebody else."
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
        text = self.renderer.page(
            template, root=root(request), visit=None, menu=self._menu, **given
        )
        return HTMLResponse(text, code)

    async def page(self, page: SitePage[S], request: Request, visit: Visit[R]) -> Response:
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
            program=self._program,
            visit=visit,
            form_token=self.doors.form_token(visit.session),
            menu=self._menu,
            page=page,
            title=page.title,
            params=dict.fromkeys(page.asks, "") | params,
            slots=slots,
            live=_live_address(request),
            seen=str(position),
            now=self.clock.now(),
            told=self.doors.read_message(request),
            **await self.extra(page, params),
        )
        response = HTMLResponse(text)
        if request.cookies.get(self.doors.cookies.message):
            self.doors.untell(response, self.doors.secure(request))
        return response

    async def stream(self, page: SitePage[S], request: Request, visit: Visit[R]) -> Response:
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
        self, page: SitePage[S], request: Request
    ) -> tuple[str, dict[str, str], Callable[[S], View]]:
        params = page.read(request.query_params, request.path_params)

        def build(scene: S) -> View:
            return {**self.doubts(scene), **(self.view(page, scene, params) or {})}

        return f"{page.name} {urlencode(sorted(params.items()))}", params, build


def is_entry(page: SitePage[S]) -> bool:
    """Return whether the page is an entry of the menu."""
    return page.name == page.place


def _live_address(request: Request) -> str:
    inner = request.url.path.removeprefix(root(request))
    query = f"?{request.url.query}" if request.url.query else ""
    return f"{root(request)}/live{quote(inner)}{query}"


async def _healthz(request: Request) -> Response:
    return PlainTextResponse("ok\n")
