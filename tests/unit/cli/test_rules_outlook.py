"""What `rules explain` says of a rule that matches: what it waits for now, and until when."""

from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import an_object
from support.replay_world import a_rule, a_world, at, sick

from kubenode.api.v1alpha1 import JobPhase, NodeRemedier, RemedyOperationJob
from kubenode.api.v1alpha1.remedyoperationjob import RemedyOperationJobStatus
from kubenode.cli.live import Live
from kubenode.cli.rules_outlook import RuleOutlook, lines, of_live, waits_of, with_job
from remedy.remedier.decide import RuleWait, WaitReason
from rules.program import RuleVersion, compile_program
from simulation.replay.recorded_explanation import standing_of
from simulation.replay.world import World


def live(world: World, *jobs: RemedyOperationJob) -> Live:
    """The cluster of a simulated node as the command reads it."""
    facts, rules = world.facts("a"), list(world.rules.values())
    assert facts is not None
    program = compile_program([RuleVersion(f"{r.metadata.name}@0", r) for r in rules])
    return Live(facts, jobs, rules, program, node=world.nodes["a"])


def test_rule_whose_job_waits_says_for_what_and_until_when() -> None:
    world = a_world(a_rule(groupWait="20s", startupGrace="5m"))
    sick(world, 0)
    at(world, 40)
    standing = standing_of(world, "a")["sick"]
    assert (standing.why, standing.until) == ("GroupWait", world.start + timedelta(seconds=50))
    (line,) = lines(standing)
    assert line.startswith("  now: GroupWait until 2026-01-05T12:00:50.000Z: it waits a moment")
    assert standing.to_json()["until"] == "2026-01-05T12:00:50.000Z"


def test_job_that_has_begun_says_where_it_is() -> None:
    world = a_world(a_rule())
    sick(world, 0)
    at(world, 40)
    (job,) = world.jobs
    assert standing_of(world, "a")["sick"].text.startswith(f"its job {job.name} is ")
    assert standing_of(a_world(), "a") == {}


def test_live_rule_without_a_job_says_what_follows() -> None:
    for spec, why, text in (
        ({}, "Acts", "its job is made now"),
        ({"groupWait": "10s"}, "GroupWait", "its job is made now and waits: GroupWait until "),
        ({"mode": "DryRun"}, "Acts", "in DryRun"),
    ):
        world = a_world(a_rule(**spec))
        sick(world, 0)
        world.run_before(world.start + timedelta(seconds=31))
        standing = of_live(live(world), world.now)["sick"]
        assert (standing.why, standing.text.startswith(text)) == (why, True), standing


def test_live_rule_that_marks_too_many_nodes_says_so() -> None:
    """The operator counts, and says in the rule's status what it found."""
    world = a_world(a_rule())
    sick(world, 0)
    world.run_before(world.start + timedelta(seconds=31))
    condition = {"type": "SafeSize", "status": "False", "reason": "MarksTooMany", "message": "m"}
    status = {"conditions": [{**condition, "lastTransitionTime": T0.isoformat()}]}
    (name,) = world.rules
    rule = world.rules[name]
    world.rules[name] = NodeRemedier.model_validate({**rule.to_dict(), "status": status})
    standing = of_live(live(world), world.now)["sick"]
    assert standing.why == "BlastRadius" and "kubenode.io/accept-blast-radius" in standing.text


def test_live_job_that_waits_tells_its_own_time() -> None:
    world = a_world(a_rule(startupGrace="5m", groupWait="10s"))
    sick(world, 0)
    at(world, 31)
    wait = {
        "since": world.now.isoformat(),
        "notBefore": (world.now + timedelta(minutes=4)).isoformat(),
        "reason": "StartupGrace",
    }
    rule: dict[str, Any] = {"name": "sick", "uid": "u", "generation": 0}
    uid = world.nodes["a"].metadata.uid
    job = an_object(name="a-1", nodeName="a", nodeUID=uid, remedier=rule, initialWait=wait)
    standing = of_live(live(world, job), world.now)["sick"]
    assert (standing.why, standing.until) == ("StartupGrace", world.now + timedelta(minutes=4))
    status = RemedyOperationJobStatus(phase=JobPhase.RUNNING)
    running = job.model_copy(update={"status": status})
    assert of_live(live(world, running), world.now)["sick"].text == "its job a-1 is Running"


@pytest.mark.parametrize("why", list(WaitReason))
def test_every_reason_is_told(why: WaitReason) -> None:
    found = waits_of([RuleWait("runtime", why, T0)])
    assert found["runtime"].why == str(why) and found["runtime"].text
    with_job(found, "runtime", "n1-1", JobPhase.RUNNING, ("PDBBlocked", "no"))
    own = found["runtime"] == RuleOutlook("Job", "its job n1-1 is Running, held: PDBBlocked: no")
    assert own is (why is WaitReason.OPEN_JOB)
