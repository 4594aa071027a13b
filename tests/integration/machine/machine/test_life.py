"""Imported hosts on a real API server: from the first sign of life to Running, and away again."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.control_plane import ControlPlane
from support.machine_life import Hosts, assigned, healthy
from support.machine_world import machine_world

from kubenode.runtime.kube.paths import custom
from machine.ground import MachineSettings
from machine.machine.nodesync import LABELS_FROM_MACHINE, TAINTS_FROM_MACHINE

pytestmark = pytest.mark.integration

SETTINGS = MachineSettings(stale=3600.0)
"""No agent falls silent because the machine that tests is slow."""


@pytest.fixture
async def hosts(cluster: ControlPlane, tmp_path: Path) -> AsyncIterator[Hosts]:
    async with machine_world(cluster, tmp_path, SETTINGS) as world, asyncio.TaskGroup() as tasks:
        hosts = Hosts(world)
        living = tasks.create_task(hosts.live())
        try:
            yield hosts
        finally:
            living.cancel()
            await hosts.clean()


async def test_a_host_is_imported_runs_degrades_and_is_released_as_it_was(hosts: Hosts) -> None:
    template = {
        "labels": {"pool": "online"},
        "taints": [{"key": "pool", "value": "online", "effect": "NoSchedule"}],
    }
    foreign = [{"key": "theirs", "effect": "PreferNoSchedule"}]
    await hosts.node("life-1", ready=False, labels={"theirs": "yes"}, taints=foreign)
    await hosts.make("life-1", nodeTemplate=template)
    await hosts.phase("life-1", "Importing")
    await hosts.beat("life-1")
    await hosts.condition("life-1", "NodeReady", "NotReady")
    await hosts.ready("life-1")
    machine = await hosts.phase("life-1", "Running")
    assert machine.metadata.finalizers == ["kubenode.io/machine"]
    assert machine.status.node_ref is not None and machine.status.node_ref.uid
    assert machine.status.initialized_at is not None
    seen = await hosts.live_node("life-1")
    assert seen["metadata"]["labels"].items() >= {"pool": "online", "theirs": "yes"}.items()
    taints = {t["key"] for t in seen["spec"]["taints"]}
    assert {"pool", "theirs"} <= taints
    assert seen["metadata"]["annotations"][LABELS_FROM_MACHINE] == "pool=online"
    await hosts.condition("life-1", "Available", "Available")
    await hosts.ready("life-1", ready=False)
    await hosts.phase("life-1", "Degraded")
    await hosts.ready("life-1")
    await hosts.phase("life-1", "Running")
    await hosts.world.delete("life-1")
    await hosts.gone(custom("machines", "life-1"))
    left = await hosts.live_node("life-1")
    assert "pool" not in left["metadata"]["labels"] and left["metadata"]["labels"]["theirs"]
    assert "pool" not in {t["key"] for t in left["spec"]["taints"]}
    annotations = left["metadata"].get("annotations", {})
    assert not {LABELS_FROM_MACHINE, TAINTS_FROM_MACHINE, "kubenode.io/machine"} & set(annotations)


async def test_f31_a_new_revision_is_updating_until_its_own_report(hosts: Hosts) -> None:
    """The component is nobody's: no set changes it meanwhile."""
    await hosts.node("life-2")
    await hosts.make("life-2", components=[assigned("runc", "1-0000000001")])
    await hosts.beat("life-2")
    await hosts.condition("life-2", "ComponentsReady", "Installing")
    await hosts.report("life-2", runc=healthy("1-0000000001"))
    await hosts.phase("life-2", "Running")
    await hosts.assign("life-2", assigned("runc", "1-0000000002"))
    await hosts.phase("life-2", "Updating")
    await hosts.condition("life-2", "UpToDate", "Updating")
    await hosts.report("life-2", runc=healthy("1-0000000002"))
    await hosts.phase("life-2", "Running")


async def test_a_host_outside_kubernetes_waits_for_no_node(hosts: Hosts) -> None:
    await hosts.make("life-3", node="None")
    await hosts.beat("life-3")
    machine = await hosts.phase("life-3", "Running")
    assert machine.status.node_ref is None
    assert machine.status.condition("NodeReady") is None
    await hosts.world.delete("life-3")
    await hosts.gone(custom("machines", "life-3"))


async def test_mode_observe_reports_and_writes_nothing_elsewhere(hosts: Hosts) -> None:
    template = {"labels": {"pool": "online"}}
    await hosts.node("life-4")
    await hosts.make("life-4", mode="Observe", nodeTemplate=template)
    await hosts.beat("life-4")
    machine = await hosts.phase("life-4", "Running")
    seen = await hosts.live_node("life-4")
    assert "pool" not in seen["metadata"].get("labels", {})
    assert machine.metadata.finalizers == []
    await hosts.change("life-4", {"mode": "Manage"})
    await hosts.condition("life-4", "NodeSynced", "Synced")
    assert (await hosts.live_node("life-4"))["metadata"]["labels"]["pool"] == "online"
