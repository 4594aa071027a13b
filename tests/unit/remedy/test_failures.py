"""Failure modes that the remedier decides; docs/explanation/failure-modes.md lists them all.

Jobs have F16 to F22 and F46: test_step.py, test_drain.py, tests/integration/remedy.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import a_job
from support.remedy_facts import a_rule
from support.remedy_hand import Hands
from support.running import running

from kubenode.runtime.kube.objects import Taint
from remedy.job.model import FaultAssessment, Job
from remedy.remedier.judge import Judge
from rules.truth import Truth

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
LONG_AGO = T0 - timedelta(days=2)
SICK: dict[str, Any] = {"condition": {"type": "Sick", "status": "True", "for": "5m"}}
WELL = ("True", LONG_AGO)


async def a_cluster(**rules: dict[str, Any]) -> Hands:
    hands = Hands()
    for name, spec in rules.items():
        await hands.rule(name.replace("_", "-"), **spec)
    return hands


async def fault(hands: Hands, name: str, rule: str = "sick") -> FaultAssessment:
    """What an open job of this rule would be told."""
    spec = hands.remediers.cache[rule].spec
    job: Job = a_job(
        remedier={"name": rule, "uid": f"uid-{rule}", "generation": 1},
        nodeName=name,
        nodeUID=f"uid-{name}",
        when=spec.when.to_dict(),
        unless=spec.unless.to_dict() if spec.unless is not None else None,
    )
    operator = hands.operator
    judge = Judge(operator.evaluator, operator.rules, operator.facts, hands.clock)
    async with running(operator.evaluator.run()):
        return await judge.fault(job)


# -- F03 self-masking detector ---------------------------------------------------------------------


async def test_f03_a_condition_whose_detector_died_with_its_host_starts_nothing() -> None:
    hands = await a_cluster(sick={"when": SICK})
    hands.node(Ready=WELL, Sick=("True", T0))
    await hands.later(20 * MINUTE)
    assert hands.made() == []


async def test_f03_a_healthy_word_of_a_dead_detector_heals_nothing() -> None:
    hands = await a_cluster(sick={"when": SICK})
    hands.node(Ready=WELL, Sick=("True", T0 - HOUR))
    await hands.decide()
    assert len(hands.made()) == 1
    hands.node(Ready=WELL, Sick=("False", T0))
    hands.clock.step(16 * MINUTE)
    hands.current()
    told = await fault(hands, "n1")
    assert told.evidence is Truth.UNKNOWN and told.gone is not Truth.TRUE
    assert "not heard from" in told.why


async def test_f03_an_open_job_waits_while_nobody_hears_the_detector() -> None:
    hands = await a_cluster(sick={"when": SICK})
    hands.node(Ready=WELL, Sick=("True", T0 - HOUR))
    assert (await fault(hands, "n1")).evidence is Truth.TRUE
    hands.clock.step(16 * MINUTE)
    hands.current()
    assert (await fault(hands, "n1")).evidence is Truth.UNKNOWN


async def test_f03_a_silent_source_of_alerts_proves_no_alert_absent() -> None:
    gone = {"absent": {"alert": {"name": "NodeDown"}}}
    hands = await a_cluster(sick={"when": {"all": [SICK, gone]}})
    hands.alert("Watchdog", node="")
    hands.node(Ready=WELL, Sick=("True", T0 - HOUR))
    hands.clock.step(11 * MINUTE)
    hands.node(Ready=WELL, Sick=("True", T0 - HOUR))
    await hands.later(timedelta(0))
    assert hands.made() == []
    hands.alert("Watchdog", node="")
    await hands.settle()
    assert len(hands.made()) == 1


# -- F07 action causes its own trigger -------------------------------------------------------------


async def repaired(hands: Hands, times: int, name: str = "n1") -> None:
    """Each repair ends proven, and minutes later the fault is there again."""
    step = {"rung": 0, "index": 0, "name": "agent", "by": "Agent", "state": "Done"}
    for _ in range(times):
        hands.node(name, Ready=WELL, Sick=("True", hands.clock.now() - 5 * MINUTE))
        await hands.later(5 * MINUTE, name)
        for job in [j for j in hands.made() if not j.status.phase.closed]:
            at = hands.clock.now().isoformat()
            proven = {"type": "Closing", "status": "True", "reason": "Proven"}
            hands.closes(
                job.metadata.name,
                "Succeeded",
                rung=len(job.spec.ladder) - 1,
                steps=[{**step, "startedAt": at, "finishedAt": at}],
                conditions=[{**proven, "lastTransitionTime": at}],
            )
        hands.node(name, Ready=WELL, Sick=("False", hands.clock.now()))
        await hands.later(SECOND, name)


async def test_f07_a_repair_that_raises_its_own_fault_ends_with_a_person() -> None:
    limits = {"cooldown": "0s", "attempts": {"max": 3, "within": "24h"}}
    hands = await a_cluster(sick={"when": SICK, **limits})
    await repaired(hands, 8)
    assert len(hands.made()) == 3
    assert "RepairAttemptsSpent" in hands.events_told()


async def test_f07_the_attempts_are_counted_over_our_restarts() -> None:
    limits = {"cooldown": "0s", "attempts": {"max": 3, "within": "24h"}}
    hands = await a_cluster(sick={"when": SICK, **limits})
    for _ in range(6):
        await repaired(hands, 1)
        hands = Hands(hands.clock, hands)
        await hands.operator.rules.reload()
    assert len(hands.made()) == 3


async def test_f07_a_fault_that_comes_back_starts_higher_on_the_ladder() -> None:
    steps = [{"agent": {"action": "RestartUnit", "unit": "a.service"}}]
    ladder = [{"name": "mild", "steps": steps}, {"name": "strong", "steps": steps}]
    hands = await a_cluster(sick={"when": SICK, "cooldown": "0s", "ladder": ladder})
    await repaired(hands, 2)
    first, second = hands.made()
    assert (first.spec.start_rung, second.spec.start_rung) == (0, 1)
    assert second.spec.previous == first.metadata.name


async def test_f07_another_machine_under_the_same_name_begins_anew() -> None:
    hands = await a_cluster(sick={"when": SICK, "cooldown": "0s", "attempts": {"max": 1}})
    await repaired(hands, 1)
    hands.nodes.remove("n1")
    await hands.decide()
    hands.node(Ready=WELL, Sick=("True", hands.clock.now() - HOUR))
    node = hands.nodes.cache["n1"]
    hands.nodes.remove("n1")
    node.metadata.uid = "uid-of-another"
    hands.nodes._store.put("n1", node)
    await hands.decide()
    _, second = hands.made()
    assert (second.spec.node_uid, second.spec.start_rung) == ("uid-of-another", 0)
    assert second.spec.previous == ""


# -- F08 two controllers, one node -----------------------------------------------------------------


async def test_f08_of_two_rules_one_acts_and_the_other_is_named() -> None:
    dead = {"when": {"condition": {"type": "Dead", "status": "True"}}, "priority": 900}
    hands = await a_cluster(sick={"when": SICK}, dead=dead)
    hands.node(Ready=WELL, Sick=("True", T0 - HOUR), Dead=("True", T0 - HOUR))
    for _ in range(3):
        await hands.decide()
    (job,) = hands.made()
    assert job.spec.remedier is not None and job.spec.remedier.name == "dead"
    said = job.metadata.annotations["kubenode.io/also-matched"]
    assert said == "sick: a stronger rule matched"


async def test_f08_who_matches_later_waits_for_the_open_job_and_says_so() -> None:
    dead = {"when": {"condition": {"type": "Dead", "status": "True"}}, "priority": 900}
    hands = await a_cluster(sick={"when": SICK}, dead=dead)
    hands.node(Ready=WELL, Sick=("True", T0 - HOUR))
    await hands.decide()
    hands.node(Ready=WELL, Sick=("True", T0 - HOUR), Dead=("True", T0 - HOUR))
    await hands.decide()
    (job,) = hands.made()
    assert job.spec.remedier is not None and job.spec.remedier.name == "sick"
    assert hands.operator.decider.metrics.waits.labels("OpenJob")._value.get() >= 1


@pytest.mark.parametrize(
    "mark",
    [
        lambda node: node.spec.taints.append(Taint("ToBeDeletedByClusterAutoscaler")),
        lambda node: node.spec.taints.append(Taint("medik8s.io/remediation")),
        lambda node: node.metadata.annotations.update({"weave.works/kured-reboot-in-progress": ""}),
    ],
)
async def test_f08_while_another_tool_is_at_work_we_wait(mark: Callable[[Any], None]) -> None:
    guard = {"fact": {"name": "node.foreignOwner"}}
    hands = await a_cluster(sick={"when": SICK, "unless": guard})
    hands.node(Ready=WELL, Sick=("True", T0 - HOUR))
    node = hands.nodes.cache["n1"]
    node.spec.taints, node.metadata.annotations = [], {}
    mark(node)
    assert await hands.decide() is not None
    assert hands.made() == []
    told = await fault(hands, "n1")
    assert told.guards is Truth.TRUE and "node.foreignOwner" in told.why
    hands.node(Ready=WELL, Sick=("True", T0 - HOUR))
    await hands.settle()
    assert len(hands.made()) == 1


# -- F09 advisory event ----------------------------------------------------------------------------


HINT: dict[str, Any] = {"hostEvent": {"class": "Rebalance"}}


async def test_f09_a_hint_after_which_nothing_happens_lets_the_job_go() -> None:
    hands = await a_cluster(hint={"when": HINT})
    hands.node(Ready=WELL)
    hands.host_event("e1", "Rebalance")
    assert await hands.decide() == HOUR, "it expires by itself, and somebody looks then"
    assert len(hands.made()) == 1
    assert (await fault(hands, "n1", "hint")).evidence is Truth.TRUE
    hands.clock.step(HOUR)
    hands.current()
    assert (await fault(hands, "n1", "hint")).evidence is Truth.FALSE, "so the job takes its leave"


async def test_f09_a_kind_that_is_switched_off_does_nothing_at_all() -> None:
    hands = await a_cluster(hint={"when": HINT, "mode": "Off"})
    hands.node(Ready=WELL)
    hands.host_event("e1", "Rebalance")
    assert await hands.decide() is None or hands.made() == []
    assert hands.made() == [] and hands.events_told() == []


# -- detectors, clocks, and our own restarts -------------------------------------------------------


async def test_a_detector_that_restarts_makes_no_fault_new_and_heals_none() -> None:
    hands = await a_cluster(sick={"when": SICK})
    hands.node(Ready=WELL, Sick=("True", T0), Other=("False", LONG_AGO))
    hands.clock.step(4 * MINUTE)
    now = hands.clock.now()
    hands.node(Ready=WELL, Sick=("False", now), Other=("False", now))
    assert (await fault(hands, "n1")).evidence is not Truth.TRUE
    hands.clock.step(20 * SECOND)
    hands.node(Ready=WELL, Sick=("True", hands.clock.now()), Other=("False", now))
    await hands.later(40 * SECOND)
    assert len(hands.made()) == 1, "five minutes since it began, not since the restart"


@pytest.mark.parametrize("jump", [HOUR, -HOUR, timedelta(days=400)])
async def test_a_clock_that_is_set_makes_no_fault_older(jump: timedelta) -> None:
    hands = await a_cluster(sick={"when": SICK})
    hands.node(Ready=WELL, Sick=("True", T0))
    await hands.decide()
    hands.clock.step(MINUTE)
    hands.clock.set_wall(jump)
    hands.node(Ready=WELL, Sick=("True", T0))
    await hands.decide()
    assert hands.made() == []
    hands.clock.step(4 * MINUTE)
    hands.node(Ready=WELL, Sick=("True", T0))
    await hands.later(timedelta(0))
    assert len(hands.made()) == 1


async def test_a_clock_that_is_set_keeps_what_was_inferred_for_as_long() -> None:
    dark = {"condition": {"type": "Dark", "status": "True"}}
    infer = {"fact": "rack.suspectPowerLoss", "scope": "Rack", "for": "10m"}
    hands = Hands()
    hands.remediers.put(a_rule("power", when=dark, infer=infer).to_dict())
    await hands.operator.rules.reload()
    rack = {"kubenode.io/rack": "r1"}
    hands.node(labels=rack, Ready=WELL, Dark=("True", T0 - HOUR))
    await hands.decide()
    hands.node(labels=rack, Ready=WELL, Dark=("False", T0))
    await hands.decide()
    hands.clock.set_wall(HOUR)
    assert inferred(hands) == {"rack.suspectPowerLoss": True}
    hands.clock.step(10 * MINUTE)
    assert inferred(hands) == {"rack.suspectPowerLoss": False}


def inferred(hands: Hands) -> Mapping[str, object]:
    facts = hands.operator.facts.facts("n1")
    assert facts is not None
    return facts.inferred


Story = list[tuple[str, str, datetime]]


async def a_life(restarts: frozenset[int] = frozenset()) -> Story:
    """The jobs of some eventful minutes, with restarts of ours before some of them."""
    many = {"fact": {"name": "zone.sameFault", "above": 2}}
    dark: dict[str, Any] = {"condition": {"type": "Dark", "status": "True"}}
    infer = {"fact": "zone.suspectStorm", "scope": "Zone", "for": "4m"}
    calm = {"fact": {"name": "zone.suspectStorm"}}
    alert = {"alert": {"name": "DiskFull", "for": "2m"}}
    hands = Hands()
    hands.remediers.put(a_rule("storm", when={"all": [dark, many]}, infer=infer).to_dict())
    await hands.rule("dark", when=dark, unless=calm, cooldown="0s", groupWait="10s")
    await hands.rule("disk", when=alert, priority=900)
    await hands.rule("reboot", when={"hostEvent": {"class": "Reboot"}}, priority=800)
    script: dict[int, Callable[[Hands], None]] = {
        1: lambda h: h.alert("DiskFull", "n4"),
        3: lambda h: dark_nodes(h, "n0", "n1", "n2"),
        6: lambda h: h.node("n2", Ready=WELL, Dark=("False", h.clock.now())),
        9: lambda h: h.host_event("e1", "Reboot", "n5"),
        11: lambda h: h.host_event("e1", "Reboot", "n5", phase="Completed"),
    }
    for i in range(6):
        hands.node(f"n{i}", Ready=WELL, Dark=("False", LONG_AGO))
    for minute in range(16):
        hands.clock.step(MINUTE)
        hands.current()
        hands.alert("Watchdog", node="")
        if minute in restarts:
            hands = Hands(hands.clock, hands)
            await hands.operator.rules.reload()
        if minute in script:
            script[minute](hands)
        heartbeats(hands)
        for _ in range(2):
            for name in hands.nodes.cache:
                hands.operator.remedier.queue.add(name)
            await hands.settle(60)
            hands.clock.step(15 * SECOND)
            await keep(hands)
    jobs = [job.spec for job in hands.made()]
    return sorted((j.node_name, j.remedier.name, j.trigger.first_true) for j in jobs if j.remedier)


def dark_nodes(hands: Hands, *names: str) -> None:
    for name in names:
        hands.node(name, Ready=WELL, Dark=("True", hands.clock.now()))


def heartbeats(hands: Hands) -> None:
    for name, node in list(hands.nodes.cache.items()):
        said: dict[str, Any] = {
            c.type: (c.status, c.last_transition_time) for c in node.status.conditions
        }
        hands.node(name, **said)


async def keep(hands: Hands) -> None:
    """As the controller that writes what was inferred."""
    await hands.operator.keeper._reconcile("storm")


@pytest.mark.exhaustive
async def test_a_restart_of_ours_at_any_moment_changes_no_decision() -> None:
    """It may delay one, by a groupWait."""
    undisturbed = await a_life()
    assert {(node, rule) for node, rule, _ in undisturbed} == {
        ("n4", "disk"), ("n5", "reboot"), ("n0", "dark"), ("n1", "dark"),
    }  # fmt: skip
    for at in (4, 9):
        assert await a_life(frozenset({at})) == undisturbed, at
    assert await a_life(frozenset(range(16))) == undisturbed, "all the time"
