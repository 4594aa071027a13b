"""Machines made by EC2 through the real boto3: against published XML, and against moto."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore import loaders
from botocore.exceptions import ClientError, NoCredentialsError, ParamValidationError
from moto import mock_aws
from support.fake_aws import REGION
from support.fake_aws_instances import KNOWN, ZONE, FakeAwsInstances
from support.instance_contract import CLUSTER, InstanceContract, an_order
from support.served_instances import ServedInstances

from kubenode.providers.aws.instances import MOST_USER_DATA, AwsInstances, explain
from kubenode.providers.instance_errors import coded
from kubenode.providers.instances import (
    Deletion,
    ErrorCode,
    InstanceError,
    InstanceState,
    On,
    next_try,
)
from kubenode.providers.settings import AwsSettings
from kubenode.providers.threaded_instances import ThreadedInstances

pytestmark = pytest.mark.integration

KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
LOADER = loaders.create_loader()
CONFIG: dict[str, Any] = {
    "instanceType": "m5.large",
    "imageID": KNOWN["ImageId"],
    "subnetID": KNOWN["SubnetId"],
    "securityGroupIDs": ["sg-0123456789abcdef0"],
    "instanceProfile": "node",
    "keyName": "admin",
    "rootVolume": {"sizeGiB": 50},
    "tags": {"kubernetes.io/cluster/shop": "owned"},
}


class AwsWorld(ServedInstances):
    config = CONFIG
    bad_config = CONFIG | {"imageID": "debian-12"}
    missing = f"aws:///{ZONE}/i-0fedcba9876543210"
    foreign = "aws:///eu-west-2a/i-0fedcba9876543210"
    secrets: tuple[str, ...] = (SECRET, "4GIOHlTkIaWHQD0Q")

    def __init__(self, cloud: FakeAwsInstances) -> None:
        self.cloud, self.page = cloud, cloud.page
        super().__init__(cloud)

    def provider_id(self, instance: str) -> str:
        return f"aws:///{ZONE}/{instance}"

    def _provider(self, url: str, seconds: int) -> ThreadedInstances:
        return made(endpoint=url, seconds=seconds)


def made(seconds: int = 50, **settings: Any) -> ThreadedInstances:
    patience = timedelta(seconds=seconds)
    given: dict[str, Any] = {"connect_timeout": patience, "read_timeout": patience, **settings}
    return ThreadedInstances(AwsInstances(AwsSettings(type="aws", region=REGION, **given)))


@pytest.fixture(scope="module", autouse=True)
def _credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        # Each provider has a session of its own, which would read EC2's model of 3 MB again.
        patch.setattr("botocore.session.create_loader", lambda paths=None: LOADER)
        yield


@pytest.fixture(scope="module")
def aws(_credentials: None) -> Iterator[AwsWorld]:
    cloud = FakeAwsInstances()
    world = AwsWorld(cloud)
    yield world
    asyncio.run(world.close())
    cloud.server.close()


class TestAwsInstances(InstanceContract):
    @pytest.fixture
    def world(self, aws: AwsWorld) -> AwsWorld:
        aws.empty()
        return aws

    async def test_an_instance_is_as_its_class_says(self, world: AwsWorld) -> None:
        await world.instances.create(an_order(world))
        asked = world.cloud.last
        assert asked["ClientToken"] == an_order(world).token
        assert (asked["IamInstanceProfile.Name"], asked["KeyName"]) == ("node", "admin")
        assert asked["BlockDeviceMapping.1.Ebs.VolumeSize"] == "50"
        assert asked["BlockDeviceMapping.1.Ebs.DeleteOnTermination"] == "true"
        assert asked["BlockDeviceMapping.1.Ebs.Encrypted"] == "true"
        (found,) = await world.instances.list(CLUSTER)
        assert found.tags["kubernetes.io/cluster/shop"] == "owned"
        assert found.addresses == ("10.0.0.12",)

    async def test_a_token_of_an_instance_that_was_terminated_is_not_taken_for_alive(
        self, world: AwsWorld
    ) -> None:
        order = an_order(world)
        first = await world.instances.create(order)
        await world.instances.delete(first.provider_id, CLUSTER)
        for settled in (False, True):
            if settled:
                await world.settle()
            for hidden in (False, True):
                if hidden:
                    world.hide_the_newest()
                with pytest.raises(InstanceError) as told:
                    await world.instances.create(order)
                assert told.value.code is ErrorCode.FAILED_PRECONDITION
            world.fleet.show()

    async def test_two_instances_with_one_token_are_named_and_neither_is_chosen(
        self, world: AwsWorld
    ) -> None:
        order = an_order(world)
        first = await world.instances.create(order)
        world.fleet.tokens.clear()
        world.hide_the_newest()
        second = await world.instances.create(order)
        world.fleet.show()
        with pytest.raises(InstanceError) as told:
            await world.instances.find(CLUSTER, order.token)
        assert told.value.code is ErrorCode.FAILED_PRECONDITION
        for one in (first, second):
            assert one.provider_id.rpartition("/")[2] in told.value.message

    @pytest.mark.parametrize("field", ["imageID", "subnetID"])
    async def test_what_the_class_names_and_is_not_there_is_final(
        self, world: AwsWorld, field: str
    ) -> None:
        wrong = world.config | {field: f"{world.config[field][:-4]}0000"}
        with pytest.raises(InstanceError) as told:
            await world.instances.create(an_order(world, config=wrong))
        assert told.value.code is ErrorCode.NOT_FOUND

    async def test_too_much_user_data_is_refused_with_its_size(self, world: AwsWorld) -> None:
        order = an_order(world, user_data="#!/bin/sh\n" + "#" * MOST_USER_DATA)
        with pytest.raises(InstanceError, match=f"EC2 takes {MOST_USER_DATA}") as told:
            await world.instances.create(order)
        assert told.value.code is ErrorCode.INVALID_ARGUMENT


async def test_without_credentials_a_person_has_to_act(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    alone = made()
    with pytest.raises(InstanceError, match="no credentials found") as told:
        await alone.list(CLUSTER)
    await alone.close()
    assert next_try(told.value.code, 1).on is On.CREDENTIALS


async def test_moto_takes_the_same_requests() -> None:
    """Its own reading of RunInstances, tags, filters and states, beside ours."""
    with mock_aws():
        import boto3

        ec2 = boto3.client("ec2", region_name=REGION)
        subnet = ec2.describe_subnets()["Subnets"][0]
        group = ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
        config = {
            "instanceType": "m5.large",
            "imageID": "ami-12c6146b",
            "subnetID": subnet["SubnetId"],
            "securityGroupIDs": [group],
            "rootVolume": {"device": "/dev/sda1", "sizeGiB": 20},
        }
        instances = made()
        world: Any = type("World", (), {"config": config})
        order = an_order(world)
        one = await instances.create(order)
        assert (await instances.create(order)).provider_id == one.provider_id
        assert one.provider_id.startswith(f"aws:///{subnet['AvailabilityZone']}/i-")
        await instances.create(an_order(world, 2, cluster="another"))
        (found,) = await instances.list(CLUSTER)
        assert (found.provider_id, found.token) == (one.provider_id, order.token)
        assert found.state is InstanceState.RUNNING and found.addresses
        while await instances.delete(one.provider_id, CLUSTER) is not Deletion.GONE:
            pass
        assert await instances.get(one.provider_id) is None
        assert await instances.list(CLUSTER) == []
        volumes = ec2.describe_volumes()["Volumes"]
        assert len(volumes) == 1, "the disk of the one that has ended is gone"
        await instances.close()


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("InstanceLimitExceeded", ErrorCode.RESOURCE_EXHAUSTED),
        ("VcpuLimitExceeded", ErrorCode.RESOURCE_EXHAUSTED),
        ("VolumeLimitExceeded", ErrorCode.RESOURCE_EXHAUSTED),
        ("InsufficientInstanceCapacity", ErrorCode.RESOURCE_EXHAUSTED),
        ("InsufficientFreeAddressesInSubnet", ErrorCode.RESOURCE_EXHAUSTED),
        ("RequestLimitExceeded", ErrorCode.UNAVAILABLE),
        ("BandwidthLimitExceeded", ErrorCode.UNAVAILABLE),
        ("InvalidAMIID.NotFound", ErrorCode.NOT_FOUND),
        ("InvalidAMIID.Unavailable", ErrorCode.NOT_FOUND),
        ("InvalidParameterValue", ErrorCode.INVALID_ARGUMENT),
        ("MissingParameter", ErrorCode.INVALID_ARGUMENT),
        ("UnauthorizedOperation", ErrorCode.PERMISSION_DENIED),
        ("ExpiredToken", ErrorCode.UNAUTHENTICATED),
        ("AuthFailure", ErrorCode.UNAUTHENTICATED),
        ("OperationNotPermitted", ErrorCode.FAILED_PRECONDITION),
        ("SomethingNew", ErrorCode.FAILED_PRECONDITION),
    ],
)
def test_codes_of_ec2(said: str, code: ErrorCode) -> None:
    answer: Any = {"Error": {"Code": said, "Message": "m"}, "ResponseMetadata": {}}
    told = explain(ClientError(answer, "RunInstances"))
    assert told is not None and coded(told, "aws", changes=True).code is code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoCredentialsError(), ErrorCode.UNAUTHENTICATED),
        (ParamValidationError(report="x"), ErrorCode.INVALID_ARGUMENT),
    ],
)
def test_what_the_sdk_of_aws_says_itself(error: Exception, code: ErrorCode) -> None:
    told = explain(error)
    assert told is not None and coded(told, "aws", changes=True).code is code
