"""Handlers of posts: pauses and decisions. Every post needs the token of its form."""

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from defender.dashboard.acts import OperatorActions
from defender.dashboard.app import Site
from defender.dashboard.forms import sentence, wanted_pause
from defender.dashboard.rights import Rights
from defender.dashboard.views.rollout import RolloutAction
from defender.decision.pauses import PausedScope, describe_unmatched, read_scope
from kubenode.api.decisions import DECISIONS, Decision
from kubenode.runtime.clock import Clock
from kubenode.runtime.site.browser import WebRefusal, root
from kubenode.runtime.site.outcomes import ActionOutcome
from kubenode.runtime.site.visitors import Visit

Fields = dict[str, str]


class FormHandlers:
    """Handlers for people with the right to act: pauses, resumes, decisions."""

    def __init__(self, site: Site, acts: OperatorActions, clock: Clock) -> None:
        self._site, self._acts, self._clock = site, acts, clock

    def routes(self) -> list[Route]:
        site = self._site
        return [
            Route("/pauses", site.posted(self._pause), methods=["POST"]),
            Route("/pauses/resume", site.posted(self._resume), methods=["POST"]),
            Route("/jobs/{name}/decide", site.posted(self._decide), methods=["POST"]),
            Route("/rollouts/{name}/act", site.posted(self._roll), methods=["POST"]),
        ]

    async def _pause(self, request: Request, visit: Visit[Rights], fields: Fields) -> Response:
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
        scene = self._site.scenes.scene()
        labels = {name: node.metadata.labels for name, node in scene.nodes.items()}
        return describe_unmatched(scope, labels) if scene.loaded else ""

    async def _resume(self, request: Request, visit: Visit[Rights], fields: Fields) -> Response:
        _require(visit.rights.pause, "patch defenderpolicies", visit)
        try:
            scope = read_scope(fields.get("scope", ""))
        except ValueError as error:
            raise WebRefusal(400, str(error)) from None
        return self._redirect(request, "/pauses", await self._acts.resume(visit.person, scope))

    async def _decide(self, request: Request, visit: Visit[Rights], fields: Fields) -> Response:
        _require(visit.rights.decide, "patch remedyoperationjobs", visit)
        name, count_text = request.path_params["name"], fields.get("seen", "")
        choices: dict[str, Decision] = {word: word for word in DECISIONS}
        decision = choices.get(fields.get("decision", ""))
        if decision is None or not count_text.isdecimal():
            raise WebRefusal(400, "Say one of the words that the page of the job offers.")
        note = fields.get("note", "").strip()
        done = await self._acts.decide(visit.person, name, decision, note, int(count_text[:4]))
        return self._redirect(request, f"/jobs/{quote(name)}", done)

    async def _roll(self, request: Request, visit: Visit[Rights], fields: Fields) -> Response:
        _require(visit.rights.roll, "patch machinecomponentsets", visit)
        name, action = request.path_params["name"], fields.get("action", "")
        if action not in list(RolloutAction):
            raise WebRefusal(400, "Choose one of the actions that the page of the rollout offers.")
        revision = fields.get("revision", "")[:32]
        done = await self._acts.roll(visit.person, name, RolloutAction(action), revision)
        return self._redirect(request, f"/rollouts/{quote(name)}", done)

    def _redirect(self, request: Request, path: str, done: ActionOutcome) -> Response:
        """Redirect to the page that shows the outcome, with a message that it shows once."""
        self._site.scenes.touch()
        response = RedirectResponse(f"{root(request)}{path}", 303)
        self._site.doors.tell(response, done.text, done.good, self._site.doors.secure(request))
        return response


def _require(right: bool, which: str, visit: Visit[Rights]) -> None:
    if not right:
        raise WebRefusal(
            403, f"{visit.person.name} may not do this: it takes the right to {which}."
        )
