"""The demo's people: they boot what is handed over to them and is not well, each node once."""

import random
from datetime import timedelta
from typing import Any

import pytest
from support.clock import FakeClock
from support.running import running

from kubenode.cli.demo.agenda import Agenda
from kubenode.cli.demo.faults import Kind
from kubenode.cli.demo.fleet import places
from kubenode.cli.demo.hosts import KUBELET, Host, Illness, Mark
from kubenode.cli.demo.ledger import EndedBy, Ledger
from kubenode.cli.demo.power import BOOT, Machines
from kubenode.cli.demo.trouble import PERSON_TAKES, Trouble

NOBODY: Any = None


class Site:
    """One host, its machine, and the people."""

    def __init__(self) -> None:
        self.clock, self.ledger = FakeClock(), Ledger()
        self.host = Host(places(6)[4])
        self.agenda = Agenda("people", self.clock)
        hosts = {self.host.name: self.host}
        rng = random.Random(1)
        self.machines = Machines(hosts, self.agenda, self.clock, 1.0, rng)
        self.trouble = Trouble(
            NOBODY, hosts, iter(()), self.ledger, NOBODY, NOBODY, self.agenda, self.clock, 1.0, rng
        )

    async def passes(self, seconds: float) -> None:
        async with running(self.agenda.run()):
            await self.clock.advance(timedelta(seconds=seconds))


ILL = {
    "a unit": lambda host: host.break_unit(KUBELET, Illness(0.0)),
    "a mark": lambda host: host.mark(Mark.KERNEL_DEADLOCK, 0.0),
    "dark": lambda host: host.goes_down(),
}


@pytest.mark.parametrize("how", ILL)
async def test_what_is_handed_over_is_booted_by_a_person(how: str) -> None:
    site = Site()
    kind = {"a unit": Kind.KUBELET_DOWN, "a mark": Kind.DEADLOCK, "dark": Kind.HOST_HUNG}[how]
    fault = site.ledger.inject(site.host.name, kind, 0.0)
    ILL[how](site.host)
    for _ in range(3):
        site.trouble.handed_over(site.host.name)
    await site.passes(1.5 * PERSON_TAKES + 1)
    await site.passes(BOOT[1] + 1)
    assert site.host.well
    assert fault.ended_by is EndedBy.PERSON


async def test_nobody_comes_to_a_node_that_is_well() -> None:
    site = Site()
    before = site.host.boot_id
    site.trouble.handed_over(site.host.name)
    await site.passes(1.5 * PERSON_TAKES + 1)
    await site.passes(BOOT[1] + 1)
    assert site.host.boot_id == before
