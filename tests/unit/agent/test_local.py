"""Repairs without asking: off by default, bounded over restarts, and never beside a job."""

import asyncio
import errno
from datetime import timedelta
from pathlib import Path

import pytest
from support.agent_world import UNIT, World, a_job, with_status
from support.clock import FakeClock, settle
from support.hanging import Hanging
from support.lossy_disk import LossyDisk

from agent.agent import Worker
from agent.detectors import EventReport, Report
from agent.host import UnitVerb
from agent.local.healer import LIMITED, LocalHealer
from agent.local.limit import FILE, RestartLimit
from agent.local.rule import LocalRules, LocalUnit
from agent.patience import AT_ONCE, Waits
from agent.settings import AgentSettingsError, load

RULE = LocalUnit(failed_for="2m", most=2, within="1h")


class Told:
    def __init__(self) -> None:
        self.reports: list[Report] = []

    def report(self, report: Report) -> None:
        self.reports.append(report)

    @property
    def reasons(self) -> list[str]:
        return [report.reason for report in self.reports]


class FullDisk(LossyDisk):
    def write(self, path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))


class Site:
    """A host whose unit has failed, and processes of the agent over one disk."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock, self.disk = folder, FakeClock(), LossyDisk()
        self.host = World(folder / "unused", clock=self.clock)
        self.told, self.hands, self.job = Told(), asyncio.Lock(), ""

    def process(self, patience: Waits = AT_ONCE) -> LocalHealer:
        limit = RestartLimit(self.folder, {UNIT: RULE}, self.disk)
        return LocalHealer(
            limit, self.host, self.hands, lambda: self.job, self.told, self.clock, patience
        )

    async def looks(self, healer: LocalHealer, minutes: float) -> None:
        """As it looks while time passes, twice a minute."""
        for _ in range(int(minutes * 2)):
            looking = asyncio.ensure_future(healer.check_units())
            await settle()
            if not looking.done():  # it waits for the unit to settle
                await self.clock.advance(timedelta(seconds=11))
            await looking
            self.clock.step(timedelta(seconds=30))

    @property
    def starts(self) -> int:
        return self.host.acts.count((UnitVerb.RESTART, UNIT))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_a_unit_that_stays_failed_is_started_and_it_is_told(site: Site) -> None:
    healer = site.process()
    await site.looks(healer, 1.5)
    assert site.starts == 0
    await site.looks(healer, 1.5)
    assert (site.starts, site.host.active) == (1, "active")
    (report,) = site.told.reports
    assert isinstance(report, EventReport)
    assert report.reason == "LocalRestart"
    assert "containerd.service is failed" in report.message


@pytest.mark.parametrize("active", ["inactive", "activating", "active", "deactivating"])
async def test_what_did_not_fail_is_left_alone(site: Site, active: str) -> None:
    site.host.active = active
    await site.looks(site.process(), 20)
    assert site.starts == 0


async def test_a_unit_that_recovers_starts_counting_anew(site: Site) -> None:
    healer = site.process()
    await site.looks(healer, 1.5)
    site.host.active = "active"
    await site.looks(healer, 0.5)
    site.host.active = "failed"
    await site.looks(healer, 1.5)
    assert site.starts == 0


async def test_what_cannot_be_seen_is_left_alone(site: Site) -> None:
    site.host.known = False
    await site.looks(site.process(), 10)
    assert site.starts == 0


async def test_a_job_goes_first(site: Site) -> None:
    site.job = "job n1-0123 is open"
    await site.looks(site.process(), 10)
    assert site.starts == 0


async def test_never_while_the_agent_acts_for_a_job(site: Site) -> None:
    async with site.hands:
        await site.looks(site.process(), 10)
    assert site.starts == 0


async def test_the_limit_holds_over_restarts_of_the_agent_and_is_told_once(site: Site) -> None:
    site.host.comes_up = "failed"
    for _ in range(5):
        await site.looks(site.process(), 10)
    assert site.starts == 2
    assert site.told.reasons.count("LocalRestartFailed") == 2
    healer = site.process()
    before = site.told.reasons.count("LocalRestartLimit")
    await site.looks(healer, 9)
    assert site.told.reasons.count("LocalRestartLimit") == before + 1
    site.clock.step(timedelta(hours=1))
    await site.looks(healer, 1)
    assert site.starts == 3


async def test_a_clock_that_goes_back_gives_no_more_starts(site: Site) -> None:
    site.host.comes_up = "failed"
    healer = site.process()
    await site.looks(healer, 10)
    site.clock.set_wall(timedelta(days=-3))
    await site.looks(healer, 30)
    assert site.starts == 2


@pytest.mark.parametrize("content", [b"", b"{", b'{"starts": 3}', b"\0" * 40], ids=repr)
async def test_a_limit_that_cannot_be_read_is_used_up(site: Site, content: bytes) -> None:
    site.disk.make_folder(site.folder)
    site.disk.write(site.folder / FILE, content)
    healer = site.process()
    await site.looks(healer, 50)
    assert site.starts == 0
    await site.looks(healer, 20)
    assert site.starts == 1


async def test_what_cannot_be_written_down_is_not_done(site: Site) -> None:
    site.disk = FullDisk()
    await site.looks(site.process(), 10)
    assert site.starts == 0
    assert "cannot be written down" in site.told.reports[0].message


def test_nothing_is_repaired_without_asking_by_default() -> None:
    assert LocalRules().units == {}


@pytest.mark.parametrize(
    ("name", "unit", "said"),
    [
        ("kubelet", LocalUnit(), "local.units.kubelet: name a unit such as kubelet.service"),
        ("a.service", LocalUnit(failed_for="soon"), "failed_for: 'soon' is no duration"),
        ("a.service", LocalUnit(most=0), "most 0: give a number from 1 to 20"),
        ("kubenode-agent.service", LocalUnit(), "the agent does not restart itself"),
    ],
)
def test_complaints_name_setting_value_and_remedy(name: str, unit: LocalUnit, said: str) -> None:
    (complaint,) = LocalRules(units={name: unit}).complaints()
    assert said in complaint


def test_a_job_is_open_until_it_is_closed_or_gone(site: Site) -> None:
    worker = Worker(site.host.core(), site.clock)
    assert worker.busy() == ""
    worker.observe_job("n1-0123", a_job())
    assert worker.busy() == "job n1-0123 is open"
    worker.observe_job("n1-0123", with_status(a_job(), phase="Succeeded"))
    assert worker.busy() == ""
    worker.observe_job("n1-0123", a_job(phase="NeedsHuman"))
    worker.observe_job("n1-0123", None)
    assert worker.busy() == ""


def test_a_mistake_in_the_file_is_told_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('node = "n"\nserver = "http://h:1"\n[local.units.kubelet]\nmost = 0\n')
    with pytest.raises(AgentSettingsError, match=r"local\.units\.kubelet\.most 0: give a number"):
        load({}, str(file))
    with pytest.raises(AgentSettingsError, match=r"name a unit such as kubelet\.service"):
        load({}, str(file))


async def test_while_the_disk_of_the_record_hangs_nothing_is_started(site: Site) -> None:
    await site.looks(site.process(Hanging()), 5)
    assert site.starts == 0
    assert site.told.reasons == [LIMITED]  # once
