"""Provider aws through the real boto3: against moto, and against published XML over HTTP."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore import loaders
from botocore.stub import Stubber
from moto import mock_aws
from support.clock import FakeClock
from support.fake_aws import (
    ACCOUNT,
    REGION,
    TROUBLES,
    FakeAws,
    MotoMachine,
    PublishedEc2,
    described,
)
from support.provider_contract import LONG, SHORT, ProviderContract, Trouble

from kubenode.providers.aws.power import Aws
from kubenode.providers.errors import (
    Busy,
    Denied,
    NoSuchMachine,
    Refused,
    Throttled,
    Unreachable,
    Unsupported,
)
from kubenode.providers.port import PowerState, ProviderMachine
from kubenode.providers.settings import AwsSettings, StopInGroup
from kubenode.providers.threads import Threaded

pytestmark = pytest.mark.integration

KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
INSTANCE = "i-0123456789abcdef0"
NODE = "ip-192-168-1-88.eu-west-1.compute.internal"


def made(clock: FakeClock, seconds: int = LONG, **settings: Any) -> Threaded:
    patience = timedelta(seconds=seconds)
    given: dict[str, Any] = {"connect_timeout": patience, "read_timeout": patience}
    return Threaded(Aws(AwsSettings(type="aws", region=REGION, **given, **settings), clock), clock)


class AwsWorld:
    """With moto. Troubles, which moto has none of, come from an endpoint of the test."""

    missing = NoSuchMachine
    troubles = frozenset(Trouble)
    secrets = (SECRET, "4GIOHlTkIaWHQD0Q")

    def __init__(self, cloud: FakeAws, on: MotoMachine, **settings: Any) -> None:
        self.cloud, self.on = cloud, on
        node = cloud.private_dns(on.id)
        self.machine = ProviderMachine(f"aws:///{REGION}a/{on.id}", node)
        self.unknown = ProviderMachine(f"aws:///{REGION}a/i-0fedcba9876543210", node)
        self.foreign = ProviderMachine(f"aws:///eu-west-2a/{on.id}", node)
        self.clock = FakeClock()
        self.provider = made(self.clock, **settings)
        self.published = PublishedEc2()

    @property
    def boots(self) -> int:
        return self.on.boots

    async def settle(self) -> None:
        self.on.settle()

    def begin(self, trouble: Trouble) -> None:
        server = self.published.server
        match trouble:
            case Trouble.REFUSED_CONNECTION:
                server.gone()
            case Trouble.SILENT:
                server.silent = True
            case _:
                self.published.error = TROUBLES[trouble]
        seconds = SHORT if trouble is Trouble.SILENT else LONG
        self.provider = made(self.clock, seconds, endpoint=server.url)


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    # Each provider has a session of its own, which would read EC2's model of 3 MB again.
    monkeypatch.setattr("botocore.session.create_loader", lambda paths=None: LOADER)


@pytest.fixture(scope="module")
def cloud() -> Iterator[FakeAws]:
    """One for all: each test has instances and groups of its own."""
    with mock_aws():
        yield FakeAws()


@pytest.fixture
async def member(cloud: FakeAws) -> AsyncIterator[AwsWorld]:
    world = AwsWorld(cloud, cloud.member())
    yield world
    await world.provider.close()
    world.published.server.close()


@pytest.fixture
def published() -> Iterator[PublishedEc2]:
    ec2 = PublishedEc2()
    ec2.describe = described(INSTANCE, 16, "running")
    yield ec2
    ec2.server.close()


@pytest.fixture
async def provider(published: PublishedEc2) -> AsyncIterator[Threaded]:
    provider = made(FakeClock(), endpoint=published.server.url)
    yield provider
    await provider.close()


LOADER = loaders.create_loader()
MACHINE = ProviderMachine(f"aws:///{REGION}a/{INSTANCE}", NODE)


class TestProviderAws(ProviderContract):
    @pytest.fixture
    async def world(self, cloud: FakeAws) -> AsyncIterator[AwsWorld]:
        world = AwsWorld(cloud, cloud.instance())
        yield world
        await world.provider.close()
        world.published.server.close()

    async def test_it_is_in_no_group_and_nothing_would_follow_it(self, world: AwsWorld) -> None:
        with pytest.raises(Refused, match="in no Auto Scaling group"):
            await world.provider.replace(world.machine, "job.r1s0a1")
        assert world.on.at(PowerState.ON)


async def test_a_group_makes_another_in_place_of_its_member(member: AwsWorld) -> None:
    old = member.on.id
    await member.provider.replace(member.machine, "job.r1s0a1")
    assert (await member.provider.power(member.machine)).state is PowerState.GONE
    assert len(member.cloud.members()) == 1 and old not in member.cloud.members()
    await member.provider.replace(member.machine, "job.r1s0a1")
    assert len(member.cloud.members()) == 1, "the one that followed is left alone"
    with pytest.raises(Refused, match="cannot be started again"):
        await member.provider.on(member.machine, "job.r1s1a1")


async def test_a_member_is_not_given_back_where_none_would_follow(member: AwsWorld) -> None:
    member.cloud.scaling.suspend_processes(
        AutoScalingGroupName=member.cloud.group, ScalingProcesses=["Launch"]
    )
    with pytest.raises(Refused, match="has Launch suspended"):
        await member.provider.replace(member.machine, "job.r1s0a1")
    assert member.on.at(PowerState.ON)


async def test_a_member_that_its_group_would_replace_is_not_stopped(member: AwsWorld) -> None:
    with pytest.raises(Refused, match=r"group workers-[0-9]+ would replace .* stopInGroup: Allow"):
        await member.provider.off(member.machine, "job.r0s0a1")
    assert member.on.at(PowerState.ON)
    await member.provider.reset(member.machine, "job.r0s1a1")
    await member.settle()
    assert member.boots == 1, "a reboot is no matter for the group"


@pytest.mark.parametrize("way", ["standby", "suspended", "allowed"])
async def test_a_member_that_is_left_alone_is_stopped(cloud: FakeAws, way: str) -> None:
    instance = cloud.member()
    if way == "standby":
        cloud.scaling.enter_standby(
            InstanceIds=[instance.id],
            AutoScalingGroupName=cloud.group,
            ShouldDecrementDesiredCapacity=True,
        )
    elif way == "suspended":
        cloud.scaling.suspend_processes(
            AutoScalingGroupName=cloud.group, ScalingProcesses=["ReplaceUnhealthy"]
        )
    stop = StopInGroup.ALLOW if way == "allowed" else StopInGroup.REFUSE
    world = AwsWorld(cloud, instance, stop_in_group=stop)
    await world.provider.off(world.machine, "job.r0s0a1")
    assert instance.at(PowerState.OFF)
    await world.provider.close()
    world.published.server.close()


async def test_a_role_is_assumed(cloud: FakeAws) -> None:
    world = AwsWorld(cloud, cloud.instance(), role_arn=f"arn:aws:iam::{ACCOUNT}:role/healer")
    assert (await world.provider.power(world.machine)).state is PowerState.ON
    await world.provider.close()
    world.published.server.close()


async def test_without_credentials_it_is_denied_and_comes_back_once_there_are_some(
    published: PublishedEc2, provider: Threaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(Denied, match="no credentials"):
        await provider.power(MACHINE)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    assert (await provider.power(MACHINE)).state is PowerState.ON


@pytest.mark.parametrize(
    ("code", "word", "more", "state"),
    [
        (0, "pending", "", PowerState.STARTING),
        (64, "stopping", "", PowerState.STOPPING),
        (32, "shutting-down", "", PowerState.STOPPING),
        (48, "terminated", "", PowerState.GONE),
        (80, "stopped", "", PowerState.OFF),
        (
            80,
            "stopped",
            "<stateReason><code>Client.UserInitiatedHibernate</code>"
            "<message>x</message></stateReason>",
            PowerState.UNKNOWN,
        ),
        (96, "a-new-word", "", PowerState.UNKNOWN),
    ],
)
async def test_every_state_is_told_as_what_it_is(
    published: PublishedEc2,
    provider: Threaded,
    code: int,
    word: str,
    more: str,
    state: PowerState,
) -> None:
    published.describe = described(INSTANCE, code, word, more)
    assert (await provider.power(MACHINE)).state is state


async def test_a_machine_that_hangs_is_switched_off_without_its_systems_help(
    published: PublishedEc2, provider: Threaded
) -> None:
    published.describe = described(INSTANCE, 64, "stopping")
    await provider.off(MACHINE, "job.r0s0a1")
    stop = published.server.asked[-1].form
    assert (stop["Action"], stop["Force"], stop["SkipOsShutdown"]) == (
        "StopInstances",
        "true",
        "true",
    )
    with pytest.raises(Busy, match="stopping"):
        await provider.on(MACHINE, "job.r0s1a1")


async def test_an_instance_without_a_disk_that_stays_is_not_stopped(
    published: PublishedEc2, provider: Threaded
) -> None:
    item = described(INSTANCE, 16, "running")
    published.describe = item.replace(">ebs<", ">instance-store<")
    with pytest.raises(Refused, match="instance store"):
        await provider.off(MACHINE, "job.r0s0a1")
    assert published.actions == ["DescribeInstances"]


async def test_an_answer_on_another_instance_is_refused(
    published: PublishedEc2, provider: Threaded
) -> None:
    published.describe = described("i-00000000000000001", 80, "stopped")
    with pytest.raises(Refused, match="i-00000000000000001"):
        await provider.power(MACHINE)


async def test_a_name_that_people_gave_says_nothing_of_the_instance(
    published: PublishedEc2, provider: Threaded
) -> None:
    await provider.reset(replace(MACHINE, node="blue-42"), "job.r0s0a1")
    assert published.actions[-1] == "RebootInstances"


@pytest.mark.parametrize(
    ("refusal", "meaning", "words"),
    [
        (
            (400, "UnsupportedOperation", "You can't stop the Spot Instance"),
            Refused,
            "Spot Instance",
        ),
        ((500, "InsufficientInstanceCapacity", "Not enough capacity."), Busy, "capacity"),
        ((400, "InvalidInstanceID.NotFound", "Does not exist"), NoSuchMachine, "not exist"),
        ((400, "RequestExpired", "Request has expired."), Denied, "expired"),
        ((503, "Unavailable", "The server is overloaded"), Unreachable, "overloaded"),
        ((400, "OperationNotPermitted", "Protected from stopping"), Refused, "Protected"),
    ],
)
async def test_refusals_of_ec2_are_told_as_what_they_are(
    published: PublishedEc2,
    provider: Threaded,
    refusal: tuple[int, str, str],
    meaning: type[Exception],
    words: str,
) -> None:
    published.on_change = refusal
    with pytest.raises(meaning, match=words):
        await provider.off(MACHINE, "job.r0s0a1")


async def test_throttling_says_when_to_come_again(
    published: PublishedEc2, provider: Threaded
) -> None:
    published.error = TROUBLES[Trouble.THROTTLED]
    with pytest.raises(Throttled) as told:
        await provider.power(MACHINE)
    assert told.value.after == timedelta(seconds=5)


async def test_a_request_is_sent_once(published: PublishedEc2, provider: Threaded) -> None:
    published.on_change = TROUBLES[Trouble.BROKEN]
    with pytest.raises(Unreachable):
        await provider.reset(MACHINE, "job.r0s0a1")
    assert published.actions == ["DescribeInstances", "RebootInstances"]


def test_botocores_model_knows_what_we_send_and_read() -> None:
    """Its Stubber checks both against the service's own model."""
    client = boto3.client("ec2", region_name=REGION)
    state: Any = {"Code": 64, "Name": "stopping"}
    with Stubber(client) as stubber:
        stubber.add_response(
            "stop_instances",
            {"StoppingInstances": [{"InstanceId": INSTANCE, "CurrentState": state}]},
            {"InstanceIds": [INSTANCE], "Force": True, "SkipOsShutdown": True},
        )
        client.stop_instances(InstanceIds=[INSTANCE], Force=True, SkipOsShutdown=True)
        stubber.assert_no_pending_responses()


LIFECYCLE = "lifecycle/drain-first/87654321-4321-4321-4321-210987654321"


async def test_a_lifecycle_action_is_completed_once(
    published: PublishedEc2, provider: Threaded
) -> None:
    published.lifecycle = "Terminating:Wait"
    assert provider.can.approve
    for _ in range(2):
        await provider.approve(MACHINE, LIFECYCLE)
    (form,) = published.completed
    assert form["LifecycleActionResult"] == "CONTINUE"
    assert (form["AutoScalingGroupName"], form["LifecycleHookName"]) == ("workers", "drain-first")
    assert form["LifecycleActionToken"] == "87654321-4321-4321-4321-210987654321"
    assert form["InstanceId"] == INSTANCE


@pytest.mark.parametrize(
    ("state", "event", "error", "words"),
    [
        ("InService", LIFECYCLE, Refused, "InService: no lifecycle action waits"),
        ("Terminating:Wait", "instance-event-1", Unsupported, "no call that lets"),
        ("Terminating:Wait", "lifecycle/", Unsupported, "no call that lets"),
    ],
)
async def test_what_waits_for_no_word_gets_none(
    published: PublishedEc2,
    provider: Threaded,
    state: str,
    event: str,
    error: type[Exception],
    words: str,
) -> None:
    published.lifecycle = state
    with pytest.raises(error, match=words):
        await provider.approve(MACHINE, event)
    assert published.completed == []
