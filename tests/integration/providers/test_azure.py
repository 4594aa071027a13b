"""Provider azure through the real SDK, against an HTTPS endpoint with published answers."""

import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from support.clock import FakeClock
from support.fake_azure import BASE, GROUP, SET, SUBSCRIPTION, FakeAzure
from support.pki import Authority
from support.provider_contract import ProviderContract, Trouble
from support.served_provider import ServedWorld

from kubenode.providers.azure.power import Azure
from kubenode.providers.errors import Busy, Denied, NoSuchMachine, Refused, Throttled
from kubenode.providers.port import PowerState, ProviderMachine
from kubenode.providers.settings import AzureReplace, AzureSettings
from kubenode.providers.threads import Threaded

pytestmark = pytest.mark.integration

SECRET = "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9.very-secret"
ALONE = "virtualMachines/worker-7"
MEMBER = f"virtualMachineScaleSets/{SET}/virtualMachines/2"


class Token:
    """A credential that needs no login server."""

    def get_token(self, *scopes: str, **kwargs: Any) -> AccessToken:
        return AccessToken(SECRET, int(time.time()) + 3600)


class AzureWorld(ServedWorld):
    missing = NoSuchMachine
    troubles = frozenset(Trouble)
    secrets = (SECRET,)

    def __init__(self, cloud: FakeAzure, ca: Path, path: str, node: str, **settings: Any) -> None:
        self.cloud = cloud
        self.clock = FakeClock()
        self.machine = ProviderMachine(f"azure://{BASE}/{path}", node)
        self.unknown = ProviderMachine(f"azure://{BASE}/{path[:-1]}9", node)
        self.foreign = ProviderMachine(
            self.machine.provider_id.replace(SUBSCRIPTION, SUBSCRIPTION.replace("6", "7")), node
        )
        self._given: dict[str, Any] = {
            "type": "azure",
            "subscription": SUBSCRIPTION,
            "endpoint": cloud.server.url,
            "ca_file": str(ca),
            **settings,
        }
        super().__init__(cloud, cloud.machines[path.lower()])

    def _provider(self, seconds: int) -> Threaded:
        patience = timedelta(seconds=seconds)
        given = self._given | {"connect_timeout": patience, "read_timeout": patience}
        return Threaded(Azure(AzureSettings(**given), self.clock, Token()), self.clock)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def cloud(authority: Authority) -> Iterator[FakeAzure]:
    fake = FakeAzure(authority.issue("azure", "azure", sans=["127.0.0.1"]))
    fake.add(ALONE, "worker-7")
    fake.add(MEMBER, "aks-pool1-28371-vmss000002")
    yield fake
    fake.server.close()


@pytest.fixture
async def member(cloud: FakeAzure, authority: Authority) -> AsyncIterator[AzureWorld]:
    world = AzureWorld(cloud, authority.cert_file, MEMBER, "aks-pool1-28371-vmss000002")
    yield world
    await world.provider.close()


class TestAMachineOfItsOwn(ProviderContract):
    @pytest.fixture
    async def world(self, cloud: FakeAzure, authority: Authority) -> AsyncIterator[AzureWorld]:
        world = AzureWorld(cloud, authority.cert_file, ALONE, "worker-7")
        yield world
        await world.provider.close()

    async def test_it_is_in_no_set_and_nothing_would_follow_it(self, world: AzureWorld) -> None:
        with pytest.raises(Refused, match="in no scale set"):
            await world.provider.replace(world.machine, "job.r1s0a1")


class TestAMemberOfAScaleSet(ProviderContract):
    @pytest.fixture
    def world(self, member: AzureWorld) -> AzureWorld:
        return member


async def test_reimaging_makes_the_instance_anew_under_its_number(member: AzureWorld) -> None:
    assert member.provider.can.renews
    await member.provider.replace(member.machine, "job.r1s0a1")
    await member.settle()
    assert (member.on.generation, member.boots) == (2, 1)
    assert (await member.provider.power(member.machine)).state is PowerState.ON


async def test_a_deleted_instance_is_gone_once_it_is_missed_twice(
    cloud: FakeAzure, authority: Authority
) -> None:
    world = AzureWorld(
        cloud,
        authority.cert_file,
        MEMBER,
        "aks-pool1-28371-vmss000002",
        replace=AzureReplace.DELETE,
    )
    assert not world.provider.can.renews
    await world.provider.power(world.machine)
    await world.provider.replace(world.machine, "job.r1s0a1")
    with pytest.raises(NoSuchMachine):
        await world.provider.power(world.machine)
    world.clock.step(timedelta(seconds=31))
    gone = await world.provider.power(world.machine)
    assert gone.state is PowerState.GONE and gone.state.dark


@pytest.mark.parametrize(
    ("codes", "state"),
    [
        (["PowerState/deallocated"], PowerState.OFF),
        (["PowerState/deallocating"], PowerState.STOPPING),
        (["PowerState/unknown"], PowerState.UNKNOWN),
        ([], PowerState.UNKNOWN),
        (["PowerState/deallocated", "HibernationState/Hibernated"], PowerState.UNKNOWN),
        (["PowerState/running", "PowerState/stopped"], PowerState.UNKNOWN),
    ],
)
async def test_only_a_plain_word_of_the_power_state_counts(
    member: AzureWorld, codes: list[str], state: PowerState
) -> None:
    member.on.state = PowerState.UNKNOWN
    member.cloud.codes[MEMBER.lower()] = codes
    assert (await member.provider.power(member.machine)).state is state


async def test_a_deallocated_machine_is_started(member: AzureWorld) -> None:
    member.on.state = PowerState.UNKNOWN
    member.cloud.codes[MEMBER.lower()] = ["PowerState/deallocated"]
    await member.provider.off(member.machine, "job.r0s0a1")
    assert member.on.at(PowerState.UNKNOWN), "deallocated is off already"
    await member.provider.on(member.machine, "job.r0s1a1")
    assert member.on.at(PowerState.STARTING)


@pytest.mark.parametrize(
    ("refusal", "meaning", "words"),
    [
        ((409, "AllocationFailed", "We do not have sufficient capacity."), Busy, "capacity"),
        ((409, "OperationNotAllowed", "The VM is marked for deletion."), Refused, "deletion"),
        ((403, "RequestDisallowedByPolicy", "Disallowed by policy."), Refused, "policy"),
        ((409, "ScopeLocked", "The scope is locked."), Refused, "locked"),
        ((404, "SubscriptionNotFound", "The subscription was not found."), Denied, "subscription"),
        ((401, "ExpiredAuthenticationToken", "The token expired."), Denied, "expired"),
        ((503, "ServiceUnavailable", "Try later."), Exception, "later"),
    ],
)
async def test_refusals_of_azure_are_told_as_what_they_are(
    member: AzureWorld, refusal: tuple[int, str, str], meaning: type[Exception], words: str
) -> None:
    member.cloud.refusal = refusal
    with pytest.raises(meaning, match=words):
        await member.provider.off(member.machine, "job.r0s0a1")


async def test_throttling_says_when_to_come_again(member: AzureWorld) -> None:
    member.begin(Trouble.THROTTLED)
    with pytest.raises(Throttled) as told:
        await member.provider.power(member.machine)
    assert told.value.after == timedelta(seconds=17)


async def test_a_request_is_sent_once(member: AzureWorld) -> None:
    member.cloud.refusal = (500, "InternalServerError", "Encountered internal server error.")
    with pytest.raises(Exception, match="internal"):
        await member.provider.reset(member.machine, "job.r0s0a1")
    posts = [r.path for r in member.cloud.server.asked if r.method == "POST"]
    assert len(posts) == 1 and posts[0].endswith("/restart")


async def test_the_words_of_the_path_count_in_any_case(member: AzureWorld) -> None:
    shouted = ProviderMachine(member.machine.provider_id.upper().replace("AZURE", "azure", 1), "x")
    assert member.provider.owns(shouted)
    assert GROUP.upper() in shouted.provider_id
    assert (await member.provider.power(shouted)).state is PowerState.ON


async def test_an_endpoint_that_we_cannot_trust_is_not_spoken_to(
    cloud: FakeAzure, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path)
    world = AzureWorld(cloud, stranger.cert_file, MEMBER, "aks-pool1-28371-vmss000002")
    with pytest.raises(Exception, match=r"(?i)certificate"):
        await world.provider.power(world.machine)
    assert cloud.server.asked == []
