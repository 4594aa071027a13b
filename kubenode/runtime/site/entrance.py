"""Login and logout of people at a site."""

import logging
from typing import Generic

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kubenode.runtime.kube.reviews import Unverified
from kubenode.runtime.site.attempts import LoginAttempts
from kubenode.runtime.site.browser import WebRefusal, form, from_here, inner_path, root
from kubenode.runtime.site.live_site import FORGED, LiveSite, S
from kubenode.runtime.site.people import Person
from kubenode.runtime.site.seals import CookieTooLong
from kubenode.runtime.site.visitors import R, Visit


class Entrance(Generic[S, R]):
    """Login and logout. audit: the log of what people do."""

    def __init__(
        self, site: LiveSite[S, R], attempts: LoginAttempts, audit: logging.Logger
    ) -> None:
        self._site, self._attempts, self._audit = site, attempts, audit

    def routes(self) -> list[Route]:
        return [
            Route("/login", self._shown, methods=["GET"]),
            Route("/login", self._enter, methods=["POST"]),
            Route("/logout", self._site.posted(self._leave), methods=["POST"]),
        ]

    async def _shown(self, request: Request) -> Response:
        return self._page(request, request.query_params.get("link", "")[:200])

    def _page(
        self, request: Request, link: str = "", problem: str = "", code: int = 200, to: str = ""
    ) -> Response:
        title = "Open the dashboard" if link else "Log in"
        to = to or request.query_params.get("to", "")
        return self._site.plain(
            request, "login.html", code, title=title, link=link, problem=problem, to=inner_path(to)
        )

    async def _enter(self, request: Request) -> Response:
        site, address = self._site, self._site.doors.address(request)
        try:
            if not from_here(request):
                raise WebRefusal(403, FORGED)
            fields = await form(request)
        except WebRefusal as refused:
            return site.refused(request, refused)
        to = inner_path(fields.get("to", ""))
        if wait := self._attempts.wait(address, site.clock.monotonic()):
            text = f"Too many attempts failed: try again in {wait:.0f} s."
            response = self._page(request, "", text, 429, to)
            response.headers["Retry-After"] = f"{wait:.0f}"
            return response
        try:
            person = await self._person(fields)
        except Unverified as error:
            return self._page(request, "", f"Nobody can log in now: {error}", 503, to)
        if person is None:
            self._attempts.failed(address, site.clock.monotonic())
            self._audit.warning("login refused", extra={"address": address})
            text = (
                "This address lets nobody in: it belongs to a program that has ended."
                if fields.get("link")
                else "The API server does not know this token, or it has expired: make a new one."
            )
            return self._page(request, "", text, 401, to)
        response = RedirectResponse(root(request) + to, 303)
        try:
            site.doors.remember(response, person, self._site.doors.secure(request))
        except CookieTooLong:
            text = (
                "This token is too long for a cookie: use one of a service account,"
                " as `kubectl create token` makes it."
            )
            return self._page(request, "", text, 400, to)
        self._audit.info("logged in", extra={"who": person.name, "via": person.via.value})
        return response

    async def _person(self, fields: dict[str, str]) -> Person | None:
        if fields.get("link"):
            return self._site.doors.with_link(fields["link"])
        return await self._site.doors.with_token(fields.get("token", "").strip())

    async def _leave(self, request: Request, visit: Visit[R], fields: dict[str, str]) -> Response:
        response = RedirectResponse(f"{root(request)}/login", 303)
        self._site.doors.forget(response, visit.session, self._site.doors.secure(request))
        self._audit.info("logged out", extra={"who": visit.person.name})
        return response
