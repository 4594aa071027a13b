"""What detectors see reaches the API server: at once, once, late if need be, with true times."""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support.agent_node import Server, Watcher, deadlock, publisher
from support.clock import FakeClock, settle
from support.lossy_disk import LossyDisk
from support.running import running

from agent.detectors import NOT_LOOKED_AT, EventReport, EventSeverity, ReportedStatus
from agent.nodestatus.conditions import RENEW_SECONDS
from agent.nodestatus.publisher import Publisher
from agent.outbox import Outbox
from kubenode.api.v1alpha1.leaves import ConditionLeaf
from kubenode.runtime.kube.errors import Forbidden, KubeError, ServerUnreachable
from kubenode.runtime.process import CannotStart
from rules.facts import ConditionFact, FactSet
from rules.leaves.condition import condition
from rules.truth import Truth

SECOND = timedelta(seconds=1)
AWAY = ServerUnreachable("no route to host")


class Site:
    """A server, a disk and a clock; processes come and go."""

    folder = Path("/outbox")

    def __init__(self) -> None:
        self.clock, self.disk = FakeClock(), LossyDisk()
        self.server = Server(self.clock)

    @asynccontextmanager
    async def process(
        self, *detectors: Watcher, boot_id: str = "boot-1"
    ) -> AsyncIterator[Publisher]:
        made = self.publisher(*(detectors or (Watcher(),)), boot_id=boot_id)
        async with running(made.run()):
            await settle()
            yield made

    def publisher(
        self, *detectors: Watcher, boot_id: str = "boot-1", agent: str = "n1"
    ) -> Publisher:
        given = self.server, self.folder, self.clock, detectors
        return publisher(*given, boot_id=boot_id, agent=agent, disk=self.disk)

    def status(self, type_: str = "KernelDeadlock") -> tuple[str, str]:
        told = self.server.conditions[type_]
        return told["status"], told["lastTransitionTime"]

    async def pass_time(self, seconds: float, steps: int = 10) -> None:
        for _ in range(steps):
            self.clock.step(SECOND * (seconds / steps))
            await settle(30)


@pytest.fixture
def site() -> Site:
    return Site()


def an_event(site: Site, message: str = "m", reason: str = "OOMKilling") -> EventReport:
    return EventReport(reason, message, EventSeverity.WARNING, site.clock.now(), "kernel-monitor")


async def test_a_fault_is_told_at_once_in_the_form_that_readers_know(site: Site) -> None:
    async with site.process() as publisher:
        publisher.report(deadlock(site.clock))
        await settle()
    assert site.server.conditions["KernelDeadlock"] == {
        "type": "KernelDeadlock",
        "status": "True",
        "reason": "DockerHung",
        "message": "INFO: task docker:20744 blocked for more than 120 seconds.",
        "lastHeartbeatTime": "2026-01-01T12:00:00Z",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }
    (event,) = site.server.said("DockerHung")
    assert event["message"] == (
        "Node condition KernelDeadlock is now: True, reason: DockerHung, message: "
        '"INFO: task docker:20744 blocked for more than 120 seconds."'
    )
    assert event["source"] == {"component": "kernel-monitor", "host": "n1"}
    about = {"kind": "Node", "apiVersion": "v1", "name": "n1", "uid": "uid-1"}
    assert event["involvedObject"] == about
    assert (event["type"], event["count"]) == ("Warning", 1)


async def test_what_changes_together_is_one_patch_and_flapping_is_bounded(site: Site) -> None:
    both = Watcher(conditions=("KernelDeadlock", "XfsShutdown"))
    async with site.process(both) as publisher:
        for number in range(200):
            status = ReportedStatus.TRUE if number % 2 else ReportedStatus.FALSE
            publisher.report(deadlock(site.clock, status))
            await settle(30 if number % 20 == 0 else 1)
        await site.pass_time(1)
        assert len(site.server.patches) <= 11
        await site.pass_time(20)
    assert site.status()[0] == "True"


async def test_nothing_is_said_to_be_well_that_nobody_has_looked_at(site: Site) -> None:
    async with site.process():
        await site.pass_time(3)
    told = site.server.conditions["KernelDeadlock"]
    assert (told["status"], told["reason"]) == ("Unknown", NOT_LOOKED_AT)
    assert site.server.events == {}


async def test_a_restart_neither_clears_a_fault_nor_makes_it_younger(site: Site) -> None:
    async with site.process() as publisher:
        publisher.report(deadlock(site.clock))
        await settle()
    site.clock.step(timedelta(minutes=3))
    async with site.process() as publisher:
        publisher.report(deadlock(site.clock, ReportedStatus.UNKNOWN, NOT_LOOKED_AT, ""))
        await site.pass_time(3)
    assert site.status() == ("True", "2026-01-01T12:00:00Z")
    assert site.server.conditions["KernelDeadlock"]["lastHeartbeatTime"] > "2026-01-01T12:03"
    assert len(site.server.said("DockerHung")) == 1


async def test_a_new_boot_knows_nothing_until_it_has_looked(site: Site) -> None:
    async with site.process() as publisher:
        publisher.report(deadlock(site.clock))
        await settle()
    async with site.process(boot_id="boot-2"):
        await site.pass_time(3)
    assert site.status()[0] == "Unknown"


@pytest.mark.parametrize("content", [b"", b"{", b'{"conditions": 3}', b"\xff\0" * 99], ids=len)
async def test_a_file_that_cannot_be_read_is_nothing_known(site: Site, content: bytes) -> None:
    site.disk.make_folder(site.folder)
    site.disk.write(site.folder / "untold.json", content)
    async with site.process():
        await site.pass_time(3)
    assert site.status()[0] == "Unknown"


async def test_conditions_are_renewed_while_their_detector_runs(site: Site) -> None:
    async with site.process() as publisher:
        publisher.report(deadlock(site.clock, ReportedStatus.FALSE, "KernelHasNoDeadlock"))
        await site.pass_time(3)
        before = site.server.conditions["KernelDeadlock"]["lastHeartbeatTime"]
        await site.pass_time(RENEW_SECONDS * 1.1)
    after = site.server.conditions["KernelDeadlock"]
    assert after["lastHeartbeatTime"] > before
    assert after["lastTransitionTime"] == "2026-01-01T12:00:00Z"


def as_a_rule_reads_it(site: Site) -> Truth:
    """`KernelDeadlock` is True, with the freshness that rules ask for."""
    told = site.server.conditions["KernelDeadlock"]
    since, heard = (
        datetime.fromisoformat(told[f"last{name}Time"]) for name in ("Transition", "Heartbeat")
    )
    fact = ConditionFact("KernelDeadlock", told["status"], "R", "m", since, heard)
    leaf, facts = ConditionLeaf(type="KernelDeadlock"), FactSet("n1", conditions={fact.type: fact})
    return condition(leaf, facts, site.clock.now()).truth


async def test_f03_a_detector_that_died_leaves_no_condition_that_rules_trust(site: Site) -> None:
    async with site.process() as publisher:
        publisher.report(deadlock(site.clock))
        for _ in range(30):
            await site.pass_time(60, steps=1)
            assert as_a_rule_reads_it(site) is Truth.TRUE
        publisher.failed("kernel-monitor")
        await site.pass_time(15 * 60, steps=15)
        assert as_a_rule_reads_it(site) is Truth.UNKNOWN
        publisher.started("kernel-monitor")
        await site.pass_time(RENEW_SECONDS * 1.1, steps=5)
        assert as_a_rule_reads_it(site) is Truth.TRUE


async def test_f03_an_agent_that_died_leaves_no_condition_that_rules_trust(site: Site) -> None:
    async with site.process() as publisher:
        publisher.report(deadlock(site.clock))
        await site.pass_time(3)
    site.clock.step(timedelta(minutes=15))
    assert as_a_rule_reads_it(site) is Truth.UNKNOWN


async def test_f03_what_a_restart_brings_back_is_not_renewed_without_its_detector(
    site: Site,
) -> None:
    async with site.process() as publisher:
        publisher.report(deadlock(site.clock))
        await site.pass_time(3)
    site.clock.step(timedelta(minutes=20))
    async with site.process() as publisher:
        publisher.failed("kernel-monitor")
        await site.pass_time(900, steps=30)
    assert site.server.conditions["KernelDeadlock"]["lastHeartbeatTime"] < "2026-01-01T12:01"


@pytest.mark.parametrize("error", [AWAY, Forbidden(403), KubeError(500)], ids=str)
async def test_away_it_keeps_the_newest_state_and_tells_it_with_its_time(
    site: Site, error: KubeError
) -> None:
    site.server.down = error
    async with site.process() as publisher:
        for minute in range(5):
            publisher.report(
                deadlock(site.clock, ReportedStatus.FALSE if minute % 2 else ReportedStatus.TRUE)
            )
            publisher.report(an_event(site))
            await site.pass_time(60, steps=4)
        site.server.down = None
        await site.pass_time(60, steps=4)
    assert site.status() == ("True", "2026-01-01T12:04:00Z")
    (event,) = site.server.said("OOMKilling")
    assert (event["count"], event["firstTimestamp"]) == (5, "2026-01-01T12:00:00Z")
    assert event["lastTimestamp"] == "2026-01-01T12:04:00Z"


async def test_events_outlive_the_process_while_the_server_is_away(site: Site) -> None:
    site.server.down = AWAY
    async with site.process() as publisher:
        publisher.report(an_event(site))
        await settle()
    site.server.down = None
    site.clock.step(timedelta(hours=2))
    async with site.process(boot_id="boot-2"):
        await settle()
    (event,) = site.server.events.values()
    assert event["firstTimestamp"] == "2026-01-01T12:00:00Z"


async def test_an_event_whose_answer_was_lost_is_not_written_twice(site: Site) -> None:
    async with site.process() as publisher:
        await site.pass_time(3)
        site.server.lost = AWAY
        publisher.report(an_event(site))
        await site.pass_time(3)
    assert [e["count"] for e in site.server.said("OOMKilling")] == [1]


async def test_a_storm_of_events_is_bounded_and_what_is_left_out_is_told(site: Site) -> None:
    async with site.process() as publisher:
        for number in range(2000):
            publisher.report(an_event(site, f"line {number}", f"Reason{number % 400}"))
        await site.pass_time(10)
        assert len(site.server.events) <= 26
        await site.pass_time(20 * 60, steps=120)
    assert site.server.said("EventsLeftOut")
    assert len(publisher.tally.waiting()) <= 256


async def test_a_node_that_is_made_anew_is_told_everything(site: Site) -> None:
    async with site.process() as publisher:
        publisher.report(deadlock(site.clock))
        await site.pass_time(3)
        site.server.uid, site.server.conditions = "uid-2", {}
        await site.pass_time(RENEW_SECONDS * 1.1 + 5, steps=30)
    assert site.status() == ("True", "2026-01-01T12:00:00Z")


class Broken(LossyDisk):
    def write(self, path: Path, content: bytes) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))


async def test_a_disk_that_does_not_work_does_not_silence_it(site: Site) -> None:
    site.disk = Broken()
    async with site.process() as publisher:
        publisher.report(deadlock(site.clock))
        await settle()
        assert site.server.conditions


async def test_a_detector_may_speak_for_its_parts(site: Site) -> None:
    """One detector reads all logs; its monitors are the components of what it says."""
    async with site.process(Watcher("logs", ("KernelDeadlock",))) as publisher:
        publisher.sink("logs").report(deadlock(site.clock))
        await settle()
        publisher.sink("psi").report(deadlock(site.clock, ReportedStatus.FALSE))
        assert publisher.refused == 1
    assert site.status()[0] == "True"
    (event,) = site.server.events.values()
    assert event["source"]["component"] == "kernel-monitor"


async def test_an_agent_of_another_name_writes_about_its_machine(site: Site) -> None:
    made = site.publisher(agent="sh-113")
    async with running(made.run()):
        made.report(an_event(site))
        await settle()
    (event,) = site.server.events.values()
    assert event["involvedObject"]["kind"] == "Machine"
    assert event["involvedObject"]["name"] == "sh-113"
    assert event["related"]["name"] == "n1"


def test_two_detectors_for_one_condition_are_a_mistake_of_the_settings(site: Site) -> None:
    with pytest.raises(CannotStart, match=r"KernelDeadlock: detectors a and b both report it"):
        site.publisher(Watcher("a"), Watcher("b"))
    with pytest.raises(CannotStart, match="condition Ready is kubelet's"):
        site.publisher(Watcher("a", ("Ready",)))


def test_a_report_never_raises(site: Site) -> None:
    made = site.publisher()
    made.report(deadlock(site.clock, detector="another"))
    assert made.refused == 1


async def test_a_power_cut_leaves_the_old_outbox_or_the_new_one(site: Site) -> None:
    site.server.down = AWAY
    async with site.process() as publisher:
        publisher.report(an_event(site, "first"))
        await site.pass_time(3)
        publisher.report(an_event(site, "second"))
        await site.pass_time(3)
    seen = set()
    for disk in site.disk.after_power_cut():
        left = Outbox(site.folder, disk).load("boot-1")
        seen.add(tuple(event.message for event in left.events))
    assert seen == {("first", "second")}
