"""Provider gcp through the real SDK, against an endpoint with published answers."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from support.clock import FakeClock
from support.fake_gcp import PROJECT, REGION, ZONE, FakeGcp
from support.provider_contract import ProviderContract, Trouble
from support.served_provider import ServedWorld

from kubenode.providers.errors import Busy, Denied, NoSuchMachine, Refused, Throttled, Unsupported
from kubenode.providers.gcp.power import NUMBER, Gcp
from kubenode.providers.port import PowerState, ProviderMachine
from kubenode.providers.settings import GcpSettings, StopInGroup
from kubenode.providers.threads import Threaded

pytestmark = pytest.mark.integration

ALONE = "worker-7"
MEMBER = "gke-shop-pool1-0f3c-a1b2"


class GcpWorld(ServedWorld):
    missing = NoSuchMachine
    troubles = frozenset(Trouble)
    secrets = ()

    def __init__(self, cloud: FakeGcp, name: str, **settings: Any) -> None:
        self.cloud = cloud
        self.machine = ProviderMachine(f"gce://{PROJECT}/{ZONE}/{name}", name)
        self.unknown = ProviderMachine(f"gce://{PROJECT}/{ZONE}/{name}x", f"{name}x")
        self.foreign = ProviderMachine(f"gce://other-project/{ZONE}/{name}", name)
        self._given: dict[str, Any] = {
            "type": "gcp",
            "project": PROJECT,
            "endpoint": cloud.server.url,
            **settings,
        }
        super().__init__(cloud, cloud.machines[name])

    def _provider(self, seconds: int) -> Threaded:
        given = GcpSettings(**self._given, read_timeout=timedelta(seconds=seconds))
        clock, nobody = FakeClock(), AnonymousCredentials()  # type: ignore[no-untyped-call]
        return Threaded(Gcp(given, clock, nobody), clock)


@pytest.fixture
def cloud() -> Iterator[FakeGcp]:
    fake = FakeGcp()
    fake.add(ALONE)
    fake.add(MEMBER, "gke-shop-pool1-0f3c-grp")
    yield fake
    fake.server.close()


@pytest.fixture
async def member(cloud: FakeGcp) -> AsyncIterator[GcpWorld]:
    world = GcpWorld(cloud, MEMBER)
    yield world
    await world.provider.close()


class TestProviderGcp(ProviderContract):
    @pytest.fixture
    async def world(self, cloud: FakeGcp) -> AsyncIterator[GcpWorld]:
        world = GcpWorld(cloud, ALONE)
        yield world
        await world.provider.close()

    async def test_it_is_in_no_group_and_nothing_would_follow_it(self, world: GcpWorld) -> None:
        with pytest.raises(Refused, match="in no managed group"):
            await world.provider.replace(world.machine, "job.r1s0a1")


@pytest.mark.parametrize("place", [f"zones/{ZONE}", f"regions/{REGION}"])
async def test_a_group_makes_its_member_anew_once_for_each_request(
    cloud: FakeGcp, place: str
) -> None:
    cloud.add("gke-r-1", "grp", place)
    world = GcpWorld(cloud, "gke-r-1")
    assert world.provider.can.renews and world.provider.can.repeatable
    for request in ("job.r1s0a1", "job.r1s0a1"):
        await world.provider.replace(world.machine, request)
    await world.settle()
    assert (world.on.generation, world.boots) == (2, 1)
    await world.provider.replace(world.machine, "job.r1s0a2")
    assert world.on.generation == 3
    await world.provider.close()


async def test_a_member_that_its_group_would_make_anew_is_not_stopped(member: GcpWorld) -> None:
    with pytest.raises(Refused, match=r"instance group .* stopInGroup"):
        await member.provider.off(member.machine, "job.r0s0a1")
    assert member.on.at(PowerState.ON)
    member.cloud.groups["gke-shop-pool1-0f3c-grp"] = "DO_NOTHING"
    await member.provider.off(member.machine, "job.r0s0a1")
    assert member.on.at(PowerState.STOPPING)


async def test_settings_may_allow_to_stop_a_member(cloud: FakeGcp) -> None:
    world = GcpWorld(cloud, MEMBER, stop_in_group=StopInGroup.ALLOW)
    await world.provider.off(world.machine, "job.r0s0a1")
    assert world.on.at(PowerState.STOPPING)
    await world.provider.close()


async def test_a_namesake_is_not_the_machine_of_the_node(member: GcpWorld) -> None:
    mine = replace(member.machine, annotations={NUMBER: "7000000000000000001"})
    assert (await member.provider.power(mine)).state is PowerState.ON
    member.on.generation = 2
    seen = await member.provider.power(mine)
    assert (seen.state, seen.state.dark) == (PowerState.UNKNOWN, False)
    with pytest.raises(Refused, match="7000000000000000002"):
        await member.provider.reset(mine, "job.r0s0a1")
    await member.settle()
    assert member.boots == 0


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("PROVISIONING", PowerState.STARTING),
        ("REPAIRING", PowerState.UNKNOWN),
        ("SUSPENDED", PowerState.UNKNOWN),
        ("SUSPENDING", PowerState.UNKNOWN),
        ("DEPROVISIONING", PowerState.STOPPING),
        ("A_NEW_STATUS", PowerState.UNKNOWN),
    ],
)
async def test_only_a_status_that_we_know_counts(
    member: GcpWorld, status: str, state: PowerState
) -> None:
    member.cloud.status[MEMBER] = status
    seen = await member.provider.power(member.machine)
    assert (seen.state, seen.raw, seen.state.dark) == (state, status, False)


@pytest.mark.parametrize(
    ("refusal", "meaning", "words"),
    [
        ((429, "RATE_LIMIT_EXCEEDED", "Quota exceeded"), Throttled, "Quota"),
        ((409, "resourceInUseByAnotherResource", "in use"), Busy, "in use"),
        (
            (503, "backendError", "ZONE_RESOURCE_POOL_EXHAUSTED: no resources"),
            Busy,
            "EXHAUSTED",
        ),
        ((401, "authError", "Invalid Credentials"), Denied, "(?i)credentials"),
        ((404, "notFound", "The resource 'projects/shop' was not found"), Denied, "projects/shop"),
        ((400, "invalid", "Local SSD needs a word on discard-local-ssd"), Refused, "discard"),
    ],
)
async def test_refusals_of_google_are_told_as_what_they_are(
    cloud: FakeGcp, refusal: tuple[int, str, str], meaning: type[Exception], words: str
) -> None:
    world = GcpWorld(cloud, ALONE)
    cloud.refusal = refusal
    with pytest.raises(meaning, match=words):
        await world.provider.off(world.machine, "job.r0s0a1")
    await world.provider.close()


async def test_throttling_says_when_to_come_again(member: GcpWorld) -> None:
    member.begin(Trouble.THROTTLED)
    with pytest.raises(Throttled) as told:
        await member.provider.power(member.machine)
    assert told.value.after == timedelta(seconds=9)


async def test_a_request_is_sent_once(cloud: FakeGcp) -> None:
    world = GcpWorld(cloud, ALONE)
    cloud.refusal = (503, "backendError", "Backend Error")
    with pytest.raises(Exception, match="Backend"):
        await world.provider.reset(world.machine, "job.r0s0a1")
    assert [r.path for r in cloud.server.asked if r.method == "POST"] == [
        f"/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances/{ALONE}/reset"
    ]
    await world.provider.close()


MAINTENANCE = {
    "type": "SCHEDULED",
    "canReschedule": True,
    "windowStartTime": "2026-02-01T19:00:01Z",
    "maintenanceStatus": "PENDING",
}


async def test_upcoming_maintenance_starts_at_our_word_and_once(member: GcpWorld) -> None:
    member.cloud.maintenance[MEMBER] = dict(MAINTENANCE)
    assert member.provider.can.approve
    for _ in range(2):
        await member.provider.approve(member.machine, "upcoming-maintenance")
    assert member.cloud.maintenance[MEMBER]["maintenanceStatus"] == "ONGOING"
    asked = [r for r in member.cloud.server.asked if r.method == "POST"]
    assert [r.path.rpartition("/")[2] for r in asked] == ["performMaintenance"]


@pytest.mark.parametrize(
    ("event", "maintenance", "error", "words"),
    [
        ("upcoming-maintenance", None, Refused, "no upcoming maintenance"),
        ("upcoming-maintenance", {"canReschedule": False}, Refused, "keeps its window"),
        ("maintenance-event", {}, Unsupported, "waits for nobody"),
    ],
)
async def test_what_cannot_start_early_is_left_alone(
    member: GcpWorld,
    event: str,
    maintenance: dict[str, Any] | None,
    error: type[Exception],
    words: str,
) -> None:
    if maintenance is not None:
        member.cloud.maintenance[MEMBER] = MAINTENANCE | maintenance
    with pytest.raises(error, match=words):
        await member.provider.approve(member.machine, event)
    assert all(request.method == "GET" for request in member.cloud.server.asked)
