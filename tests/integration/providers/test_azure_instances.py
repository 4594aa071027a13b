"""Machines made by Azure through the real SDK, against an HTTPS endpoint with published answers."""

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from support.fake_azure import SUBSCRIPTION
from support.fake_azure_machines import GROUP, FakeAzureMachines
from support.instance_contract import CLUSTER, InstanceContract, an_order
from support.pki import Authority
from support.served_instances import ServedInstances

from kubenode.api.v1alpha1.machinework import MachineOperationType
from kubenode.providers.azure.instances import AzureInstances
from kubenode.providers.azure.orders import MOST_USER_DATA
from kubenode.providers.instances import ErrorCode, InstanceError, InstanceState
from kubenode.providers.settings import AzureSettings
from kubenode.providers.threaded_instances import ThreadedInstances

pytestmark = pytest.mark.integration

SECRET = "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9.very-secret"
NETWORK = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/net/providers/Microsoft.Network"
IDENTITY = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/ids/providers"
    "/Microsoft.ManagedIdentity/userAssignedIdentities/node"
)
CONFIG: dict[str, Any] = {
    "resourceGroup": GROUP,
    "location": "westeurope",
    "vmSize": "Standard_D4s_v5",
    "image": {"publisher": "Debian", "offer": "debian-12", "sku": "12-gen2"},
    "subnetID": f"{NETWORK}/virtualNetworks/v/subnets/s",
    "sshPublicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 admin",
    "zone": "2",
    "diskSizeGiB": 64,
    "identityID": IDENTITY,
    "tags": {"team": "shop"},
}


class Token:
    """A credential that needs no login server."""

    def get_token(self, *scopes: str, **kwargs: Any) -> AccessToken:
        return AccessToken(SECRET, int(time.time()) + 3600)


class AzureWorld(ServedInstances):
    config = CONFIG
    bad_config = CONFIG | {"location": "West Europe"}
    secrets: tuple[str, ...] = (SECRET,)

    def __init__(self, cloud: FakeAzureMachines, ca: Path) -> None:
        self.cloud, self.page, self._ca = cloud, cloud.page, ca
        self.missing = self.provider_id("w99")
        self.foreign = self.missing.replace(SUBSCRIPTION, SUBSCRIPTION.replace("6", "7"))
        super().__init__(cloud)

    def provider_id(self, instance: str) -> str:
        return (
            f"azure:///subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP.lower()}"
            f"/providers/Microsoft.Compute/virtualMachines/{instance}"
        )

    def _provider(self, url: str, seconds: int) -> ThreadedInstances:
        patience = timedelta(seconds=seconds)
        settings = AzureSettings(
            type="azure",
            subscription=SUBSCRIPTION,
            endpoint=url,
            ca_file=str(self._ca),
            connect_timeout=patience,
            read_timeout=patience,
        )
        return ThreadedInstances(AzureInstances(settings, Token()), "azure-1")


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureWorld]:
    authority = Authority(tmp_path_factory.mktemp("pki"))
    cloud = FakeAzureMachines(authority.issue("azure", "azure", sans=["127.0.0.1"]))
    world = AzureWorld(cloud, authority.cert_file)
    yield world
    asyncio.run(world.close())
    cloud.server.close()


class TestAzureInstances(InstanceContract):
    @pytest.fixture
    def world(self, azure: AzureWorld) -> AzureWorld:
        azure.empty()
        azure.cloud.failed = ""
        return azure

    async def test_a_machine_is_as_its_class_says(self, world: AzureWorld) -> None:
        await world.instances.create(an_order(world))
        asked = world.cloud.bodies["w1"]
        about = asked["properties"]
        assert (asked["location"], asked["zones"]) == ("westeurope", ["2"])
        assert asked["tags"]["team"] == "shop"
        assert asked["identity"]["userAssignedIdentities"] == {IDENTITY: {}}
        assert about["storageProfile"]["imageReference"]["version"] == "latest"
        assert about["storageProfile"]["osDisk"]["diskSizeGB"] == 64
        system = about["osProfile"]
        assert system["computerName"] == "w1"
        assert system["linuxConfiguration"]["disablePasswordAuthentication"] is True

    async def test_a_name_that_somebody_else_has_is_not_written_over(
        self, world: AzureWorld
    ) -> None:
        with pytest.raises(InstanceError) as told:
            await world.instances.create(an_order(world, name="theirs"))
        assert told.value.code is ErrorCode.ALREADY_EXISTS
        assert world.fleet.instances["theirs"].tags == {"team": "x"}

    async def test_a_name_whose_machine_still_ends_is_waited_for(self, world: AzureWorld) -> None:
        first = await world.instances.create(an_order(world))
        await world.settle()
        await world.instances.delete(first.provider_id, CLUSTER)
        for attempt, code in ((1, ErrorCode.FAILED_PRECONDITION), (2, ErrorCode.ABORTED)):
            with pytest.raises(InstanceError) as told:
                await world.instances.create(an_order(world, attempt=attempt))
            assert told.value.code is code

    async def test_a_machine_that_cannot_be_allocated_is_seen_to_have_failed(
        self, world: AzureWorld
    ) -> None:
        made = await world.instances.create(an_order(world))
        world.cloud.failed = "Allocation failed. We do not have sufficient capacity."
        await world.settle()
        found = await world.instances.get(made.provider_id)
        assert found is not None and found.state is InstanceState.FAILED
        assert "sufficient capacity" in found.raw
        (listed,) = await world.instances.list(CLUSTER)
        assert listed.state is InstanceState.UNKNOWN

    async def test_what_the_class_names_and_is_not_there_is_final(self, world: AzureWorld) -> None:
        wrong = world.config | {"resourceGroup": "elsewhere"}
        with pytest.raises(InstanceError) as told:
            await world.instances.create(an_order(world, config=wrong))
        assert told.value.code is ErrorCode.NOT_FOUND

    async def test_too_much_user_data_is_refused_with_its_size(self, world: AzureWorld) -> None:
        order = an_order(world, user_data="#!/bin/sh\n" + "#" * MOST_USER_DATA)
        with pytest.raises(InstanceError, match=f"Azure takes {MOST_USER_DATA}") as told:
            await world.instances.create(order)
        assert told.value.code is ErrorCode.INVALID_ARGUMENT

    async def test_operations_are_asked_of_machines_of_ours(self, world: AzureWorld) -> None:
        made = await world.instances.create(an_order(world))
        await world.settle()
        for operation in (MachineOperationType.REDEPLOY, MachineOperationType.REIMAGE):
            await world.instances.operate(made.provider_id, CLUSTER, operation, "job-1")
            with pytest.raises(InstanceError) as told:
                await world.instances.operate(world.stranger, CLUSTER, operation, "job-1")
            assert told.value.code is ErrorCode.FAILED_PRECONDITION
            with pytest.raises(InstanceError) as told:
                await world.instances.operate(world.missing, CLUSTER, operation, "job-1")
            assert told.value.code is ErrorCode.NOT_FOUND
        assert world.cloud.operations[-2:] == ["redeploy", "reimage"]
