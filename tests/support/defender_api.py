"""Kube Defender's API with a double of the port behind it, over a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from support.clock import T0
from support.running import running

from defender.answers import Breakers, Explanation, Preview, Queue, Status
from defender.client import HttpPermits
from defender.decision.requests import RequestsPage
from defender.server.auth.gate import RequestAuthenticator, RequestAuthenticatorSettings
from defender.server.http.app import DefenderApi, create_app
from defender.server.server import DefenderServer
from kubenode.api.v1alpha1 import Ask, Disruption, Reason, Verdict
from kubenode.api.v1alpha1.permit import Holder, Operation
from kubenode.runtime.clock import SystemClock

NO = Verdict(
    allowed=False,
    reason=Reason.CONCURRENCY_LIMIT,
    message="cluster: 2 of 2",
    scope="cluster",
    used=2,
    limit=2,
    look_again_at=T0 + timedelta(seconds=5),
)
YES = Verdict(
    allowed=True,
    reason=Reason.GRANTED,
    permit="n1-abc",
    class_=Disruption.NODE,
    granted_at=T0,
    expires_at=T0 + timedelta(minutes=15),
)


def an_ask(**change: Any) -> Ask:
    holder = Holder(kind="RemedyOperationJob", name="job-1", uid="uid-1")
    given: dict[str, Any] = {
        "operation": Operation.REPAIR,
        "class_": Disruption.NODE,
        "node": "n1",
        "holder": holder,
    }
    return Ask(**(given | change))


@dataclass
class Recording:
    """The port behind the server: says `says`, or fails with `fails`."""

    says: Verdict = field(default_factory=lambda: YES)
    fails: Exception | None = None
    heard: list[tuple[Any, ...]] = field(default_factory=list)
    woken: list[Holder] = field(default_factory=list)

    def _answer(self, *what: Any) -> Verdict:
        self.heard.append(what)
        if self.fails is not None:
            raise self.fails
        return self.says

    async def ask(self, ask: Ask) -> Verdict:
        return self._answer("ask", ask)

    async def check(self, permit: str, seconds_needed: float) -> Verdict:
        return self._answer("check", permit, seconds_needed)

    async def renew(self, permit: str, seconds_needed: float = 0) -> Verdict:
        return self._answer("renew", permit, seconds_needed)

    async def release(self, permit: str) -> None:
        self._answer("release", permit)

    async def wakes(self) -> AsyncIterator[Holder]:
        for holder in self.woken:
            yield holder
        await asyncio.Event().wait()


STATUS = Status(ready="yes", nodes={"Healthy": 3}, permits=[], policies={"default": []})


class Nothing:
    """Shows a Kube Defender that knows node n1 alone, and nothing of it.

    ready: "yes", or why the replica answers no question.
    """

    def __init__(self, ready: str = "yes") -> None:
        self._ready = ready

    def status(self) -> Status:
        return STATUS.model_copy(update={"ready": self._ready})

    def explain(self, node: str) -> Explanation | None:
        if node != "n1":
            return None
        return Explanation(
            node=node, health="Healthy", policies=[], ready=self._ready, permits=[], waiting=[],
            answers=[],
        )  # fmt: skip

    async def preview(self, node: str) -> Preview | None:
        return Preview(node=node, pods=[], stay=2) if node == "n1" else None

    def queue(self) -> Queue:
        return Queue(waiting=[])

    def breakers(self) -> Breakers:
        return Breakers(policies=[])

    def requests(self, since: datetime | None, limit: int) -> RequestsPage:
        return RequestsPage(began=since or T0, dropped=limit, requests=[])


def an_app(
    port: Recording, token_file: Path | None = None, shown: Nothing | None = None
) -> DefenderApi:
    settings = RequestAuthenticatorSettings(token_file, anyone=token_file is None)
    return create_app(port, shown or Nothing(), RequestAuthenticator(None, SystemClock(), settings))


@asynccontextmanager
async def serving(
    port: Recording, token_file: Path | None = None, shown: Path | None = None
) -> AsyncIterator[tuple[str, HttpPermits]]:
    """URL and client of a server that listens."""
    server = DefenderServer(an_app(port, token_file))
    async with running(server.run()):
        await server.listening.wait()
        url = f"http://127.0.0.1:{server.port}"
        client = HttpPermits(url, shown)
        try:
            yield url, client
        finally:
            await client.close()
