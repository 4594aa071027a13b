"""The simulation and the real remedier make the same jobs from the same signals.

The real one is the remedy operator over hand-fed caches (support.remedy_hand): its own controller,
its own wake-ups. Both are told the same, at the same instants.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clock import T0, FakeClock
from support.remedy_hand import Hands
from support.replay_world import a_rule

from kubenode.api.v1alpha1 import NodeRemedier
from simulation.replay.moments import instant
from simulation.replay.timeline import Entry, entry
from simulation.replay.world import World

SECOND = timedelta(seconds=1)
NODES = ("n1", "n2", "n3")
TYPES = ("Sick", "Worse")
VERIFY = {"for": "24h", "timeout": "48h"}
LASTS = [{"name": "tell", "steps": [{"notify": {}}], "verify": VERIFY}]
"""A job that stays open, and that no rule supersedes: how jobs go on is not the remedier's matter.
"""


def rules() -> list[NodeRemedier]:
    sick = {"condition": {"type": "Sick", "status": "True", "for": "30s", "maxAge": "5m"}}
    both = {"all": [{"condition": {"type": "Sick"}}, {"condition": {"type": "Worse"}}]}
    oops = {"event": {"reason": "Oops", "count": 2, "within": "2m"}}
    many = {
        "all": [{"condition": {"type": "Worse"}}, {"fact": {"name": "zone.sameFault", "above": 1}}]
    }
    cordoned = {"fact": {"name": "node.cordonedBy", "equals": "somebody"}}
    wide = {"fact": "zone.bad", "scope": "Zone", "value": True, "for": "1m"}
    return [
        a_rule("sick", when=sick, priority=300, ladder=LASTS, groupWait="10s"),
        a_rule("both", when=both, priority=500, ladder=LASTS, unless=cordoned),
        a_rule(
            "oops", when=oops, priority=100, ladder=LASTS, unless={"fact": {"name": "zone.bad"}}
        ),
        a_rule("many", when=many, priority=900, mode="DryRun", ladder=LASTS),
        a_rule("bad", when={"condition": {"type": "Ready", "status": "Unknown"}}, infer=wide),
    ]


@dataclass(frozen=True)
class Told:
    at: int
    node: str
    what: str
    type: str
    on: bool

    def entry(self) -> Entry:
        signal: dict[str, Any]
        match self.what:
            case "condition":
                signal = {"condition": {"type": self.type, "status": str(self.on)}}
            case "ready":
                status = "True" if self.on else "Unknown"
                signal = {"condition": {"type": "Ready", "status": status, "reason": "Test"}}
            case "event":
                signal = {"event": {"reason": "Oops", "count": 1 + self.on}}
            case _:
                signal = {"cordon": self.on}
        return entry(at=self.at * SECOND, node=self.node, **signal)


signals = st.builds(
    Told,
    st.integers(min_value=1, max_value=400),
    st.sampled_from(NODES),
    st.sampled_from(("condition", "condition", "ready", "event", "cordon")),
    st.sampled_from(TYPES),
    st.booleans(),
)
Made = list[tuple[float, str, str, int]]


@settings(max_examples=40, deadline=None)
@given(st.lists(signals, max_size=14))
def test_both_make_the_same_jobs_at_the_same_instants(told: list[Told]) -> None:
    ordered = sorted(told, key=lambda t: t.at)
    assert simulated(ordered) == asyncio.run(real(ordered))


@pytest.mark.parametrize("gap", [0, 1, 30, 31, 119, 120, 121])
def test_also_at_the_edges_of_windows(gap: int) -> None:
    told = [
        Told(10, "n1", "event", "Sick", False),
        Told(10 + gap, "n1", "event", "Sick", False),
        Told(10, "n2", "condition", "Sick", True),
        Told(10 + gap, "n2", "condition", "Sick", False),
        Told(10, "n3", "condition", "Worse", True),
        Told(10 + gap, "n2", "condition", "Worse", True),
    ]
    ordered = sorted(told, key=lambda t: t.at)
    made = simulated(ordered)
    assert made == asyncio.run(real(ordered))


def simulated(told: Sequence[Told], until: int = 500) -> Made:
    world = World(rules(), start=T0)
    for name in NODES:
        world.add_node(name, conditions=[_well(t) for t in TYPES], labels={ZONE: "z1"})
    world.feed(*(t.entry() for t in told))
    world.run_until(T0 + until * SECOND)
    return sorted(
        ((j.made - T0).total_seconds(), j.node, j.remedier, j.start_rung) for j in world.jobs
    )


ZONE = "topology.kubernetes.io/zone"


def _well(type_: str) -> dict[str, Any]:
    return {"type": type_, "status": "False", "since": T0 - timedelta(days=30)}


async def real(told: Sequence[Told], until: int = 500) -> Made:
    hands = Hands(FakeClock(T0))
    for rule in rules():
        name = rule.metadata.name
        metadata = {"name": name, "uid": f"uid-{name}", "generation": 1}
        hands.remediers.put({"metadata": metadata, "spec": rule.spec.to_dict()})
    await hands.operator.rules.reload()
    fed = Fed(hands)
    for name in NODES:
        fed.nodes[name] = {t: ("False", T0 - timedelta(days=30)) for t in TYPES}
        fed.nodes[name]["Ready"] = ("True", T0 - timedelta(days=30))
        fed.write(name)
    await fed.run(told, T0 + until * SECOND)
    jobs = [
        (
            (made - T0).total_seconds(),
            job.spec.node_name,
            job.spec.remedier.name if job.spec.remedier is not None else "",
            job.spec.start_rung,
        )
        for job in hands.made()
        if (made := job.metadata.creation_timestamp) is not None
    ]
    return sorted(jobs + [result for name in NODES for result in await dry_runs(hands, name)])


async def dry_runs(hands: Hands, node: str) -> Made:
    """Return what rules in DryRun would have begun, as the record of the node has it."""
    return [
        ((result.at - T0).total_seconds(), node, of_rule.remedier, 0)
        for of_rule in (await hands.record(node)).dry_runs
        for result in of_rule.recent
    ]


class Fed:
    """Keeps the caches of the real operator as the signals say, and runs its queue in time."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands
        self.nodes: dict[str, dict[str, tuple[str, datetime]]] = {}
        self.cordoned: set[str] = set()
        self.wakes: dict[str, datetime] = {}
        self.events = 0

    async def run(self, told: Sequence[Told], end: datetime) -> None:
        left = list(told)
        await self.settle()
        while True:
            times = [*self.wakes.values(), *(instant(t.entry().at, T0) for t in left[:1])]
            at = min(times, default=end)
            if at > end:
                return
            self.hands.clock.step(max(at - self.hands.clock.now(), timedelta(0)))
            self.hands.current()
            while left and instant(left[0].entry().at, T0) <= self.hands.clock.now():
                self.hear(left.pop(0))
            for name in [n for n, wake in self.wakes.items() if wake <= self.hands.clock.now()]:
                self.write(name)  # a heartbeat, as its reporters write it
                self.hands.operator.remedier.queue.add(name)
            await self.settle()
            if at >= end and not left and not self.wakes:
                return

    def hear(self, told: Told) -> None:
        now = self.hands.clock.now()
        conditions = self.nodes[told.node]
        match told.what:
            case "condition" | "ready":
                type_ = "Ready" if told.what == "ready" else told.type
                status = str(told.on)
                if told.what == "ready":
                    status = "True" if told.on else "Unknown"
                if conditions[type_][0] != status:
                    conditions[type_] = (status, now)
            case "event":
                self.events += 1
                self.event(told, now)
                return
            case _:
                (self.cordoned.add if told.on else self.cordoned.discard)(told.node)
        self.write(told.node)

    def event(self, told: Told, now: datetime) -> None:
        name = f"e{self.events}"
        self.hands.events.put(
            {
                "metadata": {"name": name, "uid": name},
                "involvedObject": {"kind": "Node", "name": told.node},
                "type": "Warning",
                "reason": "Oops",
                "count": 1 + told.on,
                "firstTimestamp": now.isoformat(),
                "lastTimestamp": now.isoformat(),
            }
        )

    def write(self, name: str) -> None:
        self.hands.node(name, labels={ZONE: "z1"}, **self.nodes[name])
        node = self.hands.nodes.cache[name]
        if node.spec.unschedulable is not (name in self.cordoned):
            data = json.loads(msgspec.json.encode(node))
            data["spec"]["unschedulable"] = name in self.cordoned
            self.hands.nodes.put(data)

    async def settle(self) -> None:
        queue = self.hands.operator.remedier.queue
        for _ in range(50):
            due = list(queue._ready)
            if not due:
                return
            for name in due:
                queue._ready.pop(name, None)
                self.wakes.pop(name, None)
                pause = await self.hands.decide(name)
                if pause is not None:
                    self.wakes[name] = self.hands.clock.now() + pause
        raise AssertionError("no end of looking again")
