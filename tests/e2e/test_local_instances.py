"""Provider `local` makes real hosts: they boot, follow their user data, and end without a trace."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.host_rack import HostRack
from support.hosts import Host, Hosts
from support.instance_contract import CLUSTER, an_order, ended

from kubenode.providers.instances import InstanceState
from kubenode.providers.local.instances import LocalInstances
from kubenode.providers.local.power import PREFIX, Local
from kubenode.providers.port import PowerState, ProviderMachine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

USER_DATA = """\
#cloud-config
write_files:
- {path: /run/join.sh, permissions: '0700', content: "#!/bin/sh\\nhostname > /joined\\n"}
runcmd:
- [/run/join.sh]
"""


class World:
    """Real hosts on a rack, under names that no other test of the session has."""

    config: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self.booted: dict[str, Host] = {}
        self.rack = HostRack(hosts.folder, self._boot)
        self.instances = LocalInstances(self.rack.command)
        self.power = Local(self.rack.command)

    def _boot(self, name: str) -> Host:
        host = self.booted[name] = self._hosts.boot(name)
        return host

    async def settle(self) -> None:
        self.rack.wait()
        assert not [one.trouble for one in self.rack.made.values() if one.trouble]

    def traces(self) -> list[str]:
        return [trace for host in self.booted.values() for trace in host.traces()]


@pytest.fixture
def world(hosts: Hosts) -> Iterator[World]:
    world = World(hosts)
    with world.rack:
        yield world
    assert world.traces() == []


async def test_a_host_is_made_once_boots_follows_its_user_data_and_ends(world: World) -> None:
    order = an_order(world, name="rack-1", user_data=USER_DATA)  # type: ignore[arg-type]
    made = await world.instances.create(order)
    again = await world.instances.create(order)
    assert (made.state, again.provider_id) == (InstanceState.PENDING, made.provider_id)
    await world.settle()

    found = await world.instances.find(CLUSTER, order.token)
    assert found is not None and found == await world.instances.get(made.provider_id)
    host = world.booted["rack-1"]
    assert (found.state, found.addresses) == (InstanceState.RUNNING, (host.address,))
    assert host.read("/joined").strip() == "rack-1"
    assert [one.provider_id for one in await world.instances.list(CLUSTER)] == [made.provider_id]
    assert host.boots == 1

    machine = ProviderMachine(made.provider_id, "rack-1")
    assert world.power.owns(machine)
    await world.power.reset(machine, "job.r0s0a1")
    end = time.monotonic() + 60
    while not host.boot_id() or host.boots < 2:
        assert time.monotonic() < end, host.console()
    assert (await world.power.power(machine)).state is PowerState.ON

    await ended(world, made.provider_id, CLUSTER)  # type: ignore[arg-type]
    assert await world.instances.list(CLUSTER) == []
    assert world.traces() == []


async def test_a_name_is_made_anew_after_its_host_has_ended_while_it_booted(world: World) -> None:
    first = an_order(world, name="rack-2")  # type: ignore[arg-type]
    made = await world.instances.create(first)
    await ended(world, made.provider_id, CLUSTER)  # type: ignore[arg-type]
    gone = world.booted["rack-2"].address
    second = an_order(world, attempt=2, name="rack-2")  # type: ignore[arg-type]
    again = await world.instances.create(second)
    await world.settle()
    found = await world.instances.get(again.provider_id)
    assert found is not None and found.token == second.token
    assert found.state is InstanceState.RUNNING and found.addresses != (gone,)
    assert made.provider_id == f"{PREFIX}{world.rack.machine('rack-2')}" == again.provider_id
