"""The agent's smaller parts: worker, heartbeat, durations, output, log lines."""

import asyncio
import logging
from datetime import timedelta
from typing import Any, cast

import pytest
from support.agent_world import a_job
from support.clock import T0, FakeClock

from agent import logs
from agent.agent import Worker
from agent.core import AgentCore
from agent.heartbeat import BOOT_ID_ANNOTATION, CLOCK_OFFSET_ANNOTATION, Heartbeat
from agent.outcome import OUTPUT_LIMIT, bounded
from agent.wire import WireJob
from kubenode.runtime import duration
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, NotFound, ServerUnreachable


class Core:
    """Stands for AgentCore: fails as often as it is told."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.recovered = 0
        self.handled: list[str] = []
        self.busy = self.most = 0

    async def recover(self) -> None:
        self.recovered += 1

    async def handle(self, job: WireJob) -> None:
        assert self.recovered == 1
        self.busy += 1
        self.most = max(self.most, self.busy)
        await asyncio.sleep(0)
        self.busy -= 1
        self.handled.append(job.metadata.name)
        if len(self.handled) <= self.failures:
            raise ServerUnreachable("no route to host")


async def run_worker(core: Core, clock: FakeClock, seen: dict[str, WireJob | None]) -> None:
    worker = Worker(cast(AgentCore, core), clock)
    for name, job in seen.items():
        worker.observe_job(name, job)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(worker.run())
        for _ in range(20):
            await clock.advance(timedelta(seconds=5))
        task.cancel()


async def test_the_worker_recovers_first_then_takes_one_job_at_a_time() -> None:
    core = Core()
    await run_worker(core, FakeClock(), {"a": a_job(), "b": a_job(), "gone": None})
    assert core.most == 1
    assert len(core.handled) == 2


async def test_a_job_is_tried_again_until_the_api_server_is_back() -> None:
    core = Core(failures=3)
    await run_worker(core, FakeClock(), {"a": a_job()})
    assert len(core.handled) == 4


class Leases:
    """Stands for Kube: one Lease."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.down = False
        self.beats = 0

    async def patch(self, path: str, body: dict[str, Any]) -> None:
        assert path.endswith("/namespaces/kubenode-agents/leases/n1")
        self.beats += 1
        if self.down:
            raise ServerUnreachable("no route to host")
        if self.lease is None:
            raise NotFound(404)
        self.lease = body

    async def create(self, path: str, body: dict[str, Any]) -> None:
        assert body["metadata"]["name"] == "n1"
        if self.lease is not None:
            raise AlreadyExists(409)
        self.lease = body


class Boot:
    def boot_id(self) -> str:
        return "boot-1"


def a_heartbeat(leases: Leases, clock: FakeClock) -> Heartbeat:
    return Heartbeat(cast(Kube, leases), cast(Any, Boot()), "n1", clock, spread=lambda: 0.5)


async def test_the_lease_is_made_then_renewed_and_tells_the_boot() -> None:
    leases, clock = Leases(), FakeClock()
    heart = a_heartbeat(leases, clock)
    await heart.beat()
    clock.step(timedelta(seconds=10))
    await heart.beat()
    assert leases.lease is not None
    said = {BOOT_ID_ANNOTATION: "boot-1", CLOCK_OFFSET_ANNOTATION: None}
    assert leases.lease["metadata"]["annotations"] == said
    assert leases.lease["spec"] == {
        "holderIdentity": "n1",
        "leaseDurationSeconds": 40,
        "renewTime": "2026-01-01T12:00:10.000000Z",
    }


async def test_lease_tells_by_how_much_the_clock_is_off_with_the_renewals_alone() -> None:
    leases, clock, measured = Leases(), FakeClock(), [None, -7200.4, 0.3]
    heart = Heartbeat(
        cast(Kube, leases), cast(Any, Boot()), "n1", clock, offset=lambda: measured.pop(0)
    )
    told = []
    for _ in range(3):
        await heart.beat()
        assert leases.lease is not None
        told.append(leases.lease["metadata"]["annotations"].get(CLOCK_OFFSET_ANNOTATION))
    assert told == [None, "-7200", "0"]
    assert leases.beats == 3


async def test_a_server_that_is_away_is_logged_once_and_tried_every_ten_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    leases, clock = Leases(), FakeClock()
    leases.down = True
    heart = a_heartbeat(leases, clock)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(heart.run())
        for _ in range(5):
            await clock.advance(timedelta(seconds=10))
        task.cancel()
    assert leases.beats == 6
    assert len(caplog.records) == 1
    assert "no route to host" in vars(caplog.records[0])["error"]


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90.0), ("1h30m", 5400.0), ("250ms", 0.25), ("1.5m", 90.0)]
)
def test_durations_are_read_as_the_api_writes_them(text: str, value: float) -> None:
    from kubenode.api.duration import parse_duration

    assert duration.seconds(text) == value == parse_duration(text).total_seconds()


@pytest.mark.parametrize("text", ["", "90", "s", "1h 30m", "-5s", "1d", "5s;"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        duration.seconds(text)


def test_output_keeps_its_beginning_and_its_end() -> None:
    assert bounded("short") == "short"
    cut = bounded("a" * 5000 + "b" * 5000)
    assert len(cut) == OUTPUT_LIMIT
    assert cut.startswith("aaa") and cut.endswith("bbb") and "left out" in cut


def test_a_log_line_carries_its_values_and_journald_its_priority() -> None:
    record = logging.makeLogRecord({"msg": "answered", "levelname": "WARNING", "job": "n1-0"})
    assert logs.LogFormatter(priorities=False).format(record) == "warning: answered job='n1-0'"
    assert logs.LogFormatter(priorities=True).format(record) == "<4>answered job='n1-0'"


def test_times_are_told_with_milliseconds() -> None:
    from agent.wire import format_time
    from kubenode.api.meta import format_time as api_format

    assert format_time(T0) == api_format(T0) == "2026-01-01T12:00:00.000Z"
