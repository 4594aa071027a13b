"""Handlers of posts: login, logout and decisions. Every post needs the token of its form."""

import logging
from collections.abc import Awaitable, Callable
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from defender.dashboard.acts import ActionOutcome, OperatorActions
from defender.dashboard.app import Site
from defender.dashboard.doors import Visit
from defender.dashboard.forms import sentence, wanted_pause
from defender.dashboard.people import Person
from defender.dashboard.views.rollout import RolloutAction
from defender.decision.pauses import PausedScope, describe_unmatched, read_scope
from kubenode.api.decisions import DECISIONS, Decision
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.reviews import Unverified
from kubenode.runtime.site.attempts import LoginAttempts
from kubenode.runtime.site.browser import WebRefusal, form, from_here, inner_path, root
from kubenode.runtime.site.seals import CookieTooLong

audit = logging.getLogger("defender.dashboard.audit")

FORGED = (
    "The form did not come from a page of this dashboard that is open now: open the page anew and"
    " send it from there."
)
Fields = dict[str, str]
Post = Callable[[Request, Visit, Fields], Awaitable[Response]]


class Entrance:
    """Login and logout."""

    def __init__(self, site: Site, attempts: LoginAttempts) -> None:
        self._site, self._attempts = site, attempts

    def routes(self) -> list[Route]:
        return [
            Route("/login", self._shown, methods=["GET"]),
            Route("/login", self._enter, methods=["POST"]),
            Route("/logout", posted(self._site, self._leave), methods=["POST"]),
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
            audit.warning("login refused", extra={"address": address})
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
        audit.info("logged in", extra={"who": person.name, "via": person.via.value})
        return response

    async def _person(self, fields: Fields) -> Person | None:
        if fields.get("link"):
            return self._site.doors.with_link(fields["link"])
        return await self._site.doors.with_token(fields.get("token", "").strip())

    async def _leave(self, request: Request, visit: Visit, fields: Fields) -> Response:
        response = RedirectResponse(f"{root(request)}/login", 303)
        self._site.doors.forget(response, visit.session, self._site.doors.secure(request))
        audit.info("logged out", extra={"who": visit.person.name})
        return response


class FormHandlers:
    """Handlers for people with the right to act: pauses, resumes, decisions."""

    def __init__(self, site: Site, acts: OperatorActions, clock: Clock) -> None:
        self._site, self._acts, self._clock = site, acts, clock

    def routes(self) -> list[Route]:
        site = self._site
        return [
            Route("/pauses", posted(site, self._pause), methods=["POST"]),
            Route("/pauses/resume", posted(site, self._resume), methods=["POST"]),
            Route("/jobs/{name}/decide", posted(site, self._decide), methods=["POST"]),
            Route("/rollouts/{name}/act", posted(site, self._roll), methods=["POST"]),
        ]

    async def _pause(self, request: Request, visit: Visit, fields: Fields) -> Response:
        _require(visit.rights.pause, "patch defenderpolicies", visit)
        try:
            scope, wanted = wanted_pause(fields, visit.person.name, self._clock.now())
        except ValueError as error:
            done = ActionOutcome(f"Not paused: {sentence(error)}.", good=False)
            return self._redirect(request, "/pauses", done)
        if fields.get("empty") != "yes" and (problem := self._unmatched(scope)):
            text = f"Not paused: {problem}. Select a listed scope or confirm a pause without nodes."
            return self._redirect(request, "/pauses", ActionOutcome(text, good=False))
        return self._redirect(
            request, "/pauses", await self._acts.pause(visit.person, wanted, scope)
        )

    def _unmatched(self, scope: PausedScope) -> str:
        """Return why a pause of the scope would pause nothing, "" if nodes are in it, or if nodes
        are not all read yet: a pause must be possible then.
        """
        scene = self._site.board.scene()
        labels = {name: node.metadata.labels for name, node in scene.nodes.items()}
        return describe_unmatched(scope, labels) if scene.loaded else ""

    async def _resume(self, request: Request, visit: Visit, fields: Fields) -> Response:
        _require(visit.rights.pause, "patch defenderpolicies", visit)
        try:
            scope = read_scope(fields.get("scope", ""))
        except ValueError as error:
            raise WebRefusal(400, str(error)) from None
        return self._redirect(request, "/pauses", await self._acts.resume(visit.person, scope))

    async def _decide(self, request: Request, visit: Visit, fields: Fields) -> Response:
        _require(visit.rights.decide, "patch remedyoperationjobs", visit)
        name, count_text = request.path_params["name"], fields.get("seen", "")
        choices: dict[str, Decision] = {word: word for word in DECISIONS}
        decision = choices.get(fields.get("decision", ""))
        if decision is None or not count_text.isdecimal():
            raise WebRefusal(400, "Say one of the words that the page of the job offers.")
        note = fields.get("note", "").strip()
        done = await self._acts.decide(visit.person, name, decision, note, int(count_text[:4]))
        return self._redirect(request, f"/jobs/{quote(name)}", done)

    async def _roll(self, request: Request, visit: Visit, fields: Fields) -> Response:
        _require(visit.rights.roll, "patch machinecomponentsets", visit)
        name, action = request.path_params["name"], fields.get("action", "")
        if action not in list(RolloutAction):
            raise WebRefusal(400, "Choose one of the actions that the page of the rollout offers.")
        revision = fields.get("revision", "")[:32]
        done = await self._acts.roll(visit.person, name, RolloutAction(action), revision)
        return self._redirect(request, f"/rollouts/{quote(name)}", done)

    def _redirect(self, request: Request, path: str, done: ActionOutcome) -> Response:
        """Redirect to the page that shows the outcome, with a message that it shows once."""
        self._site.board.touch()
        response = RedirectResponse(f"{root(request)}{path}", 303)
        self._site.doors.tell(response, done.text, done.good, self._site.doors.secure(request))
        return response


def _require(right: bool, which: str, visit: Visit) -> None:
    if not right:
        raise WebRefusal(
            403, f"{visit.person.name} may not do this: it takes the right to {which}."
        )


def posted(site: Site, post: Post) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler restricted to valid forms of known people."""

    async def checked(request: Request, visit: Visit) -> Response:
        fields = await form(request)
        shown = fields.get("form_token", "")
        if not from_here(request) or not site.doors.form_token_fits(visit.session, shown):
            raise WebRefusal(403, FORGED)
        return await post(request, visit, fields)

    return site.known(checked)
