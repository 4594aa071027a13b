"""The demo's machines: what boots, and when, and what is silent meanwhile."""

import random
from datetime import timedelta

import pytest
from support.clock import FakeClock
from support.running import running

from kubenode.providers.port import PowerState, ProviderMachine
from simulation.demo.agenda import Agenda
from simulation.demo.fleet import places
from simulation.demo.hosts import KUBELET, By, DemoHost, Illness, Mark
from simulation.demo.power import BOOT, OFF, Machines


class Site:
    """One host and whoever runs its machine."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.host = DemoHost(places(6)[4])
        self.agenda = Agenda("machines", self.clock)
        hosts = {self.host.name: self.host}
        self.machines = Machines(hosts, self.agenda, self.clock, 1.0, random.Random(1))
        self.machine = ProviderMachine("demo:///zone-a/i-1", self.host.name)
        self.boots: list[By] = []
        self.host.booted = lambda host, by: self.boots.append(by)

    async def passes(self, seconds: float) -> None:
        async with running(self.agenda.run()):
            await self.clock.advance(timedelta(seconds=seconds))


@pytest.fixture
def site() -> Site:
    return Site()


async def test_a_power_cycle_boots_once_and_cures_what_only_a_boot_cures(site: Site) -> None:
    site.host.mark(Mark.KERNEL_DEADLOCK, 0.0)
    site.host.goes_down()
    before = site.host.boot_id
    await site.machines.off(site.machine, "r1")
    assert (await site.machines.power(site.machine)).state is PowerState.STOPPING
    await site.passes(OFF[1] + 1)
    assert (await site.machines.power(site.machine)).state is PowerState.OFF
    await site.machines.on(site.machine, "r2")
    await site.machines.on(site.machine, "r2")
    assert not site.host.answers
    await site.passes(BOOT[1] + 1)
    assert site.boots == [By.PROVIDER]
    assert site.host.well and site.host.boot_id != before


async def test_a_machine_that_is_switched_off_while_it_boots_does_not_come_up(site: Site) -> None:
    site.machines.boots(site.host, By.AGENT)
    await site.machines.off(site.machine, "r1")
    await site.passes(BOOT[1] + 1)
    assert site.boots == [] and not site.host.answers


async def test_a_machine_that_a_person_boots_is_on_for_its_provider_too(site: Site) -> None:
    """Else it was off for ever by the provider's word, and a job that waited for it never ended."""
    await site.machines.off(site.machine, "r1")
    await site.passes(OFF[1] + 1)
    site.machines.boots(site.host, By.PERSON)
    await site.passes(BOOT[1] + 1)
    assert site.host.answers
    assert (await site.machines.power(site.machine)).state is PowerState.ON


async def test_what_comes_from_outside_outlives_a_boot(site: Site) -> None:
    site.host.break_unit(KUBELET, Illness(0.0, outside=True))
    site.machines.boots(site.host, By.PERSON)
    await site.passes(BOOT[1] + 1)
    assert site.host.answers and KUBELET in site.host.ill
