"""A host whose clock is wrong by hours takes what repairs its clock, and nothing stale."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from support.agent_world import AGENT, NODE, World, a_job
from support.clock import T0, FakeClock

from agent.actions import Bench
from agent.core import AgentCore
from agent.journal import MemoryJournal
from agent.wire import WireJob
from kubenode.runtime.kube.servertime import ServerTime

DATE = "%a, %d %b %Y %H:%M:%S GMT"
OFF = [timedelta(hours=-2), timedelta(minutes=3), timedelta(hours=2)]


@dataclass
class Skewed(World):
    """A host whose clock is ahead by `off`; the API server's is at `server`."""

    off: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        self.clock = FakeClock(T0 + self.off)
        self.server_time = ServerTime(self.clock)
        self.tells = True

    async def read(self, name: str) -> WireJob | None:
        if self.tells:
            date = (self.clock.now() - self.off).strftime(DATE)
            self.server_time.answered(date, self.clock.monotonic())
        return await super().read(name)

    def core(self) -> AgentCore:
        bench = Bench(self, self.clock, 0.0, {})
        return AgentCore(
            self, bench, MemoryJournal(), node=NODE, agent=AGENT,
            server_now=self.server_time.latest,
        )  # fmt: skip


def expires(job: WireJob, after: timedelta) -> WireJob:
    assert job.status is not None and job.status.steps is not None
    steps = [msgspec.structs.replace(step, expires_at=T0 + after) for step in job.status.steps]
    return msgspec.structs.replace(job, status=msgspec.structs.replace(job.status, steps=steps))


@pytest.mark.parametrize("off", OFF)
async def test_service_is_restarted_when_the_hosts_clock_is_off(
    off: timedelta, tmp_path: Path
) -> None:
    world = Skewed(tmp_path, expires(a_job(), timedelta(minutes=2)), off=off)
    assert world.job is not None
    await world.core().handle(world.job)
    assert len(world.acts) == 1
    assert world.answer_now is not None and world.answer_now.state == "Done"


@pytest.mark.parametrize("off", [timedelta(0), *OFF])
async def test_stale_request_is_refused_when_the_hosts_clock_is_off(
    off: timedelta, tmp_path: Path
) -> None:
    world = Skewed(tmp_path, expires(a_job(), -timedelta(seconds=1)), off=off)
    assert world.job is not None
    await world.core().handle(world.job)
    assert world.acts == []
    assert world.answer_now is not None and world.answer_now.state == "Refused"
    assert "the API server's clock is past it" in world.answer_now.output


async def test_agent_that_has_measured_nothing_goes_by_its_own_clock(tmp_path: Path) -> None:
    job = expires(a_job(), timedelta(minutes=2))
    world = Skewed(tmp_path, job, off=timedelta(minutes=3))
    world.tells = False
    await world.core().handle(job)
    assert world.acts == []
    assert world.answer_now is not None
    assert "the host's clock is past it" in world.answer_now.output
