"""A restore of etcd from a backup freezes destructive acts until a person lifts it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from support.audit_lines import Kept
from support.clock import FakeClock
from support.fake_kube import FakeKube, answer, status

from kubenode.cli.freeze import as_data, lines
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.configmaps import ConfigMapStore
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.restore import (
    BEAT_SECONDS,
    FIRST_CHECK_SECONDS,
    NAME,
    KnownFile,
    Lineage,
    RestoreWatch,
    lift,
    read_lineage,
)

BEAT = timedelta(seconds=BEAT_SECONDS)
MAPS = "/api/v1/namespaces/kubenode-system/configmaps"


class RestoredCluster:
    """A cluster whose data can be put back, and processes that watch it."""

    def __init__(self, server: FakeKube, kube: Kube, folder: Path) -> None:
        self.server, self.kube, self.folder = server, kube, folder
        self.clock, self.audit = FakeClock(), Kept()
        self._backup: tuple[int, Any] = (0, {})

    def process(self, by: str = "machine", file: str = "") -> RestoreWatch:
        known = KnownFile(self.folder / file) if file else None
        return RestoreWatch(self.kube, self.clock, CollectorRegistry(), by, known, self.audit)

    def back_up(self) -> None:
        self._backup = (self.server.version, deepcopy(self.server.objects))

    def restore(self) -> None:
        self.server.version, objects = self._backup
        self.server.objects = deepcopy(objects)

    async def live(self, *processes: RestoreWatch, beats: int = 3) -> None:
        for _ in range(beats):
            self.clock.step(BEAT)
            for process in processes:
                await process.check_lineage()


@asynccontextmanager
async def restored_cluster(folder: Path) -> AsyncIterator[RestoredCluster]:
    async with FakeKube() as server:
        server.objects[MAPS] = {}
        kube = Kube(PlainTransport(server.url), attempts=1)
        try:
            yield RestoredCluster(server, kube, folder)
        finally:
            await kube.close()


async def test_a_process_that_has_just_started_takes_a_freeze_for_possible_until_it_has_looked(
    tmp_path: Path,
) -> None:
    async with restored_cluster(tmp_path) as cluster:
        process, blind = cluster.process(), cluster.process()
        assert "not read yet" in process.restored_or_unverified()
        await process.check_lineage()
        assert process.restored_or_unverified() == ""
        cluster.clock.step(timedelta(seconds=FIRST_CHECK_SECONDS))
        assert blind.restored_or_unverified() == "", (
            "who may not read the record is not held for ever"
        )


async def test_acts_wait_until_the_record_is_read_and_go_on_when_nothing_went_back(
    tmp_path: Path,
) -> None:
    async with restored_cluster(tmp_path) as cluster:
        process = cluster.process()
        assert "not read yet" in process.frozen() and not process.restored
        await cluster.live(process, beats=5)
        assert process.frozen() == ""


async def test_every_operator_freezes_when_the_data_went_back(tmp_path: Path) -> None:
    async with restored_cluster(tmp_path) as cluster:
        machine, remedy = cluster.process("machine"), cluster.process("remedy")
        await cluster.live(machine, remedy)
        cluster.back_up()
        await cluster.live(machine, remedy)
        cluster.restore()
        await machine.check_lineage()
        assert "restored from a backup" in machine.frozen()
        await remedy.check_lineage()
        late = cluster.process("defender")
        await late.check_lineage()
        assert remedy.restored and late.restored
        assert [line.what for line in cluster.audit.lines] == ["Freeze"] * 3


async def test_a_restore_is_noticed_when_the_new_writes_have_caught_up(tmp_path: Path) -> None:
    """resourceVersions of a busy cluster pass the old ones soon; the sequence does not."""
    async with restored_cluster(tmp_path) as cluster:
        process = cluster.process()
        await cluster.live(process)
        cluster.back_up()
        await cluster.live(process)
        cluster.restore()
        cluster.server.version += 10_000
        await process.check_lineage()
        assert "went back" in process.restored


@pytest.mark.parametrize("file", ["known.json", ""])
async def test_a_restore_while_no_process_ran_is_noticed_by_the_file(
    tmp_path: Path, file: str
) -> None:
    async with restored_cluster(tmp_path) as cluster:
        before = cluster.process(file=file)
        await cluster.live(before)
        cluster.back_up()
        await cluster.live(before)
        cluster.restore()
        after = cluster.process(file=file)
        await after.check_lineage()
        assert bool(after.restored) is bool(file)


async def test_the_record_of_another_etcd_freezes_a_process_that_knows_nothing(
    tmp_path: Path,
) -> None:
    async with restored_cluster(tmp_path) as cluster:
        cluster.server.version = 1_000_000
        first = cluster.process()
        await cluster.live(first)
        cluster.server.version = 500
        record = cluster.server.objects[MAPS][NAME]
        cluster.server.put(MAPS, record)
        second = cluster.process()
        await second.check_lineage()
        assert "another etcd" in second.restored


async def test_a_record_that_is_gone_freezes_who_knew_it(tmp_path: Path) -> None:
    async with restored_cluster(tmp_path) as cluster:
        process = cluster.process()
        await cluster.live(process)
        cluster.server.remove(MAPS, NAME)
        await process.check_lineage()
        assert "is gone" in process.restored
        await process.check_lineage()
        assert process.restored


async def test_a_freeze_holds_until_a_person_lifts_it(tmp_path: Path) -> None:
    async with restored_cluster(tmp_path) as cluster:
        process, other = cluster.process(), cluster.process("remedy")
        await cluster.live(process, other)
        process.went_back("/api/v1/nodes", 900, 400)
        assert process.restored and not other.restored
        await cluster.live(process, other, beats=10)
        assert process.restored and other.restored
        store = ConfigMapStore(cluster.kube, NAME)
        stored = await store.read()
        assert read_lineage(stored).noticed_by == "machine"
        await store.write(lift("2026-11-23T22:00:00Z", "ann", "all nodes are known"), stored)
        await cluster.live(process, other, beats=1)
        assert process.frozen() == other.frozen() == ""
        lifted = [line for line in cluster.audit.lines if line.what == "Lift"]
        assert {(line.who, line.why) for line in lifted} == {("ann", "all nodes are known")}


async def test_a_process_that_was_down_does_not_freeze_again_after_a_person_lifted(
    tmp_path: Path,
) -> None:
    async with restored_cluster(tmp_path) as cluster:
        ran, down = cluster.process(), cluster.process("remedy", file="known.json")
        await cluster.live(ran, down)
        cluster.back_up()
        await cluster.live(ran, down)
        cluster.restore()
        await ran.check_lineage()
        store = ConfigMapStore(cluster.kube, NAME)
        stored = await store.read()
        found = read_lineage(stored)
        await store.write(lift("2026-11-23T22:00:00Z", "ann", "known", found.lifts), stored)
        started = cluster.process("remedy", file="known.json")
        await cluster.live(ran, started)
        assert ran.frozen() == started.frozen() == ""
        cluster.restore()
        await started.check_lineage()
        assert started.restored


async def test_an_etcd_of_events_or_leases_that_went_back_freezes_nothing(tmp_path: Path) -> None:
    async with restored_cluster(tmp_path) as cluster:
        process = cluster.process()
        await cluster.live(process)
        process.went_back("/api/v1/events", 900, 1)
        process.went_back("/apis/coordination.k8s.io/v1/namespaces/n/leases", 900, 1)
        assert process.frozen() == ""


async def test_acts_wait_while_the_record_cannot_be_read(tmp_path: Path) -> None:
    async with restored_cluster(tmp_path) as cluster:
        process = cluster.process()
        await cluster.live(process)
        cluster.server.faults.append(answer(status(503, "ServiceUnavailable"), times=1))
        await process.check_lineage()
        assert "cannot be read" in process.frozen() and not process.restored
        await process.check_lineage()
        assert process.frozen() == ""


async def test_who_lost_a_connection_acts_on_nothing_until_it_has_looked(tmp_path: Path) -> None:
    async with restored_cluster(tmp_path) as cluster:
        process = cluster.process()
        await cluster.live(process)
        cluster.kube.outage.disconnected()
        assert "unreachable" in process.unverified()
        assert process.frozen() == process.restored_or_unverified() == process.unverified()
        cluster.server.faults.append(answer(status(503, "ServiceUnavailable"), times=1))
        assert not await process.check_lineage() and process.unverified(), (
            "the server is not well yet"
        )
        assert await process.check_lineage()
        assert process.frozen() == process.restored_or_unverified() == ""


async def test_a_connection_that_was_lost_while_we_looked_is_looked_behind_again(
    tmp_path: Path,
) -> None:
    async with restored_cluster(tmp_path) as cluster:
        process = cluster.process()
        await cluster.live(process)

        async def lose(request: web.Request) -> None:
            cluster.server.faults.clear()
            cluster.kube.outage.disconnected()

        cluster.server.faults.append(lose)
        await process.check_lineage()
        assert process.unverified()


async def test_who_may_not_read_the_record_is_not_held_for_ever(tmp_path: Path) -> None:
    async with restored_cluster(tmp_path) as cluster:
        process = cluster.process()
        await cluster.live(process)
        cluster.kube.outage.disconnected()
        cluster.server.faults.append(answer(status(403, "Forbidden"), times=1))
        await process.check_lineage()
        assert process.unverified() == "" and "cannot be read" in process.frozen()


async def test_a_process_looks_as_soon_as_the_server_answers_again(tmp_path: Path) -> None:
    async with restored_cluster(tmp_path) as cluster:
        process = cluster.process()
        await cluster.live(process)
        cluster.back_up()
        await cluster.live(process)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(process.run())
            while not cluster.server.asked("GET"):  # noqa: ASYNC110  the server has no event
                await asyncio.sleep(0.001)
            cluster.restore()
            cluster.kube.outage.disconnected()
            cluster.kube.outage.succeeded()
            # The clock does not move: no look is due by time.
            while process.unverified():  # noqa: ASYNC110  the watch has no event
                await asyncio.sleep(0.001)
            running.cancel()
        assert process.restored


async def test_a_list_that_is_below_what_was_seen_freezes_at_once(tmp_path: Path) -> None:
    async with restored_cluster(tmp_path) as cluster:
        process = cluster.process()
        await cluster.live(process)
        cluster.server.put("/api/v1/nodes", {"metadata": {"name": "n"}})
        nodes = Informer(cluster.kube, "/api/v1/nodes", structs(Node), clock=cluster.clock)
        await nodes._list()
        assert process.frozen() == ""
        cluster.server.go_back_to(nodes_version := int(nodes.resource_version) - 1)
        await nodes._list()
        assert f"to {nodes_version}" in process.restored


async def test_all_informers_list_anew_once_for_each_restore(tmp_path: Path) -> None:
    async with restored_cluster(tmp_path) as cluster:
        first, second = cluster.process(), cluster.process()
        await cluster.live(first, second)
        cluster.back_up()
        await cluster.live(first, second)
        cluster.restore()
        first.went_back("/api/v1/nodes", 900, 400)
        first.went_back("/api/v1/pods", 900, 400)
        await first.check_lineage()
        first.went_back("/api/v1/secrets", 900, 400)
        assert cluster.kube.restores == 1
        await second.check_lineage()
        assert cluster.kube.restores == 2, "the second process has its own informers"
        await second.check_lineage()
        assert cluster.kube.restores == 2


async def test_a_backup_of_the_same_beat_is_noticed_behind_the_lost_connection(
    tmp_path: Path,
) -> None:
    """The sequence has not moved since the backup, and no informer has listed."""
    async with restored_cluster(tmp_path) as cluster:
        process = cluster.process()
        await cluster.live(process)
        cluster.back_up()
        seen = 1_000
        cluster.server.version += seen
        cluster.kube.newest = cluster.server.version
        cluster.kube.outage.disconnected()
        await process.check_lineage()
        assert process.frozen() == "", "the server has all that was seen"
        cluster.restore()
        cluster.kube.outage.disconnected()
        await process.check_lineage()
        assert "went back" in process.restored
        cluster.clock.step(BEAT)
        stored = await ConfigMapStore(cluster.kube, NAME).read()
        await ConfigMapStore(cluster.kube, NAME).write(lift("now", "ann", "compared"), stored)
        cluster.kube.outage.disconnected()
        await process.check_lineage()
        assert process.frozen() == "", "what was seen before the restore counts no longer"


async def test_what_informers_see_while_the_record_is_written_is_no_restore(
    tmp_path: Path,
) -> None:
    """Another write that lands after ours may be seen before the answer to ours."""
    async with restored_cluster(tmp_path) as cluster:
        process = cluster.process()
        await cluster.live(process)
        cluster.kube.outage.disconnected()

        async def see(request: web.Request) -> None:
            if request.method == "PATCH":
                cluster.kube.newest = cluster.server.version + 2

        cluster.server.faults.append(see)
        await process.check_lineage()
        cluster.server.faults.clear()
        assert process.frozen() == ""


async def test_a_process_that_starts_moves_the_sequence(tmp_path: Path) -> None:
    """Processes that die more often than a beat lasts would never move it."""
    async with restored_cluster(tmp_path) as cluster:
        for _ in range(3):
            await cluster.process().check_lineage()
        stored = await ConfigMapStore(cluster.kube, NAME).read()
        assert read_lineage(stored).sequence == 3


async def test_a_list_after_a_restore_that_is_not_below_what_was_seen_proves_nothing(
    tmp_path: Path,
) -> None:
    async with restored_cluster(tmp_path) as cluster:
        process = cluster.process()
        await cluster.live(process)
        process.went_back("/api/v1/nodes", 400, 900)
        assert process.frozen() == ""


def test_a_freeze_says_how_it_is_lifted_and_a_lift_who_did_it() -> None:
    frozen = Lineage(frozen="it went back", frozen_at="2026-11-23", noticed_by="machine")
    assert any("kubenode freeze lift" in line for line in lines(frozen))
    lifted = Lineage(lifted_at="2026-11-24", lifted_by="ann", lifted_why="compared")
    assert lines(lifted) == ["not frozen; lifted 2026-11-24 by ann: compared"]
    assert as_data(frozen)["frozen"] is True and lines(Lineage()) == ["not frozen"]
