"""Whatever happens in whatever order, the record never holds more than the limits allow.

Hypothesis plays askers, failing writes, restarts, failing nodes and time; a model that shares no
code with Kube Defender counts on the record alone.
"""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.defender_world import Fate, World, a_policy, an_ask

from defender.client import DefenderUnreachable
from kubenode.api.v1alpha1 import Disruption
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, PerNode, Rate

NODES, AT_ONCE, PER_ZONE, COUNT, BURST = 12, 3, 1, 6, 4
HOUR = timedelta(hours=1)
LIMITS = (
    Limit(
        scope=LimitScope.CLUSTER,
        max_concurrent=AT_ONCE,
        min_healthy="50%",
        rate=Rate(count=COUNT, per=HOUR, burst=BURST),
    ),
    Limit(scope=LimitScope.LABEL, label="zone", max_concurrent=PER_ZONE),
)
NODE = st.integers(0, NODES - 1)
ASKED = (Disruption.HOST, Disruption.NODE, Disruption.NODE)
STRONG = (Disruption.PODS, Disruption.NODE)


class NeverAbove(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.world = World(0, a_policy(*LIMITS, per_node=PerNode(max_acts=1000)))
        for i in range(NODES):
            self.node(i, "True")
        self.run(self.world.start())

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    def run(self, work: Any) -> Any:
        with contextlib.suppress(asyncio.CancelledError, DefenderUnreachable):
            return self.loop.run_until_complete(work)

    def node(self, i: int, ready: str) -> None:
        self.world.node(f"n{i}", ready, labels={"zone": f"z{i % 4}"})

    @rule(nodes=st.lists(NODE, min_size=1, max_size=6), class_=st.sampled_from(ASKED))
    def several_ask_at_once(self, nodes: list[int], class_: Disruption) -> None:
        asks = [self.world.defender.ask(an_ask(f"n{i}", class_, kind="Test")) for i in nodes]

        async def all_of_them() -> None:
            await asyncio.gather(*asks, return_exceptions=True)

        self.run(all_of_them())

    @rule(which=st.integers(0, 5))
    def one_gives_back(self, which: int) -> None:
        held = sorted(self.world.api.open_permits(), key=lambda p: p.metadata.name)
        if held:
            name = held[which % len(held)].metadata.name
            self.run(self.world.defender.release(name))

    @rule(ahead=st.integers(0, 1), fate=st.sampled_from(list(Fate)))
    def a_write_to_come_goes_wrong(self, ahead: int, fate: Fate) -> None:
        self.world.api.fates[self.world.api.writes + ahead] = fate

    @rule()
    def what_was_late_arrives(self) -> None:
        self.world.api.land()

    @rule(minutes=st.sampled_from([0.1, 1, 10, 40]))
    def time_passes(self, minutes: float) -> None:
        self.world.api.land()  # no request is on its way for as long as UNCLEAR
        self.world.step(minutes=minutes)

    @rule()
    def the_keeper_makes_its_round(self) -> None:
        self.run(self.world.defender.keeper.round())

    @rule()
    def the_process_starts_anew(self) -> None:
        self.world.api.land()  # what a dead process had sent is not ours to count
        self.run(self.world.restart(behind=True))

    @rule(i=NODE, ready=st.sampled_from(["True", "False"]))
    def a_node_fails_or_recovers(self, i: int, ready: str) -> None:
        self.node(i, ready)

    @invariant()
    def never_above_the_limits(self) -> None:
        if not hasattr(self, "world"):
            return
        strong = [p for p in self.world.api.open_permits() if p.spec.class_ in STRONG]
        assert len(strong) <= AT_ONCE
        zones = [int(p.spec.node_name[1:]) % 4 for p in strong]
        assert all(zones.count(zone) <= PER_ZONE for zone in set(zones))
        nodes = [p.spec.node_name for p in self.world.api.open_permits()]
        assert len(nodes) == len(set(nodes))

    @invariant()
    def never_faster_than_the_rate(self) -> None:
        if not hasattr(self, "world"):
            return
        grants = sorted(
            g.at for p in self.world.api.permits() for g in p.spec.grants if g.class_ in STRONG
        )
        tokens, last = float(BURST), None
        for at in grants:
            if last is not None:
                tokens = min(BURST, tokens + (at - last) / HOUR * COUNT)
            tokens, last = tokens - 1, at
            assert tokens > -0.01


pytestmark = pytest.mark.exhaustive
TestNeverAbove = NeverAbove.TestCase
TestNeverAbove.settings = settings(
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
