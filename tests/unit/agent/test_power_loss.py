"""At most one act for a request, whatever a power cut takes that was not flushed.

The worst host is taken: its boot ID stays the same, so that nothing but the journal forbids.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from support.agent_world import REQUEST, Killed, World, a_job, an_entry
from support.clock import T0
from support.lossy_disk import LossyDisk

from agent.actions import Bench
from agent.core import AgentCore
from agent.journal import FileJournal, JournalError
from agent.outcome import done
from agent.request import Key

FOLDER = Path("/state/requests")
KEY = Key("job-uid-1", REQUEST)
FINAL = ("Done", "Failed", "Refused")


@dataclass
class PowerWorld(World):
    disk: LossyDisk = field(default_factory=LossyDisk)

    def core(self) -> AgentCore:
        journal = FileJournal(FOLDER, disk=self.disk)
        return AgentCore(self, Bench(self, self.clock, 0.0, {}), journal, node="n1", agent="n1")

    async def live(self) -> None:
        """One process, until it has handled the job or is killed."""
        core = self.core()
        await core.recover()
        if self.job is not None:
            await core.handle(self.job)


def fresh(folder: Path, **levers: object) -> PowerWorld:
    world = PowerWorld(folder, **levers)  # type: ignore[arg-type]
    world.disk.moment = world.moment
    world.disk.folders.clear()
    return world


def restarted(dead: PowerWorld, disk: LossyDisk) -> PowerWorld:
    """The next process on what is left of the disk; host and API server are as they were."""
    made = PowerWorld(
        dead.folder,
        job=dead.job,
        active=dead.active,
        invocation=dead.invocation,
        forgotten=dead.forgotten,
        comes_up=dead.comes_up,
        clock=dead.clock,
        acts=list(dead.acts),
        answers=list(dead.answers),
        disk=disk,
    )
    made.disk.moment = made.moment
    return made


async def deaths(folder: Path, **levers: object) -> list[PowerWorld]:
    """A life that was killed, at each of its moments: before it has an effect and after."""
    found = []
    for applied in (False, True):
        for moment in range(1, 100):
            world = fresh(folder, die_at=moment, applied=applied, **levers)
            try:
                await world.live()
            except Killed:
                found.append(world)
                continue
            assert moment > 10, "a life has more effects than that"
            break
    return found


A_STOP = {"action": "StopUnit", "unit": "kubelet.service"}
A_RESTART = {"action": "RestartUnit", "unit": "kubelet.service"}


@pytest.mark.parametrize("step", [A_RESTART, A_STOP], ids=lambda step: str(step["action"]))
async def test_it_acts_at_most_once_whatever_is_lost_at_any_moment(
    tmp_path: Path, step: dict[str, str]
) -> None:
    lives, losses = 0, 0
    for dead in await deaths(tmp_path, job=a_job(agent_step=step), active="active"):
        lives += 1
        for disk in dead.disk.after_power_cut():
            losses += 1
            world = restarted(dead, disk)
            await world.live()
            assert len(world.acts) <= 1, (dead.die_at, dead.applied)
            answer = world.answer_now
            assert answer is not None and answer.state in FINAL
            if answer.state == "Done":
                assert len(world.acts) == 1
    assert lives > 20 and losses > lives


@pytest.mark.exhaustive
async def test_it_acts_at_most_once_when_the_power_goes_twice(tmp_path: Path) -> None:
    for dead in await deaths(tmp_path):
        for disk in dead.disk.after_power_cut():
            for moment in range(1, 30):
                world = restarted(dead, next(disk.after_power_cut()))
                world.die_at = moment
                try:
                    await world.live()
                except Killed:
                    for left in world.disk.after_power_cut():
                        last = restarted(world, left)
                        await last.live()
                        assert len(last.acts) <= 1
                else:
                    break


def test_a_write_that_returned_survives_every_power_cut() -> None:
    disk = LossyDisk()
    journal = FileJournal(FOLDER, disk=disk)
    begun, ended = an_entry(), an_entry(finished_at=T0, outcome=done("well"))
    journal.begin(KEY, begun, T0)
    for left in disk.after_power_cut():
        assert FileJournal(FOLDER, disk=left).read(KEY) == begun
    journal.finish(KEY, ended)
    for left in disk.after_power_cut():
        assert FileJournal(FOLDER, disk=left).read(KEY) == ended


def test_a_write_under_way_leaves_the_old_entry_or_the_new_one() -> None:
    begun, ended = an_entry(), an_entry(finished_at=T0, outcome=done("well"))
    for moment in range(1, 5):
        world = fresh(Path("/unused"))
        journal = FileJournal(FOLDER, disk=world.disk)
        journal.begin(KEY, begun, T0)
        world.moments, world.die_at = 0, moment
        with pytest.raises(Killed):
            journal.finish(KEY, ended)
        for left in world.disk.after_power_cut():
            assert FileJournal(FOLDER, disk=left).read(KEY) in (begun, ended)


def garbled(content: bytes) -> Iterator[bytes]:
    """Every single bit turned, every length, and other things that disks give back."""
    for place in range(len(content)):
        for bit in range(8):
            yield content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
        yield content[:place]
        yield content[:place] + b"\0" * (len(content) - place)
    yield content * 2


def test_a_garbled_entry_is_never_believed_and_still_forbids() -> None:
    disk = LossyDisk()
    journal = FileJournal(FOLDER, limit=1, disk=disk)
    journal.begin(KEY, an_entry(finished_at=T0, outcome=done("well")), T0)
    (name,) = disk.names(FOLDER)
    good = disk.read(FOLDER / name)
    far = T0 + timedelta(days=4000)
    for bad in garbled(good):
        disk.write(FOLDER / name, bad)
        with pytest.raises(JournalError, match="cannot be read"):
            journal.read(KEY)
    assert list(journal.interrupted()) == []
    with pytest.raises(JournalError):
        journal.begin(Key("another", "r0"), an_entry(), far)  # it is not dropped for its age
    assert disk.names(FOLDER) == [name]


async def test_a_garbled_entry_never_leads_to_an_act(tmp_path: Path) -> None:
    world = fresh(tmp_path)
    await world.live()
    path = FOLDER / str(KEY)
    content = world.disk.read(path)
    asked = a_job()
    for bad in (b"", content[:-1], b"\0" * len(content), content[:20] + b"x" + content[21:]):
        again = restarted(world, next(world.disk.after_power_cut()))
        again.job = asked
        again.disk.write(path, bad)
        await again.live()
        assert again.acts == world.acts
        answer = again.answer_now
        assert answer is not None
        assert (answer.state, "not repeated" in answer.output) == ("Failed", True)


def test_an_entry_of_an_agent_that_wrote_no_checksum_is_read() -> None:
    disk = LossyDisk()
    journal = FileJournal(FOLDER, disk=disk)
    disk.write(FOLDER / str(KEY), msgspec.json.encode(an_entry()))
    assert journal.read(KEY) == an_entry()
