"""A fleet whose hosts' clocks are hours off: its faults are healed and nothing else is touched."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_hand import Hands

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
OFF = [timedelta(hours=-2), timedelta(0), timedelta(hours=2)]
FLEET = [f"n{n}" for n in range(6)]
RULES: dict[str, dict[str, Any]] = {
    "sick": {"condition": {"type": "Sick", "status": "True", "for": "5m"}},
    "not-ready": {"fact": {"name": "node.notReadyFor", "above": 300}},
}
BEGINS, LASTS = 10, 30
"""Minutes."""


@dataclass
class Fleet:
    """Hosts whose clocks are ahead by `off`; each reports every minute."""

    off: timedelta
    hands: Hands = field(default_factory=Hands)
    sick: str = ""
    turned: datetime = T0

    async def start(self) -> None:
        for name, when in RULES.items():
            await self.hands.rule(name, when=when, groupWait="0s")

    async def restart(self) -> None:
        """Another process over the same objects, which knows nothing else."""
        self.hands = Hands(self.hands.clock, self.hands)
        await self.hands.operator.rules.reload()

    def report(self) -> None:
        """As kubelet and detector write it: all stamps are the host's."""
        real = self.hands.clock.now()
        since = T0 - timedelta(days=2) + self.off
        for name in FLEET:
            ill = ("True", self.turned + self.off) if name == self.sick else ("False", since)
            flaps = ("False", real + self.off) if self._flaps(name, real) else ("True", since)
            self.hands.node(name, Ready=flaps, Sick=ill)
            node = self.hands.nodes.cache[name]
            for condition in node.status.conditions:
                assert condition.last_heartbeat_time is not None
                condition.last_heartbeat_time += self.off

    def _flaps(self, name: str, real: datetime) -> bool:
        """One kubelet restarts now and then: NotReady for one report."""
        return name == "n5" and (real - T0) // MINUTE % 7 == 3


@pytest.mark.parametrize("restarts", [set(), {5, 12, 20}], ids=["one life", "restarts"])
@pytest.mark.parametrize("off", OFF)
@pytest.mark.exhaustive
async def test_only_the_faulty_node_is_acted_on_when_the_clocks_of_hosts_are_off(
    off: timedelta, restarts: set[int]
) -> None:
    fleet = Fleet(off)
    await fleet.start()
    made_at: dict[str, datetime] = {}
    for minute in range(LASTS):
        if minute == BEGINS:
            fleet.sick, fleet.turned = "n2", fleet.hands.clock.now()
        if minute in restarts:
            await fleet.restart()
        fleet.report()
        fleet.hands.current()
        for name in FLEET:
            await fleet.hands.decide(name)
        for job in fleet.hands.made():
            made_at.setdefault(job.spec.node_name, fleet.hands.clock.now())
        fleet.hands.clock.step(MINUTE)
    assert set(made_at) == {"n2"}
    lasted = made_at["n2"] - fleet.turned
    assert 5 * MINUTE <= lasted <= 6 * MINUTE
