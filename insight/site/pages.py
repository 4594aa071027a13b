"""The pages of Insight, and who may see them.

    GET  /, /faults, /healing, /lemons, /incidents     pages, with filters in the address
    GET  /incidents/ID                                 one incident, by the UID or name of its job
    GET  /csv/NAME                                     a table of a page
    GET, POST /login, POST /logout                     with the token of a reader

Pages only read, so that a link to one harms nobody.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from sqlalchemy import Connection
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from insight.analyses.incidents import find_incidents, read_incident
from insight.server.reader import StoreReader
from insight.server.requests import ParameterError
from insight.site.exports import EXPORTS
from insight.site.logins import ReaderLogins, ReaderVisit
from insight.site.request import PageRequest
from insight.site.views.faults import build_faults
from insight.site.views.incidents import build_incident, build_incidents
from insight.site.views.lemons import build_lemons
from insight.site.views.overview import build_overview
from insight.site.views.repairs import build_healing
from insight.store.database import StoreUnavailable
from kubenode.runtime.clock import Clock
from kubenode.runtime.httplimits import BodyBudgetFull, TooSlow
from kubenode.runtime.kube.reviews import Unverified
from kubenode.runtime.site.attempts import LoginAttempts
from kubenode.runtime.site.browser import WebRefusal, form, from_here, inner_path, root
from kubenode.runtime.site.environment import site_assets, site_environment
from kubenode.runtime.site.seals import CookieTooLong
from kubenode.runtime.token_files import TokenFiles

audit = logging.getLogger("insight.audit")

FORGED = "The form did not come from a page of Insight that is open now: open the page anew."
Endpoint = Callable[[Request, ReaderVisit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class InsightPage:
    """A page with a place in the menu. build: returns the values of its template."""

    name: str
    title: str
    path: str
    build: Callable[[Connection, PageRequest], dict[str, Any]]

    @property
    def place(self) -> str:
        return self.name


PAGES = (
    InsightPage("overview", "Overview", "/", build_overview),
    InsightPage("faults", "Faults", "/faults", build_faults),
    InsightPage("healing", "Healing", "/healing", build_healing),
    InsightPage("lemons", "Lemons", "/lemons", build_lemons),
    InsightPage("incidents", "Incidents", "/incidents", build_incidents),
)
MENU = tuple((page.name, page.title, page.path) for page in PAGES)
INCIDENTS = PAGES[-1]
DAYS = ("7", "14", "30", "90", "365")
LONG_DAYS = "3650"
"""Length of the period in which all incidents of one name are listed."""


class InsightSite:
    """readers: tokens of people; None lets anyone in, for loopback only"""

    def __init__(self, reader: StoreReader, clock: Clock, readers: TokenFiles | None) -> None:
        self._reader, self._clock = reader, clock
        self._logins, self._attempts = ReaderLogins(readers, clock), LoginAttempts()
        self._environment = site_environment("insight.site")
        self._environment.globals["days_of"] = days_of

    def routes(self) -> list[Route | Mount]:
        return [
            *(Route(page.path, self._known(self._page(page))) for page in PAGES),
            Route("/incidents/{id}", self._known(self._incident)),
            Route("/csv/{name}", self._known(self._export)),
            Route("/login", self._login, methods=["GET"]),
            Route("/login", self._enter, methods=["POST"]),
            Route("/logout", self._known(self._leave), methods=["POST"]),
            Mount("/static", site_assets(), name="static"),
        ]

    # -- who asks -------------------------------------------------------------------------------

    def _known(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        """Return a handler that calls the endpoint for readers, and sends others to the login."""

        async def answer(request: Request) -> Response:
            visit = None
            try:
                visit = self._logins.visit(request)
                if visit is None:
                    return _log_in_first(request)
                return await endpoint(request, visit)
            except ClientDisconnect:
                return PlainTextResponse("the connection ended before the form did", 400)
            except (WebRefusal, ParameterError, StoreUnavailable, Unverified) as error:
                return self._refused(request, visit, error)
            except (BodyBudgetFull, TooSlow) as error:
                return self._refused(request, visit, error)

        return answer

    def _refused(self, request: Request, visit: ReaderVisit | None, error: Exception) -> Response:
        code = 503
        if isinstance(error, WebRefusal):
            code = error.code
        elif isinstance(error, ParameterError):
            code = 400
        titles = {503: "Not available now", 404: "Not found"}
        given = {"title": titles.get(code, "Not accepted"), "message": str(error)}
        return HTMLResponse(self._render("refused.html", request, visit, **given), code)

    # -- pages ----------------------------------------------------------------------------------

    def _page(self, page: InsightPage) -> Endpoint:
        async def answer(request: Request, visit: ReaderVisit) -> Response:
            parameters = PageRequest.read(request.query_params, self._clock.now())
            values = await self._reader.read(lambda connection: page.build(connection, parameters))
            given = {"page": page, "title": page.title, "view": parameters, **values}
            return HTMLResponse(self._render(f"{page.name}.html", request, visit, **given))

        return answer

    async def _incident(self, request: Request, visit: ReaderVisit) -> Response:
        name = request.path_params["id"]
        uids = await self._reader.read(lambda connection: find_incidents(connection, name))
        if len(uids) > 1:
            return RedirectResponse(
                f"{root(request)}/incidents?{urlencode({'job': name, 'days': LONG_DAYS})}", 303
            )
        if uids and uids != [name]:
            return RedirectResponse(f"{root(request)}/incidents/{quote(uids[0], safe='')}", 303)
        incident = None
        if uids:
            incident = await self._reader.read(lambda connection: read_incident(connection, name))
        if incident is None:
            raise WebRefusal(404, f"Insight has no event of an incident {name[:200]!r}.")
        values = {"page": INCIDENTS, "title": incident.job, **build_incident(incident)}
        return HTMLResponse(self._render("incident.html", request, visit, **values))

    async def _export(self, request: Request, visit: ReaderVisit) -> Response:
        name = request.path_params["name"]
        if (export := EXPORTS.get(name)) is None:
            raise WebRefusal(404, f"There is no table {name[:60]!r}.")
        parameters = PageRequest.read(request.query_params, self._clock.now())
        text = await self._reader.read(lambda connection: export.text(connection, parameters))
        headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
        return Response(text, media_type="text/csv", headers=headers)

    def _render(
        self, template: str, request: Request, visit: ReaderVisit | None, **given: Any
    ) -> str:
        known: dict[str, Any] = {
            "root": root(request),
            "visit": visit,
            "form_token": self._logins.form_token(visit) if visit and visit.session else "",
            "menu": MENU,
            "page": None,
            "now": self._clock.now(),
        }
        return self._environment.get_template(template).render(**(known | given))

    # -- logins ---------------------------------------------------------------------------------

    async def _login(self, request: Request) -> Response:
        return self._login_page(request, "", 200, request.query_params.get("to", ""))

    async def _enter(self, request: Request) -> Response:
        address = request.client.host if request.client else ""
        try:
            if not from_here(request):
                raise WebRefusal(403, FORGED)
            fields = await form(request)
            token, to = fields.get("token", "").strip(), fields.get("to", "")
            if wait := self._attempts.wait(address, self._clock.monotonic()):
                text = f"Too many attempts failed: try again in {wait:.0f} s."
                return self._login_page(request, text, 429, to)
            known = self._logins.knows(token)
        except (WebRefusal, Unverified, BodyBudgetFull, TooSlow) as error:
            return self._refused(request, None, error)
        except ClientDisconnect:
            return PlainTextResponse("the connection ended before the form did", 400)
        if not known:
            self._attempts.failed(address, self._clock.monotonic())
            audit.warning("login refused", extra={"address": address})
            return self._login_page(request, "No reader has this token.", 401, to)
        response = RedirectResponse(root(request) + inner_path(to), 303)
        try:
            self._logins.remember(response, token, secure=request.url.scheme == "https")
        except CookieTooLong:
            return self._login_page(request, "This token is too long for a cookie.", 400, to)
        audit.info("logged in", extra={"address": address})
        return response

    async def _leave(self, request: Request, visit: ReaderVisit) -> Response:
        shown = (await form(request)).get("form_token", "")
        if not from_here(request) or not self._logins.form_token_fits(visit, shown):
            raise WebRefusal(403, FORGED)
        response = RedirectResponse(f"{root(request)}/login", 303)
        self._logins.forget(response, visit, secure=request.url.scheme == "https")
        return response

    def _login_page(self, request: Request, problem: str, code: int, to: str) -> Response:
        given = {"title": "Log in", "problem": problem, "to": inner_path(to)}
        return HTMLResponse(self._render("login.html", request, None, **given), code)


def days_of(params: Mapping[str, str]) -> Sequence[str]:
    """Return the lengths of periods that a page offers: DAYS, and that of its address."""
    return list(dict.fromkeys([*DAYS, params.get("days", DAYS[0])]))


def _log_in_first(request: Request) -> Response:
    if request.method != "GET":
        return PlainTextResponse("log in first", 401)
    inner = request.url.path.removeprefix(root(request)) or "/"
    query = f"?{request.url.query}" if request.url.query else ""
    where = urlencode({"to": inner + query}) if inner + query != "/" else ""
    return RedirectResponse(f"{root(request)}/login" + (f"?{where}" if where else ""), 303)
