"""The demo's people: they boot what is handed over to them and is not well, each node once."""

import random
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest
from support.clock import FakeClock
from support.running import running

from simulation.demo.agenda import Agenda
from simulation.demo.faults import Kind, Planned
from simulation.demo.fleet import places
from simulation.demo.hosts import KUBELET, DemoHost, Illness, Mark
from simulation.demo.ledger import EndedBy, Ledger
from simulation.demo.power import BOOT, Machines
from simulation.demo.trouble import PERSON_TAKES, Trouble

NOBODY: Any = None


class Site:
    """One host, its machine, and the people."""

    def __init__(self, planned: Iterable[Planned] = ()) -> None:
        self.clock, self.ledger = FakeClock(), Ledger()
        self.host = DemoHost(places(6)[4])
        self.agenda = Agenda("people", self.clock)
        hosts = {self.host.name: self.host}
        rng = random.Random(1)
        self.machines = Machines(hosts, self.agenda, self.clock, 1.0, rng)
        self.trouble = Trouble(
            NOBODY,
            hosts,
            iter(planned),
            self.ledger,
            NOBODY,
            NOBODY,
            self.agenda,
            self.clock,
            1.0,
            rng,
        )

    async def a_person_was_there(self) -> None:
        """If anybody was called: time for the way, and for a boot."""
        async with running(self.agenda.run()):
            for seconds in (1.5 * PERSON_TAKES + 1, BOOT[1] + 1):
                await self.clock.advance(timedelta(seconds=seconds))


STRIKES: dict[Kind, Callable[[DemoHost], None]] = {
    Kind.KUBELET_DOWN: lambda host: host.break_unit(KUBELET, Illness(0.0)),
    Kind.DEADLOCK: lambda host: host.mark(Mark.KERNEL_DEADLOCK, 0.0),
    Kind.HOST_HUNG: lambda host: host.goes_down(),
}


@pytest.mark.parametrize("kind", STRIKES)
async def test_what_is_handed_over_is_booted_by_a_person(kind: Kind) -> None:
    site = Site()
    fault = site.ledger.inject(site.host.name, kind, 0.0)
    STRIKES[kind](site.host)
    for _ in range(3):
        site.trouble.call_person(site.host.name)
    await site.a_person_was_there()
    assert site.host.well
    assert fault.ended_by is EndedBy.PERSON


async def test_nobody_comes_to_a_node_that_is_well() -> None:
    site = Site()
    before = site.host.boot_id
    site.trouble.call_person(site.host.name)
    await site.a_person_was_there()
    assert site.host.boot_id == before


@pytest.mark.parametrize("kind", [Kind.KUBELET_DOWN, Kind.STORM])
@pytest.mark.parametrize("interrupted", [False, True])
async def test_no_single_fault_begins_while_a_breaker_is_open(
    kind: Kind, interrupted: bool
) -> None:
    site = Site([Planned(5.0, kind, (places(6)[4].name,))])
    site.trouble.is_interrupted = lambda: interrupted
    async with running(site.trouble.run()):
        await site.clock.advance(timedelta(seconds=6))
    assert site.host.well == (interrupted and kind is Kind.KUBELET_DOWN)
