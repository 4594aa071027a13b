"""The byte budget for bodies, and what an application is given of a body."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message

from kubenode.runtime.httplimits import BodyBudget, BodyBudgetFull, BodyLimit, handed_on, read_body
from kubenode.runtime.serverlimits import HttpLimits


def test_bodies_of_all_callers_share_one_budget_and_one_address_has_half() -> None:
    room = BodyBudget(100)
    with room.body("a") as first, room.body("a") as second, room.body("b") as other:
        first.take(30)
        second.take(20)
        with pytest.raises(BodyBudgetFull, match="your address"):
            second.take(1)
        other.take(50)
        with room.body("c") as fourth, pytest.raises(BodyBudgetFull, match="all callers"):
            fourth.take(1)
    with room.body("a") as again:
        again.take(50)


async def posted(
    app: BodyLimit, chunks: Sequence[bytes], headers: dict[str, str] | None = None
) -> tuple[int, dict[bytes, bytes]]:
    """Status and headers. After `chunks` the sender says nothing more."""
    left = list(chunks)
    said: list[Message] = []

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": left.pop(0), "more_body": True}

    async def send(message: Message) -> None:
        said.append(message)

    raw = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "headers": raw,
        "query_string": b"",
        "client": ("10.0.0.1", 1),
    }
    await app(scope, receive, send)
    return said[0]["status"], dict(said[0]["headers"])


def an_app(limits: HttpLimits, longest: int = 1000, hands_on: bool = False) -> BodyLimit:
    async def take(request: Request) -> Response:
        if hands_on:
            async for part in request.stream():
                handed_on(request.scope, len(part))
        return PlainTextResponse(str(len(await read_body(request, longest))))

    return BodyLimit(Starlette(routes=[Route("/", take, methods=["POST"])]), limits)


async def test_a_body_that_stops_coming_is_answered_408_and_its_connection_ends() -> None:
    status, headers = await posted(an_app(HttpLimits(read_seconds=0.01)), [b"x"])
    assert (status, headers[b"connection"]) == (408, b"close")


async def test_a_body_that_is_announced_too_long_is_not_read() -> None:
    status, headers = await posted(an_app(HttpLimits()), [], {"content-length": "1001"})
    assert (status, headers[b"connection"]) == (413, b"close")


async def test_a_body_that_is_longer_than_announced_is_refused() -> None:
    status, _ = await posted(an_app(HttpLimits()), [b"x" * 600] * 2, {"content-length": "600"})
    assert status == 413


async def test_a_body_for_which_there_is_no_room_is_answered_503() -> None:
    app = an_app(HttpLimits(body_bytes=100))
    assert (await posted(app, [b"x" * 51]))[0] == 503
    assert (await posted(app, [b"x" * 51]))[0] == 503, "what was refused holds nothing"


async def test_what_is_handed_on_takes_no_room() -> None:
    limits = HttpLimits(read_seconds=0.01, body_bytes=100)
    assert (await posted(an_app(limits, hands_on=True), [b"x" * 50] * 10))[0] == 408
