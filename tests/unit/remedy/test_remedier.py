"""The remedier over hand-fed caches: time, silence, restarts, memory."""

from datetime import timedelta
from typing import Any

from support.clock import T0
from support.remedy_hand import Hands

from kubenode.api.v1alpha1 import JobPhase

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
LONG_AGO = T0 - timedelta(days=2)


async def a_cluster(**rule: Any) -> Hands:
    """No node yet: at first sight a condition is as old as its reporter says."""
    hands = Hands()
    await hands.rule(**rule)
    return hands


async def test_a_condition_must_hold_for_its_time() -> None:
    hands = await a_cluster()
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0))
    assert await hands.decide() == 30 * SECOND
    await hands.later(29 * SECOND)
    assert hands.made() == []
    await hands.later(1 * SECOND)
    (job,) = hands.made()
    assert job.spec.node_name == "n1"
    assert job.spec.trigger.first_true == T0
    assert job.spec.remedier is not None
    assert (job.spec.remedier.name, job.spec.remedier.generation) == ("runtime", 1)
    assert job.spec.when is not None and job.spec.ladder[0].name == "restart"
    assert job.spec.trigger.facts[0].value is True


async def test_one_job_per_incident_however_often_we_start_anew() -> None:
    hands = await a_cluster()
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0 - MINUTE))
    for _ in range(3):
        await hands.decide()
        hands = Hands(hands.clock, hands)
        await hands.operator.rules.reload()
        await hands.decide()
    assert len(hands.made()) == 1


async def test_a_restart_with_an_empty_cache_of_jobs_meets_its_own_name() -> None:
    hands = await a_cluster()
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0 - MINUTE))
    await hands.decide()
    taken = set(hands.jobs.cache)
    hands.jobs.cache.clear()
    anew = Hands(hands.clock, hands)
    anew.api.elsewhere = taken
    await anew.operator.rules.reload()
    await anew.decide()
    assert (anew.api.creates, anew.made()) == (1, []), "the name was taken"


async def test_a_held_condition_keeps_its_age_over_a_restart() -> None:
    hands = await a_cluster()
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0 - 29 * SECOND))
    anew = Hands(hands.clock, hands)
    await anew.operator.rules.reload()
    assert await anew.decide() == 1 * SECOND


async def test_group_wait_lets_a_stronger_rule_match_too() -> None:
    hands = await a_cluster(groupWait="10s", priority=100)
    strong = {"condition": {"type": "Dead", "status": "True"}}
    await hands.rule("strong", when=strong, priority=900)
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0 - MINUTE))
    await hands.decide()
    (weak,) = hands.made()
    assert weak.spec.initial_wait is not None
    assert weak.spec.initial_wait.not_before == T0 + 10 * SECOND
    hands.clock.step(5 * SECOND)
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0 - MINUTE), Dead=("True", T0 + 5 * SECOND))
    await hands.decide()
    assert hands.operator.decider.stronger.find_rule(weak.metadata.name) == "strong"


async def test_a_host_that_may_have_booted_lately_gets_its_grace() -> None:
    """Ready since a minute when we first see it: it may have booted then, nobody knows."""
    hands = await a_cluster(startupGrace="5m")
    hands.node(Ready=("True", T0 - MINUTE), Sick=("True", T0 - MINUTE))
    await hands.decide()
    (job,) = hands.made()
    assert job.spec.initial_wait is not None
    assert job.spec.initial_wait.not_before == T0 + 4 * MINUTE


async def test_f03_a_silent_detector_makes_no_job() -> None:
    hands = await a_cluster(
        when={"condition": {"type": "Sick", "status": "True", "for": "30s", "maxAge": "1m"}}
    )
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0))
    await hands.later(2 * MINUTE)
    assert hands.made() == []


async def test_f03_a_stale_cache_makes_no_job() -> None:
    hands = await a_cluster()
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0 - MINUTE))
    hands.current(False)
    wake = await hands.decide()
    assert hands.made() == [] and wake is not None


async def test_f07_a_fault_that_keeps_coming_back_ends_with_a_person() -> None:
    hands = await a_cluster(cooldown="0s", attempts={"max": 2, "within": "24h"})
    step = {"rung": 0, "index": 0, "name": "agent", "by": "Agent", "state": "Done"}
    proven = {"type": "Closing", "status": "True", "reason": "Proven"}
    for _ in range(4):
        at = hands.clock.now()
        hands.node(Ready=("True", LONG_AGO), Sick=("True", at))
        await hands.later(MINUTE)
        for job in hands.made():
            if not job.status.phase.closed:
                at_ = hands.clock.now().isoformat()
                hands.closes(
                    job.metadata.name,
                    "Succeeded",
                    steps=[{**step, "startedAt": at_, "finishedAt": at_}],
                    conditions=[{**proven, "lastTransitionTime": at_}],
                )
        hands.node(Ready=("True", LONG_AGO), Sick=("False", hands.clock.now()))
        await hands.later(MINUTE)
    assert len(hands.made()) == 2
    assert "RepairAttemptsSpent" in hands.events_told()
    assert hands.made()[1].spec.previous == hands.made()[0].metadata.name


async def test_f08_a_guard_holds_back_while_another_owner_is_at_work() -> None:
    hands = await a_cluster(unless={"fact": {"name": "node.foreignOwner"}})
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0 - MINUTE))
    node = hands.nodes.cache["n1"]
    node.metadata.annotations["machineconfiguration.openshift.io/state"] = "Working"
    await hands.decide()
    assert hands.made() == []
    node.metadata.annotations["machineconfiguration.openshift.io/state"] = "Done"
    await hands.decide()
    assert len(hands.made()) == 1


async def test_a_guard_over_the_zone_counts_the_nodes_that_are_not_ready() -> None:
    hands = await a_cluster(unless={"fact": {"name": "zone.unhealthyRatio", "above": 0.4}})
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0 - MINUTE))
    hands.node("n2", Ready=("Unknown", T0))
    await hands.decide()
    assert hands.made() == []
    hands.node("n2", Ready=("True", T0))
    await hands.decide()
    assert len(hands.made()) == 1


async def test_heartbeats_wake_nobody_and_changes_do() -> None:
    hands = await a_cluster()
    hands.node(Ready=("True", LONG_AGO), Sick=("False", LONG_AGO))
    decider = hands.operator.decider
    before = hands.nodes.cache["n1"]
    hands.clock.step(MINUTE)
    hands.node(Ready=("True", LONG_AGO), Sick=("False", LONG_AGO))
    assert decider.noticed("n1", before, hands.nodes.cache["n1"]) == ()
    hands.node(Ready=("True", LONG_AGO), Sick=("True", hands.clock.now()))
    assert decider.noticed("n1", before, hands.nodes.cache["n1"]) == ("n1",)
    now = hands.nodes.cache["n1"]
    assert decider.noticed("n1", now, now) == ("n1",), "a resync looks at everything"


async def test_a_heartbeat_after_a_silence_that_matters_is_looked_at() -> None:
    hands = await a_cluster()
    hands.node(Ready=("True", LONG_AGO), Sick=("False", LONG_AGO))
    before = hands.nodes.cache["n1"]
    hands.clock.step(20 * MINUTE)
    hands.node(Ready=("True", LONG_AGO), Sick=("False", LONG_AGO))
    assert hands.operator.decider.noticed("n1", before, hands.nodes.cache["n1"]) == ("n1",)


async def test_a_cancelled_incident_stays_cancelled_and_a_new_one_begins_anew() -> None:
    hands = await a_cluster()
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0 - MINUTE))
    await hands.decide()
    (job,) = hands.made()
    word = {"type": "Closing", "status": "True", "reason": "PersonCancelled"}
    at = hands.clock.now().isoformat()
    hands.closes(job.metadata.name, "Cancelled", conditions=[{**word, "lastTransitionTime": at}])
    await hands.later(MINUTE)
    assert len(hands.made()) == 1
    since = hands.clock.now()
    hands.node(Ready=("True", LONG_AGO), Sick=("False", since))
    await hands.decide()
    hands.clock.step(11 * MINUTE)
    hands.node(Ready=("True", LONG_AGO), Sick=("True", hands.clock.now()))
    await hands.later(MINUTE)
    assert len(hands.made()) == 2


async def test_status_counts_matching_nodes_and_jobs_and_holds_no_ticking_value() -> None:
    hands = await a_cluster()
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0 - MINUTE))
    await hands.operator.rules.reload()
    await hands.decide()
    await hands.operator.reports.reconcile("runtime")
    rule = hands.remediers.cache["runtime"]
    assert rule.status.phase == "Active"
    assert rule.status.matching == 1
    assert rule.status.jobs is not None and rule.status.jobs.running == 1
    assert {c.type: str(c.status) for c in rule.status.conditions} == {
        "Compiled": "True",
        "EnginesAgree": "True",
        "Ready": "True",
        "SafeSize": "True",
    }
    assert (rule.status.compiled_hash or "").startswith("sha256:")
    await hands.later(MINUTE)
    await hands.operator.reports.reconcile("runtime")
    assert hands.remediers.cache["runtime"] is rule, "nothing happened, nothing was written"


async def test_a_refused_version_never_unloads_the_good_one() -> None:
    hands = await a_cluster()
    bad = [{"name": "boot", "steps": [{"cordon": {}}, {"replace": {"surge": "First"}}]}]
    await hands.rule(generation=2, ladder=bad)
    assert list(hands.operator.rules.active()) == ["runtime@1"]
    await hands.operator.reports.reconcile("runtime")
    status = hands.remediers.cache["runtime"].status
    assert status.phase == "Rejected"
    compiled = next(c for c in status.conditions if c.type == "Compiled")
    assert "step replace with surge First is not available in this version" in compiled.message
    assert "last good version stays" in compiled.message
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0 - MINUTE))
    await hands.decide()
    assert hands.made()[0].spec.ladder[0].name == "restart"
    assert hands.events_told() == ["RuleRejected"]


async def test_a_rule_that_changed_stays_loaded_for_the_job_that_follows_it() -> None:
    hands = await a_cluster()
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0 - MINUTE))
    await hands.decide()
    when = {"condition": {"type": "Other", "status": "True"}}
    await hands.rule(generation=2, when=when)
    rules = hands.operator.rules
    assert list(rules.active()) == ["runtime@2"]
    assert rules.is_loaded("runtime@1")
    hands.closes(hands.made()[0].metadata.name, JobPhase.SUCCEEDED)
    await rules.reload()
    assert not rules.is_loaded("runtime@1")


async def test_a_rule_that_is_off_or_gone_matches_nobody() -> None:
    hands = await a_cluster(mode="Off")
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0 - MINUTE))
    await hands.decide()
    assert hands.made() == []
    await hands.operator.reports.reconcile("runtime")
    assert hands.remediers.cache["runtime"].status.phase == "Off"
    hands.remediers.remove("runtime")
    await hands.operator.rules.reload()
    assert dict(hands.operator.rules.active()) == {}


async def test_a_rule_that_the_engines_dispute_is_quarantined_and_says_so() -> None:
    hands = await a_cluster()
    hands.dispute("runtime@1", "the engines disagree about it: observed only")
    await hands.operator.rules.refresh_disputes()
    await hands.operator.reports.reconcile("runtime")
    status = hands.remediers.cache["runtime"].status
    assert status.phase == "Quarantined"
    agree = next(c for c in status.conditions if c.type == "EnginesAgree")
    assert agree.status == "False"
    assert agree.message.startswith("the engines disagree about it: observed only")
    assert hands.events_told() == ["EngineDisagreement"]


async def test_a_disputed_rule_makes_no_job() -> None:
    hands = await a_cluster()
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0 - MINUTE))
    hands.dispute("runtime@1", "observed only")
    await hands.decide()
    assert hands.made() == []
