"""Questions to hosts: which are asked when, what is made of their answers, what is cleared away."""

from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.clock import T0
from support.remedy_facts import Facts, a_probe
from support.remedy_hand import Hands

from kubenode.runtime.kube.errors import Forbidden
from remedy.hostprobes.answers import facts_of
from remedy.hostprobes.metrics import OUTCOMES, ProbeMetrics
from remedy.hostprobes.schedule import (
    MOST_OF_NODE,
    Wait,
    plan,
    probe_name,
)
from remedy.hostprobes.shares import MOST_IN_ALL
from rules.facts import ProbeFact
from rules.probes import PROBES

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
LONG_AGO = T0 - timedelta(days=2)
SICK: dict[str, Any] = {"condition": {"type": "Sick", "status": "True"}}
FULL: dict[str, Any] = {"all": [SICK, {"probe": {"name": "disk.used_pct", "above": 90}}]}


def answered(kind: str, asked: timedelta = timedelta(0), **answer: Any) -> Any:
    at = T0 + asked
    return a_probe(kind, at, answer=answer, answeredAt=(at + SECOND).isoformat())


# -- which to ask


def test_one_question_for_all_fields_of_a_probe() -> None:
    wanted = ["disk.used_pct", "disk.space_ok", "host.agent"]
    found = plan(wanted, [], 0, T0)
    assert found.ask == ("disk", "host")
    assert found.at == T0 + 30 * SECOND


def test_a_question_that_is_open_is_not_asked_again() -> None:
    found = plan(["disk.used_pct"], [a_probe("disk", T0)], 1, T0 + 10 * SECOND)
    assert (found.ask, found.waits) == ((), (("disk", Wait.OPEN),))
    assert found.at == T0 + 30 * SECOND


def test_it_is_asked_again_in_the_next_minute() -> None:
    asked = [answered("disk", 20 * SECOND)]
    assert plan(["disk.used_pct"], asked, 0, T0 + 59 * SECOND).waits == (("disk", Wait.LATELY),)
    assert plan(["disk.used_pct"], asked, 0, T0 + 59 * SECOND).at == T0 + MINUTE
    assert plan(["disk.used_pct"], asked, 0, T0 + MINUTE).ask == ("disk",)


def test_who_does_not_answer_is_asked_less_and_less_often() -> None:
    asked: list[Any] = []
    times = []
    for second in range(0, 15 * 60, 5):
        now = T0 + second * SECOND
        if plan(["host.agent"], asked, 0, now).ask:
            times.append(second // 60)
            asked = [p for p in asked if now < p.spec.expires_at + 10 * MINUTE]
            asked.append(a_probe("host", now))
    assert times == [0, 1, 3, 7, 11]
    asked.append(answered("host", 11 * MINUTE + 30 * SECOND, agent="alive"))
    assert plan(["host.agent"], asked, 0, T0 + 12 * MINUTE).ask == ("host",)


def test_open_questions_are_bounded_per_node_and_in_all_and_say_so() -> None:
    wanted = ["clock.offset_s", "disk.space_ok", "host.agent", "mount.answers", "write.write_test"]
    found = plan(wanted, [], 0, T0)
    assert len(found.ask) == MOST_OF_NODE
    assert found.waits == (("write", Wait.NODE_LIMIT),)
    full = plan(wanted[:2], [], MOST_IN_ALL - 1, T0)
    assert (full.ask, full.waits) == (("clock",), (("disk", Wait.LIMIT),))


def test_a_name_is_of_node_probe_and_minute_and_fits_an_object() -> None:
    assert probe_name("n00042", "disk", T0) == "n00042-disk-01011200"
    assert probe_name("n", "disk", T0 + 59 * SECOND) == probe_name("n", "disk", T0)
    assert probe_name("n", "disk", T0 + MINUTE) != probe_name("n", "disk", T0)
    long = {probe_name(f"ip-10-0-0-{i}." + "x" * 240, "disk", T0) for i in range(9)}
    assert len(long) == 9 and max(map(len, long)) <= 253


# -- what is made of answers


def test_an_answer_gives_all_its_fields_and_what_it_lacks_is_unknown() -> None:
    found = facts_of([answered("disk", used_pct=95, space_ok=False)], T0 + MINUTE)
    assert found["disk.used_pct"] == ProbeFact(95, T0 + SECOND)
    assert found["disk.space_ok"] == ProbeFact(False, T0 + SECOND)
    assert found["disk.inodes_used_pct"] == ProbeFact(None, T0 + SECOND)
    assert set(found) == {name for name in PROBES if name.startswith("disk.")}


def test_what_is_not_answered_in_30_seconds_is_unknown_and_says_since_when() -> None:
    asked = [a_probe("disk", T0)]
    assert facts_of(asked, T0 + 29 * SECOND) == {}
    later = facts_of(asked, T0 + 30 * SECOND)
    assert later["disk.used_pct"] == ProbeFact(None, T0 + 30 * SECOND)


def test_an_open_question_leaves_the_answer_before_it_and_a_failed_one_does_not() -> None:
    asked = [answered("disk", used_pct=95), a_probe("disk", T0 + MINUTE)]
    now = T0 + MINUTE + 10 * SECOND
    assert facts_of(asked, now)["disk.used_pct"].value == 95
    at = now.isoformat()
    failed = a_probe("disk", T0 + MINUTE, answer={"used_pct": 1}, error="no", answeredAt=at)
    assert facts_of([asked[0], failed], now)["disk.used_pct"] == ProbeFact(None, now)


def test_the_clock_of_a_host_makes_no_answer_younger_than_its_question() -> None:
    late = a_probe("disk", T0, answer={"used_pct": 1}, answeredAt="2026-01-01T23:00:00Z")
    assert facts_of([late], T0 + 9 * MINUTE)["disk.used_pct"].answered_at == T0 + 30 * SECOND


@pytest.mark.parametrize(
    ("field", "value"),
    [("used_pct", "95"), ("used_pct", True), ("space_ok", 1), ("space_ok", "true")],
)
def test_an_answer_of_another_type_is_unknown(field: str, value: Any) -> None:
    found = facts_of([answered("disk", **{field: value})], T0 + MINUTE)
    assert found[f"disk.{field}"].value is None


def test_an_answer_of_the_machine_before_is_not_about_this_one() -> None:
    world = Facts()
    world.node("a", created=T0 + MINUTE)
    world.store.probe_changed(None, answered("disk", used_pct=95))
    world.clock.step(2 * MINUTE)
    assert world.facts().probes == {}


def test_only_an_answer_makes_a_node_look_again() -> None:
    store = Facts().store
    asked, told = a_probe("disk", T0), answered("disk", used_pct=95)
    assert store.probe_changed(None, asked) is None
    assert store.probe_changed(asked, told) == "a"
    assert store.probe_changed(told, told) is None
    assert store.probe_changed(told, None) is None


# -- asking in the operator


async def a_cluster(**rule: Any) -> Hands:
    hands = Hands()
    await hands.rule(**{"when": FULL, **rule})
    hands.node(Ready=("True", LONG_AGO), Sick=("True", LONG_AGO))
    return hands


async def test_a_host_is_asked_when_all_else_holds_and_its_answer_makes_the_job() -> None:
    hands = await a_cluster()
    assert await hands.decide() == 30 * SECOND
    (probe,) = hands.probes.cache.values()
    assert (probe.spec.agent, probe.spec.node_name, probe.spec.name) == ("n1", "n1", "disk")
    assert probe.spec.expires_at == T0 + 30 * SECOND
    assert hands.made() == []
    hands.clock.step(SECOND)
    hands.answers("disk", used_pct=95)
    await hands.settle()
    assert len(hands.made()) == 1


async def test_a_host_is_not_asked_while_something_else_is_missing() -> None:
    hands = await a_cluster()
    hands.node(Ready=("True", LONG_AGO), Sick=("False", LONG_AGO))
    await hands.decide()
    hands.node(Ready=("True", LONG_AGO), Sick=("Unknown", LONG_AGO))
    await hands.decide()
    assert dict(hands.probes.cache) == {}


async def test_another_answer_makes_no_job_and_neither_does_silence() -> None:
    hands = await a_cluster()
    await hands.decide()
    hands.answers("disk", used_pct=50)
    await hands.settle()
    assert hands.made() == []
    hands.clock.step(2 * MINUTE)
    hands.node(Ready=("True", LONG_AGO), Sick=("True", LONG_AGO))
    await hands.later(0 * SECOND)
    assert len(hands.probes.cache) == 2, "the answer is too old to be believed: asked anew"
    await hands.later(31 * SECOND)
    assert hands.made() == []


async def test_questions_are_removed_after_ten_minutes_and_counted() -> None:
    hands = await a_cluster()
    await hands.decide()
    (name,) = hands.probes.cache
    asker = hands.operator.asker
    assert (await asker.reconcile(name)).requeue_after == 30 * SECOND
    hands.clock.step(30 * SECOND)
    assert (await asker.reconcile(name)).requeue_after == 570 * SECOND
    hands.clock.step(570 * SECOND)
    await asker.reconcile(name)
    assert dict(hands.probes.cache) == {}
    counted = asker.metrics.probes
    assert [counted.labels(o)._value.get() for o in OUTCOMES] == [1, 0, 0, 0, 1]


async def test_the_same_question_of_another_run_of_us_is_ours_too() -> None:
    hands = await a_cluster()
    hands.api.elsewhere.add(probe_name("n1", "disk", T0))
    assert await hands.decide() == 30 * SECOND
    assert dict(hands.probes.cache) == {}
    assert hands.operator.asker.metrics.probes.labels("existed")._value.get() == 1


async def test_rules_without_questions_work_on_when_nobody_may_ask() -> None:
    hands = await a_cluster()
    await hands.rule("plain", when=SICK)
    hands.api.forbidden = True
    with pytest.RaisesGroup(Forbidden):
        await hands.decide()
    (job,) = hands.made()
    assert job.spec.remedier is not None and job.spec.remedier.name == "plain"


def test_all_outcomes_and_reasons_are_there_from_the_start() -> None:
    registry = CollectorRegistry()
    ProbeMetrics(registry)
    for outcome in OUTCOMES:
        assert registry.get_sample_value("kubenode_remedy_probes_total", {"outcome": outcome}) == 0
    for why in Wait:
        assert registry.get_sample_value("kubenode_remedy_probe_waits_total", {"why": why}) == 0
