"""The API server as the publisher sees it: one Node's status and its Events, with levers."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from support.clock import FakeClock

from agent.detectors import ConditionReport, ReportedStatus, Sink
from agent.disk import Disk
from agent.nodestatus.publisher import Publisher
from agent.outbox import Outbox
from kubenode.runtime.kube.client import JSON, STRATEGIC_PATCH, Decode, Kube, Query
from kubenode.runtime.kube.errors import AlreadyExists, KubeError, NotFound
from kubenode.runtime.kube.plain import PlainTransport

NODE, AGENT = "n1", "n1"


class Server(Kube):
    """Levers: `down` raises it for every call, `lost` answers and then loses the answer."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(PlainTransport("http://127.0.0.1:1"), clock=clock)
        self.uid = "uid-1"
        self.conditions: dict[str, dict[str, str]] = {}
        self.events: dict[str, dict[str, Any]] = {}
        self.patches: list[list[str]] = []
        self.down: KubeError | None = None
        self.lost: KubeError | None = None

    async def call(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON,
        decode: Decode[Any] = msgspec.json.decode,
        timeout: float | None = None,  # noqa: ASYNC109  as the method it stands for
        attempts: int | None = None,
    ) -> Any:
        if self.down is not None:
            raise self.down
        answer = self._do(method, path, body, content_type)
        if self.lost is not None:
            error, self.lost = self.lost, None
            raise error
        return decode(msgspec.json.encode(answer))

    def _do(self, method: str, path: str, body: Any, content_type: str) -> dict[str, Any]:
        if path == f"/api/v1/nodes/{NODE}/status":
            assert (method, content_type) == ("PATCH", STRATEGIC_PATCH)
            listed = body.get("status", {}).get("conditions", [])
            self.conditions.update({c["type"]: c for c in listed})
            if listed:
                self.patches.append([c["type"] for c in listed])
            return {"metadata": {"uid": self.uid}}
        if method == "POST":
            name = body["metadata"]["name"]
            if name in self.events:
                raise AlreadyExists(409)
            self.events[name] = dict(body)
            return self.events[name]
        name = path.rsplit("/", 1)[1]
        if name not in self.events:
            raise NotFound(404)
        self.events[name].update(body)
        return self.events[name]

    def said(self, reason: str) -> list[dict[str, Any]]:
        return [e for e in self.events.values() if e["reason"] == reason]


@dataclass
class Watcher:
    """A detector that does as the test says: `what(sink)` and then nothing, until cancelled."""

    name: str = "kernel-monitor"
    conditions: tuple[str, ...] = ("KernelDeadlock",)
    what: Callable[[Sink], object] = lambda sink: None
    runs: int = 0
    fails: list[Exception] = field(default_factory=list)

    async def run(self, sink: Sink) -> None:
        self.runs += 1
        self.what(sink)
        if self.fails:
            raise self.fails.pop(0)


def at_once(write: Callable[[], bytes]) -> "asyncio.Future[bytes]":
    """A disk that takes no time, so that tests need not wait for a thread."""
    done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    try:
        done.set_result(write())
    except OSError as error:
        done.set_exception(error)
    return done


def publisher(
    server: Server,
    folder: Path,
    clock: FakeClock,
    detectors: Iterable[Watcher] = (Watcher(),),
    boot_id: str = "boot-1",
    agent: str = AGENT,
    disk: Disk | None = None,
) -> Publisher:
    """A new process over the same disk, its detectors running."""
    given = list(detectors)
    outbox = Outbox(folder, disk, at_once)
    made = Publisher(server, NODE, agent, boot_id, given, outbox, clock, spread=lambda: 0.5)
    for detector in given:
        made.started(detector.name)
    return made


def deadlock(
    clock: FakeClock,
    status: ReportedStatus = ReportedStatus.TRUE,
    reason: str = "DockerHung",
    message: str = "INFO: task docker:20744 blocked for more than 120 seconds.",
    detector: str = "kernel-monitor",
) -> ConditionReport:
    return ConditionReport("KernelDeadlock", status, reason, message, clock.now(), detector)
