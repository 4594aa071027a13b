"""Whatever happens in whatever order, nobody is ever allowed more than the law; and when faults
stop, everybody who can be served is.

Hypothesis plays askers of all kinds, Defenders that die at any await, writes that are lost, late or
unheard, clocks that jump, nodes that fail, move, go and come back, and people who edit policies. A
model that shares no code with Kube Defender (support.defender_model) checks each answer. Longer:

    KUBENODE_MODEL_EXAMPLES=500 KUBENODE_MODEL_STEPS=100 pytest -m integration -k test_model
"""

import asyncio
import os
from collections.abc import Awaitable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.clock import T0
from support.defender_model import ZONE, Agent, Law, Pencil, Plain
from support.defender_players import Alone, OnRedis, Player, quietly
from support.defender_world import JOBS, NODES, POLICIES, Fate
from support.redis_server import RedisServer

from kubenode.api.v1alpha1 import Ask, Disruption, Operation, Permit, Verdict

pytestmark = pytest.mark.integration

EXAMPLES = int(os.environ.get("KUBENODE_MODEL_EXAMPLES", "25"))
STEPS = int(os.environ.get("KUBENODE_MODEL_STEPS", "40"))
MANY, ZONES = 12, 3
UNCLEAR = timedelta(seconds=90)
"""No request is on its way for longer."""
SETTLED = 400
"""Rounds of half a minute in which everybody must be served."""
PLAIN = Law()
MONTH = timedelta(days=30)
SECOND = timedelta(seconds=1)

numbers = st.integers(0, 59)
classes = st.sampled_from([Disruption.HOST, Disruption.PODS, Disruption.NODE, Disruption.NODE])
operations = st.sampled_from([Operation.REPAIR, Operation.REPAIR, *Operation])
severities = st.sampled_from(["Critical", "Warning", "Info"])
Wish = tuple[int, Disruption, Operation, bool, str]
wishes = st.tuples(numbers, classes, operations, st.booleans(), severities)
laws = st.builds(
    Law,
    at_once=st.integers(0, 5),
    in_zone=st.integers(0, 3),
    percent=st.sampled_from([None, None, 10, 30]),
    healthy=st.sampled_from([0, 0, 4, 8]),
    rate=st.sampled_from([None, (6, 1), (20, 3)]),
    hosts=st.integers(1, 3),
    paused=st.sampled_from(["", "", "", "cluster", "z1", "n2"]),
    windows=st.sampled_from([False, False, True]),
    trips=st.sampled_from([None, 40]),
)


class Life(RuleBasedStateMachine):
    """Of some agents on MANY nodes."""

    def player(self) -> Player:
        raise NotImplementedError

    # -- the world ----------------------------------------------------------------------------

    @initialize(law=laws)
    def begin(self, law: Law) -> None:
        self.loop = asyncio.new_event_loop()
        self.pencil = Pencil(PLAIN)
        self.count = 0
        self.play = self.player()
        self.api, self.clock = self.play.world.api, self.play.world.clock
        self.furthest = self.clock.now()
        for i in range(MANY):
            self.show(Plain(f"n{i}", f"z{i % ZONES}"))
        self.run(self.play.begin())
        self.govern(law)

    def run(self, work: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        if not hasattr(self, "play"):
            return
        try:
            self.everybody_is_served()
        finally:
            self.run(self.play.close())
            self.loop.close()

    def show(self, node: Plain) -> None:
        """The node as the API server has it."""
        self.pencil.nodes[node.name] = node
        self.pencil.epoch += 1
        conditions = [
            {
                "type": "Ready",
                "status": str(node.ready),
                "lastTransitionTime": self.clock.now().isoformat(),
            }
        ]
        meta = {
            "name": node.name,
            "uid": f"uid-{node.name}-{node.uid}",
            "creationTimestamp": (node.born or T0 - MONTH).isoformat(),
            "labels": {ZONE: node.zone},
        }
        spec = {"unschedulable": True} if node.cordoned else {}
        self.api.put(NODES, {"metadata": meta, "spec": spec, "status": {"conditions": conditions}})

    def show_job(self, agent: Agent, phase: str) -> None:
        if agent.is_job:
            meta = {"name": agent.name, "uid": f"uid-{agent.name}"}
            spec = {"nodeName": agent.node, "mode": "Enforce", "deadline": "2026-06-01T00:00:00Z"}
            self.api.put(JOBS, {"metadata": meta, "spec": spec, "status": {"phase": phase}})

    def pick(self, which: int) -> Agent | None:
        alive = [agent for agent in self.pencil.agents if agent.alive]
        return alive[which % len(alive)] if alive else None

    def picked(self, which: list[int]) -> list[Agent]:
        """Each once."""
        return list({a.name: a for i in which if (a := self.pick(i)) is not None}.values())

    # -- askers -------------------------------------------------------------------------------

    @rule(wants=st.lists(wishes, min_size=1, max_size=5), at=numbers)
    def some_want(self, wants: list[Wish], at: int) -> None:
        made = [agent for wish in wants if (agent := self.new(wish)) is not None]
        self.hear(made, self.run(self.answers(made, at)))

    def new(self, wish: Wish) -> Agent | None:
        names = sorted(self.pencil.nodes)
        if not names or sum(agent.alive for agent in self.pencil.agents) > 2 * MANY:
            return None
        self.count += 1
        node, class_, operation, is_job, severity = wish
        name = f"a{self.count}"
        agent = Agent(name, names[node % len(names)], class_, operation, is_job, severity)
        agent.asks_at = self.clock.now()
        self.pencil.agents.append(agent)
        self.show_job(agent, "AwaitingPermit")
        return agent

    @rule(which=st.lists(numbers, min_size=1, max_size=6), at=numbers)
    def several_ask_at_once(self, which: list[int], at: int) -> None:
        agents = self.picked(which)
        self.hear(agents, self.run(self.answers(agents, at)))

    @rule(which=st.lists(numbers, min_size=1, max_size=4), at=numbers, turns=st.integers(0, 30))
    def a_defender_dies_while_it_is_asked(self, which: list[int], at: int, turns: int) -> None:
        agents = self.picked(which)

        async def killed() -> list[Verdict | None]:
            asked = asyncio.ensure_future(self.answers(agents, at))
            for _ in range(turns):
                await asyncio.sleep(0)
            if asked.done():
                found: list[Verdict | None] = asked.result()
            else:
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
                found = [None] * len(agents)
            await self.play.kill(at)
            return found

        self.hear(agents, self.run(killed()))

    async def answers(self, agents: list[Agent], at: int) -> list[Verdict | None]:
        defender = self.play.one(at)
        found: list[Verdict | None] = await asyncio.gather(
            *(quietly(defender.ask(self.ask_of(a))) for a in agents)
        )
        return found

    def ask_of(self, agent: Agent) -> Ask:
        return Ask.model_validate(
            {
                "operation": agent.operation,
                "class": agent.class_,
                "node": agent.node,
                "holder": agent.holder,
                "severity": agent.severity,
            }
        )

    def hear(self, agents: list[Agent], answers: list[Verdict | None]) -> None:
        """The refused first: what they held they hold no longer."""
        heard = [(a, v) for a, v in zip(agents, answers, strict=True) if v is not None]
        for agent, verdict in heard:
            assert verdict.allowed or verdict.look_again_at is not None
            if not verdict.allowed:
                agent.asks_at = verdict.look_again_at
                if "no such node" in verdict.message and agent.is_job:
                    agent.lets_go()
                    self.ends(agent)
        for agent, verdict in heard:
            if verdict.allowed:
                assert verdict.permit and verdict.class_ is not None
                agent.asks_at = None
                permit = self.on_record(verdict.permit)
                self.pencil.granted(agent, permit, verdict.class_, self.clock.now())

    def on_record(self, name: str) -> Permit:
        """An allowed answer without a Permit would be forgotten with the process that gave it."""
        found = [p for p in self.api.permits() if p.metadata.name == name]
        assert found, f"permit {name} is not on record"
        return found[0]

    @rule(which=numbers, class_=classes)
    def a_holder_wants_more(self, which: int, class_: Disruption) -> None:
        agent = self.pick(which)
        if agent is not None and class_.weight > agent.class_.weight:
            agent.class_, agent.asks_at = class_, self.clock.now()

    @rule(which=numbers, at=numbers)
    def one_gives_back(self, which: int, at: int) -> None:
        agent = self.pick(which)
        if agent is not None and agent.holds:
            self.give_back(agent, at)

    def give_back(self, agent: Agent, at: int) -> None:
        """It acts no more; whether Kube Defender hears of it is another matter."""
        permit = agent.permit
        agent.lets_go()
        self.ends(agent)
        self.run(quietly(self.play.one(at).release(permit)))

    def ends(self, agent: Agent) -> None:
        agent.alive = False
        self.show_job(agent, "Succeeded")

    @rule(which=numbers, at=numbers, needs=st.sampled_from([60.0, 1800.0]))
    def one_renews_and_checks(self, which: int, at: int, needs: float) -> None:
        agent = self.pick(which)
        if agent is None or not agent.holds:
            return
        defender = self.play.one(at)
        self.run(quietly(defender.renew(agent.permit, needs)))
        verdict = self.run(quietly(defender.check(agent.permit, needs)))
        if verdict is not None and not verdict.allowed and "revoked" in verdict.message:
            agent.lets_go()
            agent.asks_at = self.clock.now()

    @rule(which=numbers, gone=st.booleans())
    def a_job_ends_without_a_word(self, which: int, gone: bool) -> None:
        agent = self.pick(which)
        if agent is None or not agent.is_job:
            return
        self.ends(agent)
        if gone:
            self.api.remove(JOBS, agent.name)

    # -- faults -------------------------------------------------------------------------------

    @rule(at=numbers)
    def a_defender_starts_anew(self, at: int) -> None:
        self.run(self.play.kill(at))

    @rule(ahead=st.integers(0, 2), fate=st.sampled_from(list(Fate)))
    def a_write_to_come_goes_wrong(self, ahead: int, fate: Fate) -> None:
        self.api.fates[self.api.writes + ahead] = fate

    @rule()
    def what_was_late_arrives(self) -> None:
        self.api.land()

    @rule(seconds=st.sampled_from([1, 10, 60, 600, 2400, 30_000]))
    def time_passes(self, seconds: int) -> None:
        time = seconds * SECOND
        if time >= UNCLEAR:
            self.api.land()
        self.run(self.play.passes(time))

    @rule(minutes=st.sampled_from([-120, -10, 10, 120]))
    def the_clock_jumps(self, minutes: int) -> None:
        jump = timedelta(minutes=minutes)
        self.api.land()
        self.furthest = max(self.furthest, self.clock.now())
        self.pencil.jumped = True
        self.clock.set_wall(jump)

    @rule()
    def housekeeping(self) -> None:
        self.run(self.play.keep())

    # -- nodes and people ---------------------------------------------------------------------

    def some_node(self, which: int) -> Plain | None:
        nodes = sorted(self.pencil.nodes.values(), key=lambda n: n.name)
        return replace(nodes[which % len(nodes)]) if nodes else None

    @rule(which=numbers, ready=st.booleans(), cordoned=st.booleans())
    def a_node_changes(self, which: int, ready: bool, cordoned: bool) -> None:
        if (node := self.some_node(which)) is not None:
            node.ready, node.cordoned = ready, cordoned
            self.show(node)

    @rule(which=st.lists(numbers, min_size=2, max_size=MANY), ready=st.booleans())
    def many_nodes_change(self, which: list[int], ready: bool) -> None:
        for each in which:
            self.a_node_changes(each, ready, False)

    @rule(which=numbers, zone=st.integers(0, ZONES - 1))
    def a_node_moves(self, which: int, zone: int) -> None:
        if (node := self.some_node(which)) is not None:
            node.zone = f"z{zone}"
            self.show(node)

    @precondition(lambda self: len(self.pencil.nodes) > MANY // 2)
    @rule(which=numbers)
    def a_node_goes(self, which: int) -> None:
        """Jobs about it are over, and no permit for it means anything."""
        node = self.some_node(which)
        assert node is not None
        del self.pencil.nodes[node.name]
        self.pencil.epoch += 1
        self.api.remove(NODES, node.name)
        for agent in self.pencil.agents:
            if agent.node == node.name and agent.alive:
                agent.lets_go()
                agent.asks_at = self.clock.now()
                if agent.is_job:
                    self.ends(agent)

    @precondition(lambda self: len(self.pencil.nodes) < MANY)
    @rule(zone=st.integers(0, ZONES - 1))
    def a_node_comes_back(self, zone: int) -> None:
        """Not within the second: instants of the API server have no parts of one."""
        self.count += 1
        self.run(self.play.passes(SECOND))
        gone = {f"n{i}" for i in range(MANY)} - self.pencil.nodes.keys()
        self.show(Plain(min(gone), f"z{zone}", self.count, self.clock.now()))

    @rule(law=laws, which=st.lists(numbers, max_size=6), at=numbers)
    def somebody_edits_the_policy(self, law: Law, which: list[int], at: int) -> None:
        self.govern(law)
        self.several_ask_at_once(which, at)

    def govern(self, law: Law) -> None:
        self.pencil.govern(law, self.clock.now())
        self.api.put(POLICIES, law.policy().to_dict())

    # -- when faults stop ---------------------------------------------------------------------

    @rule()
    def everybody_is_served(self) -> None:
        """Nodes get well, people resume, writes are heard: then whoever asks is served in time."""
        self.api.fates.clear()
        self.api.land()
        # What was granted by a clock that went ahead counts as new until that time has come.
        self.clock.set_wall(max(self.furthest - self.clock.now(), 0 * SECOND))
        self.govern(replace(PLAIN, rate=(600, 3)))
        while len(self.pencil.nodes) < MANY:
            self.a_node_comes_back(0)
        for node in list(self.pencil.nodes.values()):
            self.show(replace(node, ready=True, cordoned=False))
        for rounds in range(SETTLED):
            waiting = [a for a in self.pencil.agents if a.alive]
            if not waiting and not self.api.open_permits():
                return
            self.run(self.play.passes(30 * SECOND))
            self.run(self.play.keep())
            due = [a for a in waiting if a.asks_at is not None and self.is_due(a.asks_at)]
            self.hear(due, self.run(self.answers(due, rounds)))
            for agent in [a for a in waiting if a.asks_at is None]:
                if agent.holds:
                    self.give_back(agent, rounds)
                else:
                    agent.asks_at = self.clock.now()
        held = {p.metadata.name: str(p.status.state) for p in self.api.open_permits()}
        raise AssertionError(f"not served: {[a for a in self.pencil.agents if a.alive]}; {held}")

    def is_due(self, at: datetime) -> bool:
        """Nobody is told to wait for an hour: then the clock was set back."""
        return not self.clock.now() < at < self.clock.now() + timedelta(hours=1)

    @invariant()
    def the_record_is_read(self) -> None:
        if hasattr(self, "api"):
            self.pencil.on_record(self.api.permits())


class InMemory(Life):
    def player(self) -> Player:
        return Alone(PLAIN.policy())


class ThreeOnRedis(Life):
    server: ClassVar[RedisServer]

    def player(self) -> Player:
        self.server.do("FLUSHALL")
        return OnRedis(PLAIN.policy(), self.server.url)


SIZES = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_alone_in_memory() -> None:
    run_state_machine_as_test(InMemory, settings=SIZES)


def test_three_on_one_redis(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as ThreeOnRedis.server:
        sizes = settings(SIZES, max_examples=max(1, EXAMPLES // 3))
        run_state_machine_as_test(ThreeOnRedis, settings=sizes)
