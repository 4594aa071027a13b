"""A simulated fleet: the clock is ours, the decisions are production's."""

from datetime import timedelta
from typing import Any

from support.replay_world import REBOOT, a_rule, a_world, after, ages, at, feed, sick

from kubenode.api.v1alpha1 import DefenderPolicy
from rules.facts import Value
from simulation.replay.timeline import entry
from simulation.replay.world import heals

HOUR = 3600
PROBED = {
    "all": [{"condition": {"type": "Sick"}}, {"probe": {"name": "disk.used_pct", "above": 90}}]
}
NOTIFY = [{"name": "tell", "steps": [{"notify": {}}]}]


# -- time ---------------------------------------------------------------------------------------


def test_a_condition_makes_its_job_at_the_instant_at_which_it_has_held_long_enough() -> None:
    world = a_world()
    sick(world, 10)
    at(world, 39)
    assert ages(world) == []
    at(world, 40)
    assert ages(world) == [("a", "sick", 40)]


def test_a_fault_that_ends_in_time_makes_no_job() -> None:
    world = a_world()
    sick(world, 10)
    sick(world, 39, on=False)
    at(world, HOUR)
    assert ages(world) == []


def test_reporters_go_on_saying_what_they_said() -> None:
    """Nobody writes heartbeats into a timeline: a condition holds until it is replaced."""
    slow = {"condition": {"type": "Sick", "for": "2h", "maxAge": "5m"}}
    world = a_world(a_rule(when=slow))
    sick(world, 0)
    at(world, 2 * HOUR - 1)
    assert ages(world) == []
    at(world, 2 * HOUR)
    assert ages(world) == [("a", "sick", 2 * HOUR)]


def test_what_a_silent_reporter_said_is_unknown_after_a_while() -> None:
    slow = {"condition": {"type": "Sick", "for": "10m", "maxAge": "5m"}}
    world = a_world(a_rule(when=slow), nodes=("a", "b", "c"))
    sick(world, 0, ["a", "b", "c"])
    feed(world, 60, "a", silent=True)
    feed(world, 60, "b", silent=["Sick"])
    feed(world, 60, "c", silent=["Other"])
    at(world, HOUR)
    assert ages(world) == [("c", "sick", 600)]


def test_a_heartbeat_of_a_silent_reporter_counts() -> None:
    slow = {"condition": {"type": "Sick", "for": "10m", "maxAge": "5m"}}
    world = a_world(a_rule(when=slow))
    sick(world, 0)
    feed(world, 1, "a", silent=True)
    for beat in (240, 480, 599):
        feed(world, beat, "a", heard=True)
    at(world, HOUR)
    assert ages(world) == [("a", "sick", 600)]


def test_group_wait_and_startup_grace_are_waited_for_and_told() -> None:
    world = a_world(a_rule(groupWait="20s", startupGrace="5m"))
    sick(world, 0)
    at(world, 40)
    assert world.waits("a") == {"sick": "GroupWait"}
    assert ages(world) == [("a", "sick", 30)], "the job is there at once"
    assert (world.jobs[0].acts, world.jobs[0].begun) == ([], None)
    at(world, 50)
    assert world.jobs[0].begun == world.start + timedelta(seconds=50)
    late = a_world(a_rule(startupGrace="5m"))
    sick(late, 0)
    feed(late, 10, "a", boot={})
    at(late, 100)
    assert late.waits("a") == {"sick": "StartupGrace"}
    assert ages(late) == [("a", "sick", 30)]
    at(late, 310)
    assert late.jobs[0].begun == late.start + timedelta(seconds=310)


def test_a_fact_that_grows_with_time_alone_is_noticed() -> None:
    rule = a_rule(when={"fact": {"name": "node.notReadyFor", "above": 120}})
    world = a_world(rule)
    feed(world, 10, "a", condition={"type": "Ready", "status": "Unknown"})
    at(world, HOUR)
    ((_, _, made),) = ages(world)
    assert 130 <= made <= 191


# -- signals ------------------------------------------------------------------------------------


def test_events_are_counted_in_their_window() -> None:
    rule = a_rule(when={"event": {"reason": "OOMKilling", "count": 3, "within": "10m"}})
    world = a_world(rule, nodes=("a", "b", "c"))
    for second in (0, 100, 700):
        feed(world, second, "a", event={"reason": "OOMKilling"})
    for second in (0, 100, 500):
        feed(world, second, "b", event={"reason": "OOMKilling"})
    feed(world, 300, "c", event={"reason": "OOMKilling", "count": 3, "first": "200s"})
    at(world, HOUR)
    assert ages(world) == [("c", "sick", 300), ("b", "sick", 500)]


def test_the_same_event_written_again_is_counted_as_it_says() -> None:
    rule = a_rule(when={"event": {"reason": "Oops", "count": 3, "within": "10m"}})
    world = a_world(rule)
    for second, count in ((1, 1), (2, 2), (3, 2), (4, 3)):
        feed(world, second, "a", event={"reason": "Oops", "uid": "e1", "count": count})
    at(world, 60)
    assert ages(world) == [("a", "sick", 4)]


def test_a_host_event_that_is_over_makes_no_job_any_more() -> None:
    rule = a_rule(when={"hostEvent": {"class": "Reboot", "startsWithin": "30m"}})
    world = a_world(rule, nodes=("a", "b"))
    feed(world, 0, "a", hostEvent={"class": "Reboot", "phase": "Scheduled", "notBefore": "2h"})
    feed(world, 0, "b", hostEvent={"class": "Reboot", "phase": "Scheduled", "notBefore": "2h"})
    feed(world, 60, "b", hostEvent={"class": "Reboot", "phase": "Cancelled"})
    at(world, 3 * HOUR)
    assert ages(world) == [("a", "sick", 1.5 * HOUR)]


def test_alerts_need_a_source_that_lives() -> None:
    rule = a_rule(when={"alert": {"name": "NodeDiskIOError", "for": "10m"}})
    world = a_world(rule, nodes=("a",))
    feed(world, 10, "a", alert={"name": "NodeDiskIOError"})
    at(world, 610)
    assert ages(world) == [("a", "sick", 610)]
    silent = a_world(rule, nodes=("a",))
    silent.feed(entry(at="0s", alertSource="silent"))
    feed(silent, 10, "a", alert={"name": "NodeDiskIOError"})
    at(silent, 2 * HOUR)
    assert ages(silent) == []


def test_labels_annotations_taints_and_cordons_are_read() -> None:
    rules = [
        a_rule("label", when={"label": {"key": "x", "value": "y"}}, ladder=NOTIFY),
        a_rule("note", when={"annotation": {"key": "n", "exists": True}}, ladder=NOTIFY),
        a_rule("taint", when={"taint": {"key": "t", "exists": True}}, ladder=NOTIFY),
        a_rule(
            "cordon",
            when={"fact": {"name": "node.cordonedBy", "equals": "somebody"}},
            ladder=NOTIFY,
        ),
    ]
    world = a_world(*rules, nodes=("a", "b", "c", "d"))
    feed(world, 1, "a", label={"x": "y"})
    feed(world, 2, "b", annotation={"n": ""})
    feed(world, 3, "c", taint={"key": "t"})
    feed(world, 4, "d", cordon=True)
    at(world, 120)
    assert [(node, rule) for node, rule, _ in ages(world)] == [
        ("a", "label"),
        ("b", "note"),
        ("c", "taint"),
        ("d", "cordon"),
    ]


def test_a_node_that_goes_and_comes_is_another_node() -> None:
    world = a_world()
    sick(world, 0)
    feed(world, 20, "a", lifecycle="deleted")
    feed(world, 40, "a", lifecycle="created")
    at(world, HOUR)
    assert ages(world) == []
    sick(world, HOUR)
    at(world, HOUR + 30)
    assert ages(world) == [("a", "sick", HOUR + 30)]


# -- questions to hosts -------------------------------------------------------------------------


def test_probes_are_asked_only_when_all_else_holds_and_answers_count() -> None:
    world = a_world(a_rule(when=PROBED))
    world.answer("a", {"disk": {"used_pct": 95}})
    at(world, 60)
    assert world.list_probes("a") == []
    sick(world, 60)
    at(world, 61)
    assert world.list_probes("a") == ["disk"] and ages(world) == [("a", "sick", 61)]


def test_nobody_who_does_not_answer_is_repaired() -> None:
    world = a_world(a_rule(when=PROBED))
    sick(world, 0)
    at(world, 600)
    assert ages(world) == [] and 2 <= len(world.list_probes("a")) <= 10
    feed(world, 600, "a", probe={"disk": {"used_pct": 95}})
    at(world, HOUR)
    assert len(ages(world)) == 1


# -- facts of groups ----------------------------------------------------------------------------


def test_a_fact_inferred_of_a_rack_guards_its_nodes() -> None:
    infer = a_rule(
        "power",
        when={"condition": {"type": "Ready", "status": "Unknown", "for": "10s"}},
        infer={"fact": "rack.dark", "scope": "Rack", "value": True, "for": "10m"},
    )
    guarded = a_rule(unless={"fact": {"name": "rack.dark"}})
    world = a_world(infer, guarded, nodes=())
    for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2")):
        world.add_node(name, labels={"kubenode.io/rack": rack})
    feed(world, 0, "b", condition={"type": "Ready", "status": "Unknown"})
    sick(world, 1, ["a", "c"])
    at(world, 120)
    assert ages(world) == [("c", "sick", 31)]
    assert world.waits("a") == {"sick": "Guard"}
    facts = world.facts("a")
    assert facts is not None and facts.inferred["rack.dark"] is True
    assert [(s.node, s.rule, s.what) for s in world.inferred] == [
        ("b", "power", "rack.dark = True")
    ]


def test_the_same_fault_on_many_nodes_of_a_zone_is_counted() -> None:
    both = {
        "all": [{"condition": {"type": "Sick"}}, {"fact": {"name": "zone.sameFault", "above": 2}}]
    }
    world = a_world(a_rule(when=both, ladder=NOTIFY), nodes=())
    for name in ("a", "b", "c", "d"):
        world.add_node(name, labels={"topology.kubernetes.io/zone": "z"})
    sick(world, 10, ["a", "b"])
    at(world, 100)
    assert ages(world) == []
    sick(world, 100, "c")
    at(world, 100)
    assert sorted(ages(world)) == [(n, "sick", 100) for n in ("a", "b", "c")]


# -- jobs ---------------------------------------------------------------------------------------


def test_a_repair_that_does_not_help_climbs_the_ladder() -> None:
    """Cordon, drain of ten pods 48 s, reboot 180 s, proof for at most 10 m, then replace."""
    world = a_world(unlimited=True)
    sick(world, 0)
    at(world, 2 * HOUR)
    (job,) = world.jobs
    assert [step.name for step in job.steps] == ["cordon", "migrate", "reboot", "cordon", "replace"]
    assert after(world, job)["reboot"] == 30
    reboot = next(step for step in job.steps if step.name == "reboot")
    assert reboot.ended is not None and reboot.ended - reboot.began == timedelta(minutes=3)
    assert job.phase == "Succeeded", "replaced: it is another node now"
    assert world.nodes["a"].metadata.uid != "a-uid-1"
    assert [rung.name for rung in job.rungs] == ["reboot", "replace"]


def test_a_repair_that_helps_is_proven_and_the_node_is_given_back() -> None:
    world = a_world(unlimited=True, heals=heals)
    sick(world, 0)
    at(world, 700)
    (job,) = world.jobs
    assert (job.phase, job.close_reason) == ("Succeeded", "Proven")
    assert not world.nodes["a"].spec.unschedulable
    assert [rung.name for rung in job.rungs] == ["reboot"]


def test_a_step_that_fails_escalates() -> None:
    world = a_world(unlimited=True, fails=["reboot"])
    sick(world, 0)
    at(world, HOUR)
    states = [(step.name, step.state) for step in world.jobs[0].steps]
    assert ("reboot", "Failed") in states and ("replace", "Done") in states


def test_a_fault_that_ends_by_itself_ends_its_job_before_the_act() -> None:
    world = a_world(unlimited=True)
    sick(world, 0)
    sick(world, 60, on=False)
    at(world, HOUR)
    (job,) = world.jobs
    assert (job.phase, job.close_reason) == ("Cancelled", "FaultGone")
    assert not world.nodes["a"].spec.unschedulable and "reboot" not in [s.name for s in job.steps]


def test_a_persons_word_counts() -> None:
    world = a_world(a_rule(mode="Approve"), nodes=("a", "b", "c"), unlimited=True)
    sick(world, 0, ["a", "b", "c"])
    feed(world, 100, "a", person="approve")
    feed(world, 100, "b", person="deny")
    feed(world, 100, "c", person="cancel")
    at(world, 101)
    assert {job.node: (str(job.phase), job.close_reason) for job in world.jobs} == {
        "a": ("Running", None),
        "b": ("Cancelled", "Denied"),
        "c": ("Cancelled", "PersonCancelled"),
    }


def test_a_node_that_a_person_uncordons_is_left_alone() -> None:
    world = a_world(unlimited=True)
    sick(world, 0)
    feed(world, 40, "a", cordon=False)
    at(world, HOUR)
    (job,) = world.jobs
    assert job.close_reason == "PersonUncordoned"
    assert world.waits("a") == {"sick": "IncidentClosed"}


def test_a_relapse_starts_one_rung_higher_and_another_machine_anew() -> None:
    world = a_world(a_rule(cooldown="10m"), unlimited=True, heals=heals)
    for second in (0, 2000, 6000):
        sick(world, second)
    at(world, 3 * HOUR)
    assert [(job.start_rung, job.rungs[0].name) for job in world.jobs] == [
        (0, "reboot"),
        (1, "replace"),
        (0, "reboot"),
    ]
    assert world.jobs[1].previous == world.jobs[0].name


def test_attempts_end_and_the_rule_says_so() -> None:
    rule = a_rule(cooldown="10m", attempts={"max": 2, "within": "24h"}, ladder=REBOOT[:1])
    world = a_world(rule, unlimited=True, heals=heals)
    for second in (0, 2000, 6000):
        sick(world, second)
    at(world, 3 * HOUR)
    assert len(world.jobs) == 2 and world.waits("a") == {"sick": "AttemptsSpent"}


def test_a_dry_run_makes_shadow_jobs_that_never_act() -> None:
    world = a_world(a_rule(mode="DryRun"))
    sick(world, 0)
    at(world, HOUR)
    (job,) = world.jobs
    assert job.phase == "Shadowed" and job.acts == [] and "granted" in job.message
    assert not world.nodes["a"].spec.unschedulable


def test_rules_that_are_off_are_not_loaded_and_refused_ones_are_told() -> None:
    wrong = a_rule("wrong", when={"fact": {"name": "no.such", "is": True}})
    world = a_world(a_rule("off", mode="Off"), wrong)
    sick(world, 0)
    at(world, HOUR)
    assert ages(world) == [] and set(world.rejected) == {"wrong"}


def test_the_strongest_rule_wins_and_the_losers_are_named() -> None:
    world = a_world(a_rule("weak", priority=100), a_rule("strong", priority=900))
    sick(world, 0)
    at(world, 60)
    (job,) = world.jobs
    assert job.remedier == "strong" and job.also_matched == ("weak",)


# -- limits -------------------------------------------------------------------------------------


def test_limits_hold_jobs_back_and_the_record_says_which_and_how_long() -> None:
    world = a_world(nodes=[f"n{n:02}" for n in range(20)])
    sick(world, 0, ["n01", "n02"])
    at(world, 100)
    first, second = sorted(world.jobs, key=lambda job: job.node)
    assert first.permit_at is not None and second.permit_at is None
    assert second.hold is not None and second.hold.reason == "ConcurrencyLimit"
    assert second.hold.since == second.made
    at(world, 4 * HOUR)
    assert second.permit_at is not None and second.holds[0].until is not None


def test_a_policy_of_ones_own_rules() -> None:
    limits = {"nodes": {"all": True}, "limits": [{"scope": "Cluster", "maxConcurrent": 0}]}
    body = {"metadata": {"name": "none"}, "spec": limits}
    world = a_world(policies=[DefenderPolicy.from_user(body)])
    sick(world, 0)
    at(world, HOUR)
    (job,) = world.jobs
    assert job.acts == [] and job.hold is not None and job.hold.reason == "ConcurrencyLimit"


def test_a_guard_that_turns_true_holds_a_job_that_waits() -> None:
    rule = a_rule(unless={"fact": {"name": "maintenance.active"}})
    world = a_world(rule)
    sick(world, 0)
    feed(world, 10, "a", hostEvent={"class": "Maintenance"})
    at(world, HOUR)
    assert ages(world) == [] and world.waits("a") == {"sick": "Guard"}
    assert [(span.rule, span.what) for span in world.waited] == [("sick", "Guard")]


# -- looking ------------------------------------------------------------------------------------


def test_explain_tells_why_a_rule_does_not_match() -> None:
    world = a_world()
    sick(world, 0)
    at(world, 10)
    text = world.explain("a", "sick")
    assert "Sick" in text and "30s" in text
    assert "not loaded" in world.explain("a", "other") and "not there" in world.explain("x", "sick")


def test_waiting_for_an_event_of_the_cloud_ends_with_the_event() -> None:
    ladder: list[dict[str, Any]] = [
        {
            "name": "wait",
            "steps": [
                {"approveEvent": {}},
                {"waitForEvent": {"until": ["Completed"]}},
                {"notify": {}},
            ],
        }
    ]
    world = a_world(a_rule(when={"hostEvent": {"class": "Reboot"}}, ladder=ladder))
    feed(world, 0, "a", hostEvent={"class": "Reboot"})
    at(world, 600)
    assert [s.name for s in world.jobs[0].steps if s.state == "Done"] == ["approveEvent"]
    feed(world, 600, "a", hostEvent={"class": "Reboot", "phase": "Completed"})
    at(world, 601)
    assert [s.name for s in world.jobs[0].steps if s.state == "Done"] == [
        "approveEvent",
        "waitForEvent",
        "notify",
    ]


def test_an_event_that_is_over_is_not_waited_for() -> None:
    ladder: list[dict[str, Any]] = [
        {
            "name": "wait",
            "steps": [{"wait": {"for": "5m"}}, {"waitForEvent": {"until": ["Completed"]}}],
        }
    ]
    world = a_world(a_rule(when={"hostEvent": {"class": "Reboot"}}, ladder=ladder))
    feed(world, 0, "a", hostEvent={"class": "Reboot"})
    feed(world, 60, "a", hostEvent={"class": "Reboot", "phase": "Completed"})
    at(world, 301)
    assert [s.state for s in world.jobs[0].steps] == ["Done", "Done"]


def test_the_evidence_of_every_kind_is_cured_by_what_heals() -> None:
    def ends(when: dict[str, Any], **signal: Any) -> str:
        world = a_world(a_rule(when=when), unlimited=True, heals=heals)
        feed(world, 0, "a", **signal)
        at(world, HOUR)
        return str(world.jobs[0].phase)

    ready = {"condition": {"type": "Ready", "status": "Unknown"}}
    assert ends(ready, condition={"type": "Ready", "status": "Unknown"}) == "Succeeded"
    event = {"hostEvent": {"class": "HardwareFault"}}
    assert ends(event, hostEvent={"class": "HardwareFault"}) == "Succeeded"
    assert ends({"alert": {"name": "Bad"}}, alert={"name": "Bad"}) == "Succeeded"


def test_built_in_facts_are_known() -> None:
    world = a_world(nodes=("a", "b"))
    feed(world, 5, "b", condition={"type": "Ready", "status": "False"})
    feed(world, 5, "a", system={"gpus": 8, "kernel": "7.0.1"})
    at(world, 65)
    facts = world.facts("a")
    assert facts is not None
    wanted: dict[str, Value] = {
        "node.ready": True,
        "cluster.nodes": 2,
        "cluster.unhealthyRatio": 0.5,
        "node.gpuCount": 8,
        "node.kernel": "7.0.1",
    }
    assert {name: facts.values[name] for name in wanted} == wanted
