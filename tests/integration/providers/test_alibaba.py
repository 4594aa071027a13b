"""Provider alibaba through the real SDKs, against an endpoint with published answers."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from alibabacloud_credentials.client import Client as Credentials
from alibabacloud_credentials.models import Config
from support.clock import FakeClock
from support.fake_alibaba import REGION, FakeAlibaba, FakeGroup, Member
from support.provider_contract import ProviderContract, Trouble
from support.served_provider import ServedWorld

from kubenode.providers.alibaba.power import Alibaba
from kubenode.providers.errors import Busy, Denied, NoSuchMachine, Refused, Throttled
from kubenode.providers.port import PowerState, ProviderMachine
from kubenode.providers.settings import AlibabaSettings, StopInGroup
from kubenode.providers.threads import Threaded

pytestmark = pytest.mark.integration

SECRET = "8Lq3TvVerySecretKeyOfTheTest"
INSTANCE = "i-bp67acfmxazb4ph00001"


class AlibabaWorld(ServedWorld):
    missing = NoSuchMachine
    troubles = frozenset(Trouble)
    secrets = (SECRET,)

    def __init__(self, cloud: FakeAlibaba, **settings: Any) -> None:
        self.cloud = cloud
        self.clock = FakeClock()
        self.machine = ProviderMachine(f"{REGION}.{INSTANCE}", f"{REGION}.192.168.7.21")
        self.unknown = ProviderMachine(f"alicloud://{REGION}.i-bp67acfmxazb4ph00009", "worker-9")
        self.foreign = ProviderMachine(f"cn-shanghai.{INSTANCE}", "worker-7")
        self._given: dict[str, Any] = {
            "type": "alibaba",
            "region": REGION,
            "endpoint": cloud.server.url,
            "ess_endpoint": cloud.server.url,
            **settings,
        }
        super().__init__(cloud, cloud.machines[INSTANCE])

    def _provider(self, seconds: int) -> Threaded:
        patience = timedelta(seconds=seconds)
        given = self._given | {"connect_timeout": patience, "read_timeout": patience}
        key = Credentials(
            Config(type="access_key", access_key_id="LTAI5tExample", access_key_secret=SECRET)
        )
        return Threaded(Alibaba(AlibabaSettings(**given), self.clock, key), self.clock)


@pytest.fixture
def cloud() -> Iterator[FakeAlibaba]:
    fake = FakeAlibaba()
    fake.add(INSTANCE, "192.168.7.21", "worker-7")
    yield fake
    fake.server.close()


@pytest.fixture
async def alone(cloud: FakeAlibaba) -> AsyncIterator[AlibabaWorld]:
    world = AlibabaWorld(cloud)
    yield world
    await world.provider.close()


@pytest.fixture
def group(cloud: FakeAlibaba) -> FakeGroup:
    made = FakeGroup()
    cloud.members[INSTANCE] = Member(made)
    return made


class TestProviderAlibaba(ProviderContract):
    @pytest.fixture
    def world(self, alone: AlibabaWorld) -> AlibabaWorld:
        return alone

    async def test_it_is_in_no_group_and_nothing_would_follow_it(self, world: AlibabaWorld) -> None:
        with pytest.raises(Refused, match="in no scaling group"):
            await world.provider.replace(world.machine, "job.r1s0a1")


async def test_a_group_releases_its_member_and_makes_another(
    alone: AlibabaWorld, group: FakeGroup
) -> None:
    await alone.provider.power(alone.machine)
    await alone.provider.replace(alone.machine, "job.r1s0a1")
    with pytest.raises(NoSuchMachine):
        await alone.provider.power(alone.machine)
    alone.clock.step(timedelta(seconds=31))
    assert (await alone.provider.power(alone.machine)).state is PowerState.GONE


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"suspended": ["ScaleOut"]}, "ScaleOut suspended"),
        ({"desired": None}, "no desired capacity"),
    ],
)
async def test_a_member_is_not_given_back_where_none_would_follow(
    alone: AlibabaWorld, group: FakeGroup, change: dict[str, Any], words: str
) -> None:
    alone.cloud.members[INSTANCE] = Member(replace(group, **change))
    with pytest.raises(Refused, match=words):
        await alone.provider.replace(alone.machine, "job.r1s0a1")
    assert alone.on.at(PowerState.ON)


async def test_a_member_that_was_attached_by_hand_is_not_given_back(
    alone: AlibabaWorld, group: FakeGroup
) -> None:
    alone.cloud.members[INSTANCE].creation = "Attached"
    with pytest.raises(Refused, match="attached by hand"):
        await alone.provider.replace(alone.machine, "job.r1s0a1")


async def test_a_member_that_its_group_would_remove_is_not_stopped(
    alone: AlibabaWorld, group: FakeGroup
) -> None:
    with pytest.raises(Refused, match=r"would remove the instance .* stopInGroup"):
        await alone.provider.off(alone.machine, "job.r0s0a1")
    assert alone.on.at(PowerState.ON)
    group.suspended.append("HealthCheck")
    await alone.provider.off(alone.machine, "job.r0s0a1")
    assert alone.on.at(PowerState.STOPPING)


@pytest.mark.parametrize("way", ["standby", "unchecked", "allowed"])
async def test_a_member_that_is_left_alone_is_stopped(
    cloud: FakeAlibaba, group: FakeGroup, way: str
) -> None:
    if way == "standby":
        cloud.members[INSTANCE].state = "Standby"
    elif way == "unchecked":
        group.check = "NONE"
    stop = StopInGroup.ALLOW if way == "allowed" else StopInGroup.REFUSE
    world = AlibabaWorld(cloud, stop_in_group=stop)
    await world.provider.off(world.machine, "job.r0s0a1")
    assert world.on.at(PowerState.STOPPING)
    await world.provider.close()


async def test_an_empty_list_without_the_right_to_see_is_no_word_on_the_machine(
    alone: AlibabaWorld,
) -> None:
    alone.cloud.blind = True
    with pytest.raises(Denied, match="not authorized"):
        await alone.provider.power(alone.machine)


async def test_a_planned_event_that_waits_for_a_word_is_accepted_once(alone: AlibabaWorld) -> None:
    events = alone.cloud.events
    events["e-bp1hygp5b04o56l0001"] = (INSTANCE, "Inquiring")
    assert alone.provider.can.approve
    for _ in range(2):
        await alone.provider.approve(alone.machine, "e-bp1hygp5b04o56l0001")
        assert events["e-bp1hygp5b04o56l0001"] == (INSTANCE, "Scheduled")
    actions = [r.headers["x-acs-action"] for r in alone.cloud.server.asked]
    assert actions.count("AcceptInquiredSystemEvent") == 1


@pytest.mark.parametrize(
    ("instance", "status", "words"),
    [
        ("i-bp67acfmxazb4ph00002", "Inquiring", "no system event"),
        (INSTANCE, "Canceled", "Canceled"),
    ],
)
async def test_an_event_of_another_machine_or_one_that_is_over_is_not_accepted(
    alone: AlibabaWorld, instance: str, status: str, words: str
) -> None:
    alone.cloud.events["e-1"] = (instance, status)
    with pytest.raises(Refused, match=words):
        await alone.provider.approve(alone.machine, "e-1")
    assert alone.cloud.events["e-1"] == (instance, status)


@pytest.mark.parametrize(
    ("node", "right"),
    [
        (f"{REGION}.192.168.7.21", True),
        (f"{REGION}.{INSTANCE}", True),
        ("worker-7", True),
        ("worker-7.shop.example", True),
        (f"{REGION}.192.168.7.22", False),
        (f"{REGION}.i-bp67acfmxazb4ph00002", False),
        ("worker-8", False),
    ],
)
async def test_the_node_must_bear_a_name_of_the_instance(
    alone: AlibabaWorld, node: str, right: bool
) -> None:
    machine = replace(alone.machine, node=node)
    if right:
        await alone.provider.reset(machine, "job.r0s0a1")
    else:
        with pytest.raises(Refused, match=r"the Node is"):
            await alone.provider.reset(machine, "job.r0s0a1")
    await alone.settle()
    assert alone.boots == int(right)


@pytest.mark.parametrize(
    ("refusal", "meaning", "words"),
    [
        ((403, "OperationDenied.NoStock", "The resource is out of stock."), Busy, "out of stock"),
        ((403, "InstanceLockedForSecurity", "The instance is locked."), Refused, "locked"),
        ((404, "InvalidInstanceId.NotFound", "Does not exist."), NoSuchMachine, "exist"),
        ((400, "InvalidSecurityToken.Expired", "The token expired."), Denied, "expired"),
        ((404, "InvalidAccessKeyId.NotFound", "The key is not found."), Denied, "key"),
        ((503, "Throttling.Api", "Flow control."), Throttled, "Flow"),
    ],
)
async def test_refusals_of_alibaba_are_told_as_what_they_are(
    alone: AlibabaWorld, refusal: tuple[int, str, str], meaning: type[Exception], words: str
) -> None:
    alone.cloud.refusal = refusal
    with pytest.raises(meaning, match=words):
        await alone.provider.off(alone.machine, "job.r0s0a1")


async def test_throttling_says_when_to_come_again(alone: AlibabaWorld) -> None:
    alone.begin(Trouble.THROTTLED)
    with pytest.raises(Throttled) as told:
        await alone.provider.power(alone.machine)
    assert told.value.after == timedelta(seconds=4)


async def test_a_request_is_sent_once(alone: AlibabaWorld) -> None:
    alone.cloud.refusal = (500, "InternalError", "The request processing has failed.")
    with pytest.raises(Exception, match="failed"):
        await alone.provider.reset(alone.machine, "job.r0s0a1")
    actions = [r.headers["x-acs-action"] for r in alone.cloud.server.asked]
    assert actions.count("RebootInstance") == 1
