"""Read-only routes for people and dashboards: permits, queue, breakers and explanations."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from pydantic import AwareDatetime
from starlette.responses import JSONResponse, Response

from defender.answers import Breakers, Explanation, Preview, Queue, Status
from defender.decision.requests import PAGE, RequestsPage
from defender.server.auth.gate import RequestAuthenticator
from defender.server.auth.rights import PERMITS
from defender.server.http.admission import to
from defender.server.http.failures import HttpRefusal, failures
from defender.server.http.shown import StatusSource
from kubenode.api.base import Model

Since = Annotated[AwareDatetime | None, Query(description="Asked then or later.")]
Limit = Annotated[int, Query(ge=1, le=PAGE, description="How many at most.")]
Node = Annotated[str, Path(min_length=1, max_length=253, description="Name of the Node.")]


def reading_router(shown: StatusSource, gate: RequestAuthenticator) -> APIRouter:
    router = APIRouter(
        prefix="/v1",
        tags=["reading"],
        dependencies=[Depends(to(gate, "get", PERMITS))],
        responses=failures(401, 403, 503),
    )

    @router.get("/status", operation_id="status", response_model=Status)
    async def status() -> Response:
        """What is held, counted and decided."""
        return shown_as(shown.status())

    @router.get(
        "/nodes/{name}/explain",
        operation_id="explain",
        response_model=Explanation,
        responses=failures(404, 422),
    )
    async def explain(name: Node) -> Response:
        """What somebody new would be told now, for each operation and class, and every reason."""
        explanation = shown.explain(name)
        if explanation is None:
            raise HttpRefusal(404, f"node {name}: no such node is known")
        return shown_as(explanation)

    @router.get(
        "/nodes/{name}/preview",
        operation_id="preview",
        response_model=Preview,
        responses=failures(404, 422),
    )
    async def preview(name: Node) -> Response:
        """What PodDisruptionBudgets would say of each pod of a node now."""
        pod_preview = await shown.preview(name)
        if pod_preview is None:
            raise HttpRefusal(404, f"node {name}: no such node is known")
        return shown_as(pod_preview)

    @router.get("/queue", operation_id="queue", response_model=Queue)
    async def queue() -> Response:
        """Who waits for a permit, next one first."""
        return shown_as(shown.queue())

    @router.get(
        "/requests",
        operation_id="requests",
        response_model=RequestsPage,
        responses=failures(422),
    )
    async def requests(since: Since = None, limit: Limit = PAGE) -> Response:
        """What was asked lately and what came of it, in order of the last ask."""
        return shown_as(shown.requests(since, limit))

    @router.get("/breakers", operation_id="breakers", response_model=Breakers)
    async def breakers() -> Response:
        """Breakers that are not closed, and those that closed lately, by policy."""
        return shown_as(shown.breakers())

    return router


def shown_as(model: Model) -> Response:
    return JSONResponse(model.to_dict())
