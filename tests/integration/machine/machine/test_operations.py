"""What a repair asks of a machine is done by its provider, here a site's own command.

API server and command are real; the rack that the command talks to has hosts of paper.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.control_plane import ControlPlane
from support.host_rack import HostRack
from support.machine_life import Hosts
from support.machine_world import machine_world
from support.paper_hosts import PaperHost

from kubenode.api.v1alpha1.machinestatus import LastOperation
from kubenode.providers.instances import InstanceProviders
from kubenode.providers.local.instances import LocalInstances
from kubenode.runtime.kube.paths import custom
from machine.ground import MachineSettings
from machine.site_settings import Provisioning

pytestmark = pytest.mark.integration

NAME, CLASS = "operated-1", "operated"


class Site:
    """booted  every host of the one machine, in turn"""

    def __init__(self, folder: Path) -> None:
        self.booted: list[PaperHost] = []
        self.rack = HostRack(folder, self._boot)

    def _boot(self, name: str) -> PaperHost:
        self.booted.append(PaperHost())
        return self.booted[-1]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    with made.rack:
        yield made


@pytest.fixture
async def hosts(cluster: ControlPlane, tmp_path: Path, site: Site) -> AsyncIterator[Hosts]:
    """One machine that was made, and runs."""
    providers = InstanceProviders([LocalInstances(site.rack.command)])
    made = Provisioning(providers, "test", cluster.server, cluster.ca_file.read_text())
    settings = MachineSettings(stale=3600.0)
    world_of = machine_world(cluster, tmp_path, settings, provisioning=made)
    async with world_of as world, asyncio.TaskGroup() as tasks:
        hosts = Hosts(world)
        living = tasks.create_task(hosts.live())
        kind = {"apiVersion": "kubenode.io/v1alpha1", "kind": "MachineClass"}
        body = {**kind, "metadata": {"name": CLASS}, "spec": {"provider": "local", "config": {}}}
        await hosts.kube.create(custom("machineclasses"), body)
        try:
            await hosts.make(NAME, origin="Provision", classRef=CLASS, node="None")
            await hosts.phase(NAME, "Provisioned")
            await hosts.beat(NAME)
            await hosts.phase(NAME, "Running")
            yield hosts
            await world.delete(NAME)
            await hosts.gone(custom("machines", NAME))
        finally:
            await hosts.kube.delete(custom("machineclasses", CLASS))
            living.cancel()
            await hosts.clean()


async def answer(hosts: Hosts, type_: str, id_: str) -> LastOperation:
    """What the operator says in the end to one that was asked for as a job does."""
    await hosts.change(NAME, {"operation": {"id": id_, "type": type_, "permit": "p-1"}})

    def over(last: LastOperation | None) -> bool:
        return last is not None and last.id == id_ and last.state != "Running"

    machine = await hosts.seen(NAME, lambda m: over(m.status.last_operation), f"{type_} is over")
    assert machine.status.last_operation is not None
    return machine.status.last_operation


async def test_redeploy_and_reimage_are_done_once_and_answered(hosts: Hosts, site: Site) -> None:
    (first,) = site.booted
    last = await answer(hosts, "Redeploy", "rj-1")
    assert (last.state, last.code) == ("Succeeded", "OK")
    await asyncio.to_thread(site.rack.wait)
    assert (first.reboots, first.destroyed) == (1, False)

    last = await answer(hosts, "Reimage", "rj-2")
    assert (last.state, last.code) == ("Succeeded", "OK")
    await asyncio.to_thread(site.rack.wait)
    _, second = site.booted
    assert first.destroyed and second.ran == first.ran, "its user data is followed anew"
    assert site.rack.made[NAME].asked == {"rj-1": "redeploy", "rj-2": "reimage"}

    last = await answer(hosts, "Replace", "rj-3")
    assert (last.state, last.code) == ("Failed", "FAILED_PRECONDITION"), "nobody makes another"
    assert not second.destroyed
