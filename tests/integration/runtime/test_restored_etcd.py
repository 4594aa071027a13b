"""etcd is put back to a backup under a real API server: operators freeze, and a person lifts it."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from support.command import kubenode
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.machine_world import OPERATOR, OPERATOR_GROUPS, closing, install

from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect
from kubenode.runtime.restore import KnownFile, RestoreWatch


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    require(CONTROL_PLANE)
    with ControlPlane(controllers=False, scheduler=False) as found:
        install(found)
        yield found


def ended(plane: ControlPlane) -> Path:
    """The data of etcd, with nobody at work on it."""
    plane.part("kube-apiserver").kill()
    plane.part("etcd").kill()
    return plane.folder / "etcd"


def started(plane: ControlPlane) -> None:
    plane.restart("etcd")
    plane.restart("kube-apiserver")


async def counted(watch: RestoreWatch, times: int) -> None:
    """Let the record be counted up, without waiting for the minutes between."""
    for _ in range(times):
        watch._moved_at = float("-inf")
        await watch.check_lineage()
        assert watch.frozen() == ""


async def test_a_restored_etcd_freezes_who_ran_and_who_was_restarted_until_it_is_lifted(
    plane: ControlPlane, tmp_path: Path
) -> None:
    config = str(plane.kubeconfig_for(OPERATOR, OPERATOR_GROUPS))
    file, clock = KnownFile(tmp_path / "lineage.json"), SystemClock()

    def watch(kube: Kube, known: KnownFile | None = None) -> RestoreWatch:
        return RestoreWatch(kube, clock, CollectorRegistry(), "machine", known)

    backup = tmp_path / "backup"
    async with closing(Kube(connect(config))) as kube:
        ran, stopped = watch(kube), watch(kube, file)
        await counted(stopped, 2)
        await asyncio.to_thread(shutil.copytree, ended(plane), backup)
        started(plane)  # daemons die with the thread that starts them
        await counted(stopped, 2)
        await ran.check_lineage()
        assert ran.frozen() == ""
        data = ended(plane)
        await asyncio.to_thread(shutil.rmtree, data)
        await asyncio.to_thread(shutil.copytree, backup, data)
        started(plane)  # daemons die with the thread that starts them
        restarted = watch(kube, file)
        await restarted.check_lineage()
        assert "went back" in restarted.restored
        await ran.check_lineage()
        assert "restored from a backup" in ran.frozen()
        admin = ("--kubeconfig", str(plane.kubeconfig))
        shown = await asyncio.to_thread(kubenode, "freeze", "show", "-o", "json", *admin)
        assert shown.returncode == 1 and json.loads(shown.stdout)["noticedBy"] == "machine"
        lifted = await asyncio.to_thread(
            kubenode, "freeze", "lift", "--why", "all nodes are known", *admin
        )
        assert lifted.returncode == 0 and "lifted by admin" in lifted.stdout
        for one in (ran, restarted):
            await one.check_lineage()
            assert one.frozen() == ""
