"""F27: hosts that take longer to come than a bootstrap token lives."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support.control_plane import ControlPlane
from support.fake_instances import FakeInstances
from support.machine_host import Ahead, a_host
from support.machine_sets import a_class
from support.machine_world import MachineWorld, machine_world, until

from kubenode.providers.instances import InstanceProviders, InstanceState
from kubenode.runtime.kube.paths import custom
from machine.bootstrap.tokens import StoredToken
from machine.site_settings import Provisioning

pytestmark = pytest.mark.integration

NAME = "slow-1"
STEP = timedelta(minutes=50)
"""Within the life of a token, which is an hour, and past the half of it."""
CLASS = a_class("slow", nodeStartupTimeout="6h")


async def test_f27_the_token_in_its_user_data_lets_a_host_in_though_it_comes_hours_later(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    cloud, clock = FakeInstances(state=InstanceState.PENDING), Ahead()
    ca = cluster.ca_file.read_text()
    made = Provisioning(InstanceProviders([cloud]), "test", cluster.server, ca)
    async with machine_world(cluster, tmp_path, clock=clock, provisioning=made) as world:
        await world.kube.create(custom("machineclasses"), CLASS)
        try:
            await world.make(NAME, origin="Provision", classRef="slow", node="None")
            kept = await world.token(NAME)
            assert kept.text in await user_data(cloud)
            for number in range(1, 4):
                clock.by = STEP * number
                await renewed(world, kept, kept.token.expires_at + clock.by)
            async with a_host(world, NAME) as host:
                host.token_file.write_text(f"{kept.text}\n")
                await host.keeper.renew_if_due()
                assert host.keeper.there.is_set(), "it joins by what it was given at first"
        finally:
            await world.kube.delete(custom("machineclasses", "slow"))


async def user_data(cloud: FakeInstances) -> str:
    async def given() -> str:
        return next(iter(cloud.user_data.values()), "")

    return await until(given, "no instance is made")


async def renewed(world: MachineWorld, kept: StoredToken, end: datetime) -> None:
    """Wait until the very token lives until about then."""
    await world.annotate(NAME, looked=str(end.timestamp()))

    async def lives() -> bool:
        found = await world.tokens.read(kept.token.id)
        assert found is not None and found.text == kept.text, "the host has this one alone"
        return found.token.expires_at >= end - timedelta(minutes=1)

    await until(lives, "the token is not renewed")
