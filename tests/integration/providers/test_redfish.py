"""Provider redfish through the real sushy, against a BMC of DSP0266's examples over HTTPS."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.clock import FakeClock
from support.fake_redfish import SYSTEMS, FakeBmc
from support.pki import Authority
from support.provider_contract import ProviderContract, Trouble
from support.served_provider import ServedWorld

from kubenode.providers.errors import Busy, Denied, Refused, Unreachable
from kubenode.providers.port import PowerState, ProviderMachine
from kubenode.providers.redfish.power import BMC, Redfish
from kubenode.providers.settings import RedfishAuth, RedfishSettings
from kubenode.providers.threads import Threaded

pytestmark = pytest.mark.integration

PASSWORD = "calvin-but-longer"
NODE = "rack3-node7"


class RedfishWorld(ServedWorld):
    missing = Refused
    """A system that a BMC does not know may be anywhere."""
    troubles = frozenset(Trouble)
    secrets = (PASSWORD,)

    def __init__(self, bmc: FakeBmc, folder: Path, ca: Path, **settings: Any) -> None:
        self.bmc = bmc
        at = {BMC: f"{bmc.server.url}{SYSTEMS}/1"}
        self.machine = ProviderMachine("", NODE, at)
        self.unknown = ProviderMachine("", NODE, {BMC: f"{bmc.server.url}{SYSTEMS}/9"})
        self.foreign = ProviderMachine("aws:///eu-west-1a/i-0123456789abcdef0", NODE)
        (folder / "username").write_text("kubenode\n")
        (folder / "password").write_text(f"{PASSWORD}\n")
        self._given: dict[str, Any] = {
            "type": "redfish",
            "within": ["127.0.0.0/8"],
            "username_file": str(folder / "username"),
            "password_file": str(folder / "password"),
            "ca_file": str(ca),
            **settings,
        }
        super().__init__(bmc, bmc.systems["1"])

    def _provider(self, seconds: int) -> Threaded:
        patience = timedelta(seconds=seconds)
        given = self._given | {"connect_timeout": patience, "read_timeout": patience}
        clock = FakeClock()
        return Threaded(Redfish(RedfishSettings(**given), clock), clock)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def bmc(authority: Authority) -> Iterator[FakeBmc]:
    fake = FakeBmc(authority.issue("bmc", "bmc", sans=["127.0.0.1"]), "kubenode", PASSWORD)
    fake.add("1", f"{NODE}.dc1.example.com")
    yield fake
    fake.server.close()


@pytest.fixture
async def one(bmc: FakeBmc, authority: Authority, tmp_path: Path) -> AsyncIterator[RedfishWorld]:
    world = RedfishWorld(bmc, tmp_path, authority.cert_file)
    yield world
    await world.provider.close()


class TestBasic(ProviderContract):
    @pytest.fixture
    def world(self, one: RedfishWorld) -> RedfishWorld:
        return one


class TestSessions(ProviderContract):
    @pytest.fixture
    async def world(
        self, bmc: FakeBmc, authority: Authority, tmp_path: Path
    ) -> AsyncIterator[RedfishWorld]:
        world = RedfishWorld(bmc, tmp_path, authority.cert_file, auth=RedfishAuth.SESSION)
        yield world
        await world.provider.close()
        assert bmc.sessions == set(), "a BMC has room for a few sessions only"


async def test_the_only_system_needs_no_name_and_of_several_one_must_be_named(
    one: RedfishWorld,
) -> None:
    bare = replace(one.machine, annotations={BMC: one.bmc.server.url})
    assert (await one.provider.power(bare)).state is PowerState.ON
    one.bmc.add("2", "rack3-node8")
    with pytest.raises(Refused, match=r"2 systems .*Systems/2"):
        await one.provider.power(bare)


async def test_nothing_outside_of_the_settings_is_ever_called(
    bmc: FakeBmc, authority: Authority, tmp_path: Path
) -> None:
    world = RedfishWorld(bmc, tmp_path, authority.cert_file, within=["10.8.0.0/16"])
    with pytest.raises(Refused, match=r"127\.0\.0\.1 .* is not within 10\.8\.0\.0/16"):
        await world.provider.power(world.machine)
    assert bmc.server.asked == []
    listed = RedfishWorld(
        bmc,
        tmp_path,
        authority.cert_file,
        within=["10.8.0.0/16"],
        bmcs={NODE: bmc.server.url},
    )
    elsewhere = replace(world.machine, annotations={BMC: "10.8.0.66"})
    assert (await listed.provider.power(elsewhere)).state is PowerState.ON, "settings go first"
    await world.provider.close()
    await listed.provider.close()


async def test_a_bmc_receives_only_the_credentials_of_its_own_address(
    bmc: FakeBmc, authority: Authority, tmp_path: Path
) -> None:
    per_bmc = str(tmp_path / "{bmc}.password")
    world = RedfishWorld(bmc, tmp_path, authority.cert_file, password_file=per_bmc)
    (tmp_path / "10.8.3.7.password").write_text(PASSWORD)
    with pytest.raises(Denied, match=r"127\.0\.0\.1\.password"):
        await world.provider.power(world.machine)
    assert bmc.server.asked == []
    (tmp_path / "127.0.0.1.password").write_text(PASSWORD)
    assert (await world.provider.power(world.machine)).state is PowerState.ON
    await world.provider.close()


def test_a_path_for_an_ipv6_address_has_no_colon() -> None:
    settings = RedfishSettings(
        type="redfish", within=["fd00::/8"], username_file="/u", password_file="/s/{bmc}"
    )
    assert settings.credentials_of("fd00::1") == ("/u", "/s/fd00--1")


async def test_a_bmc_that_we_cannot_trust_is_not_handed_the_password(
    bmc: FakeBmc, authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other")
    world = RedfishWorld(bmc, tmp_path, stranger.cert_file)
    with pytest.raises(Unreachable, match=r"(?i)certificate"):
        await world.provider.power(world.machine)
    assert bmc.server.asked == []
    blind = RedfishWorld(bmc, tmp_path, stranger.cert_file, verify_tls=False)
    assert (await blind.provider.power(world.machine)).state is PowerState.ON
    await world.provider.close()
    await blind.provider.close()


@pytest.mark.parametrize("host", ["", "localhost", "localhost.localdomain"])
@pytest.mark.parametrize("owned", [{"bmcs": {NODE: "URL"}}, {"trust_annotations": True}])
async def test_a_system_without_a_name_is_the_nodes_where_the_settings_say_so(
    bmc: FakeBmc, authority: Authority, tmp_path: Path, host: str, owned: dict[str, Any]
) -> None:
    bmc.hosts["1"] = host
    given = {"bmcs": {NODE: f"{bmc.server.url}{SYSTEMS}/1"}} if "bmcs" in owned else owned
    world = RedfishWorld(bmc, tmp_path, authority.cert_file, **given)
    await world.provider.reset(world.machine, "job.r0s0a1")
    await world.settle()
    assert world.boots == 1
    await world.provider.close()


@pytest.mark.parametrize("host", ["", "localhost", "rack3-node8"])
async def test_an_annotated_address_proves_nothing_of_a_system_that_is_not_named_as_the_node(
    one: RedfishWorld, host: str
) -> None:
    """A kubelet writes the annotation: of any BMC that is off."""
    one.bmc.hosts["1"], one.bmc.power = host, "Off"
    with pytest.raises(Refused, match="the address is the Node's own word: name the BMC in bmcs"):
        await one.provider.power(one.machine)
    with pytest.raises(Refused, match="own word"):
        await one.provider.off(one.machine, "job.r0s0a1")


async def test_the_check_of_the_name_can_be_switched_off(
    bmc: FakeBmc, authority: Authority, tmp_path: Path
) -> None:
    bmc.hosts["1"] = "left-over-name1"
    owned = {"bmcs": {NODE: f"{bmc.server.url}{SYSTEMS}/1"}}
    strict = RedfishWorld(bmc, tmp_path, authority.cert_file, **owned)
    with pytest.raises(Refused, match="checkHostName"):
        await strict.provider.reset(strict.machine, "job.r0s0a1")
    loose = RedfishWorld(bmc, tmp_path, authority.cert_file, check_host_name=False, **owned)
    await loose.provider.reset(loose.machine, "job.r0s0a1")
    await loose.settle()
    assert loose.boots == 1
    await strict.provider.close()
    await loose.provider.close()


async def test_power_cycle_stands_in_where_a_bmc_cannot_force_a_restart(one: RedfishWorld) -> None:
    one.bmc.allowed = ("On", "ForceOff", "PowerCycle")
    await one.provider.reset(one.machine, "job.r0s0a1")
    asked = [r.json for r in one.bmc.server.asked if r.method == "POST"]
    assert asked == [{"ResetType": "PowerCycle"}]
    one.bmc.allowed = ("On", "GracefulShutdown")
    with pytest.raises(Refused):
        await one.provider.off(one.machine, "job.r0s1a1")


@pytest.mark.parametrize("word", ["Paused", "SomethingNew"])
async def test_only_off_is_dark(one: RedfishWorld, word: str) -> None:
    one.bmc.power = word
    seen = await one.provider.power(one.machine)
    assert (seen.state, seen.state.dark) == (PowerState.UNKNOWN, False)


async def test_changed_credentials_are_used_from_then_on(one: RedfishWorld, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("wrong\n")
    with pytest.raises(Denied):
        await one.provider.power(one.machine)
    (tmp_path / "password").unlink()
    with pytest.raises(Denied, match="password"):
        await one.provider.power(one.machine)
    (tmp_path / "password").write_text(PASSWORD)
    assert (await one.provider.power(one.machine)).state is PowerState.ON


@pytest.mark.parametrize(
    ("refusal", "meaning"),
    [
        ((503, "Base.1.8.ServiceTemporarilyUnavailable", "Come again in 30 seconds."), Busy),
        ((400, "iLO.2.14.InvalidOperationForSystemState", "Not in this state."), Busy),
        ((403, "Base.1.8.InsufficientPrivilege", "Insufficient privileges."), Denied),
        ((400, "Base.1.8.ActionParameterNotSupported", "Not supported."), Refused),
    ],
)
async def test_refusals_of_a_bmc_are_told_as_what_they_are(
    one: RedfishWorld, refusal: tuple[int, str, str], meaning: type[Exception]
) -> None:
    one.bmc.refusal = refusal
    with pytest.raises(meaning):
        await one.provider.off(one.machine, "job.r0s0a1")


async def test_a_restart_whose_answer_is_late_is_not_sent_again(one: RedfishWorld) -> None:
    one.bmc.refusal = (500, "Base.1.8.InternalError", "The request failed.")
    with pytest.raises(Unreachable):
        await one.provider.reset(one.machine, "job.r0s0a1")
    assert len([r for r in one.bmc.server.asked if r.method == "POST"]) == 1
