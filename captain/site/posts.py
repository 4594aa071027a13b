"""Handler of the buttons of a release. A post needs the token of its form, and a right."""

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from captain.site.acts import ReleaseActions
from captain.site.pages import CaptainPages
from captain.site.rights import CaptainRights
from captain.site.views.actions import APPROVALS, ReleaseAction
from kubenode.runtime.site.browser import WebRefusal, root
from kubenode.runtime.site.visitors import Visit


class ReleasePosts:
    """Lets people with the right to do so act on releases."""

    def __init__(self, pages: CaptainPages, acts: ReleaseActions) -> None:
        self._pages, self._acts = pages, acts

    def routes(self) -> list[Route]:
        handler = self._pages.posted(self._act)
        return [Route("/releases/{name}/act", handler, methods=["POST"])]

    async def _act(
        self, request: Request, visit: Visit[CaptainRights], fields: dict[str, str]
    ) -> Response:
        name, (action, stage) = request.path_params["name"], read_action(fields)
        require_right(visit, action)
        done = await self._acts.act(visit.person, name, action, stage)
        doors = self._pages.doors
        response = RedirectResponse(f"{root(request)}/releases/{quote(name)}", 303)
        doors.tell(response, done.text, done.good, doors.secure(request))
        return response


def read_action(fields: dict[str, str]) -> tuple[ReleaseAction, str]:
    """Return the action and the stage of an approval. Raises WebRefusal.

    The button of an approval sends `Approve STAGE` or `ApproveEnforce STAGE`: it approves what its
    text names.
    """
    word, _, stage = fields.get("action", "").partition(" ")
    try:
        action = ReleaseAction(word)
    except ValueError:
        action = None
    if action is None or bool(stage) is not (action in APPROVALS) or len(stage) > 63:
        raise WebRefusal(400, "Choose one of the actions that the page of the release offers.")
    return action, stage


def require_right(visit: Visit[CaptainRights], action: ReleaseAction) -> None:
    """Raise WebRefusal for an action that the person may not do."""
    approves = action in APPROVALS
    if visit.rights.approve if approves else visit.rights.steer:
        return
    right = "patch releases" + (" and to update releases/approval" if approves else "")
    raise WebRefusal(403, f"{visit.person.name} may not do this: it takes the right to {right}.")
