"""One object that cannot be read makes one node unknown, and everything else goes on."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.clock import FakeClock
from support.remedy_facts import Facts, Nodes
from support.running import running

from kubenode.api.v1alpha1 import HostEvent
from kubenode.runtime.kube.objects import Event, Node, structs
from remedy.remedier.evaluator import Evaluator
from remedy.remedier.facts import FactStore
from remedy.remedier.metrics import FactCollector, RemedierMetrics
from remedy.remedier.past import Past
from remedy.remedier.unreadable import UnreadableNodes, UnreadableReporter
from rules.diagnose import Diagnosis
from rules.facts import FactSet
from rules.truth import Truth

DEADLOCK = {"when": {"condition": {"type": "KernelDeadlock", "status": "True"}}}


class Poisoned:
    """An engine that fails for the fresh facts of one node."""

    def __init__(self, poison: str) -> None:
        self.poison = poison

    async def diagnose(self, factsets: list[FactSet]) -> list[Diagnosis]:
        if any(facts.node == self.poison and facts.fresh for facts in factsets):
            raise OverflowError("date value out of range")
        return [Diagnosis(facts.node) for facts in factsets]


def an_evaluator(engine: Any, facts: Any, unreadable: UnreadableNodes) -> Evaluator:
    return Evaluator(engine, facts, FakeClock(), RemedierMetrics(CollectorRegistry()), unreadable)


async def test_an_evaluation_that_fails_for_one_node_leaves_the_others_of_its_batch_answered() -> (
    None
):
    unreadable = UnreadableNodes()
    evaluator = an_evaluator(Poisoned("n1"), FactSet, unreadable)
    async with running(evaluator.run()):
        answers = await asyncio.gather(*(evaluator.diagnose(f"n{i}") for i in range(3)))
    assert [facts.fresh for facts, _ in filter(None, answers)] == [True, False, True]
    assert list(unreadable.all()) == ["n1"]
    assert "date value out of range" in unreadable.why("n1")


async def test_facts_that_cannot_be_made_of_one_node_end_neither_the_part_nor_the_batch() -> None:
    def facts(node: str) -> FactSet:
        if node == "n1":
            raise OverflowError("date value out of range")
        return FactSet(node)

    evaluator = an_evaluator(Poisoned(""), facts, UnreadableNodes())
    async with running(evaluator.run()):
        answers = await asyncio.gather(
            *(evaluator.diagnose(f"n{i}") for i in range(3)), return_exceptions=True
        )
        assert await evaluator.diagnose("n2") is not None, "it goes on"
    assert [type(answer) for answer in answers] == [tuple, OverflowError, tuple]


async def test_a_node_that_can_be_judged_again_is_readable_again() -> None:
    engine, unreadable = Poisoned("n1"), UnreadableNodes()
    evaluator = an_evaluator(engine, FactSet, unreadable)
    async with running(evaluator.run()):
        await evaluator.diagnose("n1")
        assert len(unreadable) == 1
        engine.poison = ""
        answer = await evaluator.diagnose("n1")
    assert answer is not None and answer[0].fresh
    assert len(unreadable) == 0


def test_facts_of_one_node_that_fail_are_unknown_and_the_others_are_known() -> None:
    broken = {"a"}

    def past(node: str) -> tuple[Past, ...]:
        if node in broken:
            raise KeyError("a bug")
        return ()

    world = Facts()
    world.store = FactStore(world.nodes, past, world.clock, accept_single_engine=True)
    world.load(deadlock=DEADLOCK)
    for name in ("a", "b"):
        world.node(name, KernelDeadlock="True")
    assert world.evidence("a", "deadlock") is Truth.UNKNOWN
    assert world.evidence("b", "deadlock") is Truth.TRUE
    assert samples(world)["kubenode_remedy_unreadable_nodes"] == 1.0
    broken.clear()
    assert world.evidence("a", "deadlock") is Truth.TRUE
    assert samples(world)["kubenode_remedy_unreadable_nodes"] == 0.0
    assert samples(world)["kubenode_remedy_unreadable_total"] == 1.0


def samples(world: Facts) -> dict[str, float]:
    found = FactCollector(world.store).collect()
    return {sample.name: sample.value for metric in found for sample in metric.samples}


def test_a_node_whose_change_cannot_be_taken_in_is_unknown_until_the_next_one() -> None:
    world = Facts()
    world.load(deadlock=DEADLOCK)
    good = world.node("a", KernelDeadlock="True")
    odd = world.node("a", KernelDeadlock="True")
    odd.status.conditions[0].message = 7  # type: ignore[assignment]
    assert world.store.node_changed("a", good, odd)
    assert not world.facts("a").fresh
    world.store.node_changed("a", odd, good)
    assert world.facts("a").fresh


@pytest.mark.parametrize("year", ["0000", "0001", "9999"])
def test_a_host_event_of_an_odd_year_hides_nothing_of_its_node(year: str) -> None:
    world = Facts()
    world.load(deadlock=DEADLOCK)
    world.node("a", KernelDeadlock="True")
    at = f"{year}-01-01T00:00:00Z"
    body = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "HostEvent",
        "metadata": {"name": "x", "uid": "u"},
        "spec": {
            **{"source": "Webhook", "externalID": "e", "class": "Maintenance"},
            **{"node": {"name": "a"}, "notBefore": at, "notAfter": at},
        },
        "status": {"phase": "Scheduled", "firstSeen": at, "lastSeen": at},
    }
    event = HostEvent.from_server(json.dumps(body).encode())
    world.store.host_event_changed(None, event)
    assert world.evidence("a", "deadlock") is Truth.TRUE
    assert world.store.changes_at("a") is None or year == "9999"


@pytest.mark.parametrize("year", ["0001", "9999"])
def test_events_and_conditions_of_an_odd_year_hide_nothing_of_their_node(year: str) -> None:
    at = f"{year}-01-01T00:00:00+14:00"
    condition = {"type": "Ready", "status": "False", "reason": "x"}
    condition |= {"lastHeartbeatTime": at, "lastTransitionTime": at}
    node = {"metadata": {"name": "a", "uid": "u"}, "status": {"conditions": [condition]}}
    event = {
        **{"metadata": {"name": "e", "uid": "e"}, "reason": "x", "count": 3, "eventTime": at},
        **{"involvedObject": {"kind": "Node", "name": "a"}, "firstTimestamp": at},
        **{"lastTimestamp": at, "series": {"count": 2, "lastObservedTime": at}},
    }
    world = Facts()
    world.load(often={"when": {"event": {"reason": "x", "within": "24h"}}})
    world.nodes.cache["a"] = structs(Node)(json.dumps(node).encode())
    world.store.node_changed("a", None, world.nodes.cache["a"])
    world.store.event_changed(None, structs(Event)(json.dumps(event).encode()))
    facts = world.facts("a")
    assert facts.fresh, world.store.unreadable.all()
    assert world.evidence("a", "often") is not Truth.UNKNOWN


class Recorder:
    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []

    async def emit(self, regarding: Any, type: str, reason: str, message: str) -> None:
        self.said.append((f"{regarding['kind']} {regarding['name']}", reason, message))


class Cache(Nodes):
    def __init__(self, broken: dict[str, str]) -> None:
        super().__init__()
        self.broken = broken  # type: ignore[assignment]


async def test_what_cannot_be_read_is_told_once_in_an_event_on_it() -> None:
    unreadable, recorder = UnreadableNodes(), Recorder()
    cache: Any = Cache({"rule-1": "not a number"})
    reporter = UnreadableReporter(
        unreadable,
        [("NodeRemedier", "kubenode.io/v1alpha1", cache)],
        lambda name: "",
        recorder,  # type: ignore[arg-type]
        FakeClock(),
    )
    unreadable.failed("n1", "facts", OverflowError("date value out of range"))
    await reporter.report()
    await reporter.report()
    assert [(about, reason) for about, reason, _ in recorder.said] == [
        ("Node n1", "NodeUnreadable"),
        ("NodeRemedier rule-1", "ObjectUnreadable"),
    ]
    assert "date value out of range" in recorder.said[0][2]


def test_a_time_out_of_bounds_is_read_as_the_nearest_one() -> None:
    raw = (
        b'{"metadata": {"name": "a"}, "spec": {"taints": [{"timeAdded": "0001-02-01T00:00:00Z"}]}}'
    )
    node = structs(Node)(raw)
    assert node.spec.taints[0].time_added == datetime(1970, 1, 1, tzinfo=UTC)
