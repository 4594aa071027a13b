"""Machines made by ECS through the real SDK, against an endpoint with published answers."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from alibabacloud_credentials.client import Client as Credentials
from alibabacloud_credentials.models import Config
from alibabacloud_tea_openapi.exceptions import AlibabaCloudException
from support.fake_alibaba import REGION
from support.fake_alibaba_instances import KNOWN, FakeAlibabaInstances
from support.instance_contract import CLUSTER, InstanceContract, an_order
from support.served_instances import ServedInstances

from kubenode.api.v1alpha1.machinework import MachineOperationType
from kubenode.providers.alibaba.instances import MOST_USER_DATA, AlibabaInstances, explain
from kubenode.providers.instance_errors import coded
from kubenode.providers.instances import ErrorCode, InstanceError
from kubenode.providers.settings import AlibabaSettings
from kubenode.providers.threaded_instances import ThreadedInstances

pytestmark = pytest.mark.integration

SECRET = "8Lq3TvVerySecretKeyOfTheTest"
CONFIG: dict[str, Any] = {
    "instanceType": "ecs.g7.large",
    "imageID": KNOWN["ImageId"],
    "vSwitchID": KNOWN["VSwitchId"],
    "securityGroupIDs": ["sg-bp15ed6xe1yxeycg0001"],
    "ramRole": "node",
    "diskSizeGiB": 80,
    "tags": {"team": "shop"},
}


class AlibabaWorld(ServedInstances):
    config = CONFIG
    bad_config = CONFIG | {"instanceType": "g7.large"}
    missing = f"{REGION}.i-bp99999999999999999999"
    foreign = "cn-shanghai.i-bp67acfmxazb4ph00001"
    secrets: tuple[str, ...] = (SECRET,)

    def __init__(self, cloud: FakeAlibabaInstances) -> None:
        self.cloud, self.page = cloud, cloud.page
        super().__init__(cloud)

    def provider_id(self, instance: str) -> str:
        return f"{REGION}.{instance}"

    def _provider(self, url: str, seconds: int) -> ThreadedInstances:
        patience = timedelta(seconds=seconds)
        settings = AlibabaSettings(
            type="alibaba",
            region=REGION,
            endpoint=url,
            connect_timeout=patience,
            read_timeout=patience,
        )
        key = Credentials(
            Config(type="access_key", access_key_id="LTAI5tExample", access_key_secret=SECRET)
        )
        return ThreadedInstances(AlibabaInstances(settings, key))


@pytest.fixture(scope="module")
def alibaba() -> Iterator[AlibabaWorld]:
    cloud = FakeAlibabaInstances()
    world = AlibabaWorld(cloud)
    yield world
    asyncio.run(world.close())
    cloud.server.close()


class TestAlibabaInstances(InstanceContract):
    @pytest.fixture
    def world(self, alibaba: AlibabaWorld) -> AlibabaWorld:
        alibaba.empty()
        alibaba.cloud.under_way = False
        return alibaba

    async def test_an_instance_is_as_its_class_says(self, world: AlibabaWorld) -> None:
        order = an_order(world)
        await world.instances.create(order)
        asked = world.cloud.last
        assert asked["ClientToken"] == order.token
        assert (asked["HostName"], asked["RamRoleName"]) == ("w1", "node")
        assert (asked["SystemDisk.Size"], asked["InstanceChargeType"]) == ("80", "PostPaid")
        (found,) = await world.instances.list(CLUSTER)
        assert found.tags["team"] == "shop" and found.addresses == ("192.168.7.21",)

    async def test_a_token_that_is_worked_on_is_asked_again_later(
        self, world: AlibabaWorld
    ) -> None:
        world.cloud.under_way = True
        with pytest.raises(InstanceError, match="LastTokenProcessing") as told:
            await world.instances.create(an_order(world))
        assert told.value.code is ErrorCode.ABORTED

    @pytest.mark.parametrize("field", ["imageID", "vSwitchID"])
    async def test_what_the_class_names_and_is_not_there_is_final(
        self, world: AlibabaWorld, field: str
    ) -> None:
        wrong = world.config | {field: f"{world.config[field]}9"}
        with pytest.raises(InstanceError) as told:
            await world.instances.create(an_order(world, config=wrong))
        assert told.value.code is ErrorCode.NOT_FOUND

    async def test_too_much_user_data_is_refused_with_its_size(self, world: AlibabaWorld) -> None:
        order = an_order(world, user_data="#!/bin/sh\n" + "#" * MOST_USER_DATA)
        with pytest.raises(InstanceError, match=f"ECS takes {MOST_USER_DATA}") as told:
            await world.instances.create(order)
        assert told.value.code is ErrorCode.INVALID_ARGUMENT

    async def test_redeploying_is_asked_of_instances_of_ours(self, world: AlibabaWorld) -> None:
        made = await world.instances.create(an_order(world))
        await world.settle()
        redeploy = MachineOperationType.REDEPLOY
        await world.instances.operate(made.provider_id, CLUSTER, redeploy, "job-1")
        assert world.cloud.redeployed[-1:] == [made.provider_id.removeprefix(f"{REGION}.")]
        for wrong, code in (
            (world.stranger, ErrorCode.FAILED_PRECONDITION),
            (world.missing, ErrorCode.NOT_FOUND),
        ):
            with pytest.raises(InstanceError) as told:
                await world.instances.operate(wrong, CLUSTER, redeploy, "job-1")
            assert told.value.code is code


@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        ("OperationDenied.NoStock", 403, ErrorCode.RESOURCE_EXHAUSTED),
        ("QuotaExceed.ElasticQuota", 403, ErrorCode.RESOURCE_EXHAUSTED),
        ("InvalidVSwitchId.IpNotEnough", 400, ErrorCode.RESOURCE_EXHAUSTED),
        ("Throttling.User", 400, ErrorCode.UNAVAILABLE),
        ("Throttling", 503, ErrorCode.UNAVAILABLE),
        ("InvalidImageId.NotFound", 404, ErrorCode.NOT_FOUND),
        ("InvalidInstanceType.ValueNotSupported", 400, ErrorCode.INVALID_ARGUMENT),
        ("MissingParameter", 400, ErrorCode.INVALID_ARGUMENT),
        ("InvalidAccessKeyId.NotFound", 404, ErrorCode.UNAUTHENTICATED),
        ("Forbidden.RAM", 403, ErrorCode.PERMISSION_DENIED),
        ("IncorrectInstanceStatus.Initializing", 403, ErrorCode.ABORTED),
        ("InternalError", 500, ErrorCode.UNKNOWN),
        ("SomethingNew", 400, ErrorCode.FAILED_PRECONDITION),
    ],
)
def test_codes_of_ecs(said: str, status: int, code: ErrorCode) -> None:
    error = AlibabaCloudException(code=said, message="m", status_code=status)
    told = explain(error)
    assert told is not None and coded(told, "alibaba", changes=True).code is code
