"""One request to an ASGI application without a socket."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


async def request(
    app: ASGIApp,
    method: str,
    target: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """`target` is path and query as on the wire."""
    path, _, query = target.partition("?")
    given = {"host": "127.0.0.1", **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8082),
        "state": {},
    }
    sent: list[Message] = []
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return left.pop() if left else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    parts = [m.get("body", b"") for m in sent if m["type"] == "http.response.body"]
    found = {k.decode(): v.decode("latin-1") for k, v in start["headers"]}
    return Reply(start["status"], found, b"".join(parts))
