"""Provider `local` over real hosts: what it says is off runs nothing, and a reset boots."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from support.cgroups import processes
from support.hosts import Host, Hosts
from support.provider_contract import ProviderContract, ProviderWorld, Trouble

from kubenode.providers.errors import NoSuchMachine, ProviderError
from kubenode.providers.local.power import PREFIX, Local
from kubenode.providers.port import PowerState, Provider, ProviderMachine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

FAULTS = {
    Trouble.DENIED: "echo 'login to the board was refused' >&2; exit 77",
    Trouble.BUSY: "echo 'another one switches it' >&2; exit 75",
    Trouble.BROKEN: "echo 'internal error' >&2; exit 1",
    Trouble.REFUSED_CONNECTION: "echo 'connection refused by its board' >&2; exit 69",
    Trouble.SILENT: "sleep 60",
}


class World:
    """One host, asked through the command that reaches its board."""

    foreign = ProviderMachine("aws:///eu-west-1a/i-0123456789abcdef0", "p1")
    missing: type[ProviderError] = NoSuchMachine
    troubles = frozenset(FAULTS)
    secrets: tuple[str, ...] = ()

    def __init__(self, hosts: Hosts, host: Host, folder: Path) -> None:
        self._host, self._folder, self._before = host, folder, host.boots
        place = f"{PREFIX}{hosts.session}"
        self.machine = ProviderMachine(f"{place}/{host.name}", host.name)
        self.unknown = ProviderMachine(f"{place}/p9", "p9")
        self.provider: Provider = Local(hosts.power_command, timeout=timedelta(seconds=40))

    @property
    def boots(self) -> int:
        return self._host.boots - self._before

    async def settle(self) -> None:
        end = time.monotonic() + 60
        while self._host.board("state") == "on" and not self._host.boot_id():
            assert time.monotonic() < end, self._host.console()

    def begin(self, trouble: Trouble) -> None:
        script = self._folder / "power"
        script.write_text(FAULTS[trouble])
        self.provider = Local(["/bin/sh", str(script)], timeout=timedelta(seconds=2))


@pytest.fixture(scope="module")
def host(hosts: Hosts) -> Host:
    return hosts.boot("p1")


class TestLocalOverRealHosts(ProviderContract):
    @pytest.fixture
    def world(self, hosts: Hosts, host: Host, tmp_path: Path) -> Iterator[ProviderWorld]:
        host.start()
        yield World(hosts, host, tmp_path)


async def test_hung_host_is_off_only_when_none_of_its_processes_is_left(
    hosts: Hosts, host: Host, tmp_path: Path
) -> None:
    host.start()
    world = World(hosts, host, tmp_path)
    host.hang()
    assert (await world.provider.power(world.machine)).state is PowerState.ON
    assert processes(host.groups)
    await world.provider.off(world.machine, "job.r0s0a1")
    assert (await world.provider.power(world.machine)).state is PowerState.OFF
    assert not processes(host.groups)
    await world.provider.on(world.machine, "job.r0s1a1")
    await world.settle()
    assert world.boots == 1
