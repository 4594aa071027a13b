"""The evidence without which no rule of a release acts, and what a release says about it."""

from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from support.clock import T0, FakeClock
from support.release_world import (
    DeathError,
    Lifetime,
    ReleaseWorldDouble,
    make_pipeline,
    make_release,
    make_rule,
    make_stage,
)
from support.rule_members import SELECTED, RuleMemberDouble

from captain.releases.evidence import EvidenceVerdict, count_allowed_firings, judge_rule
from captain.releases.health import MOST_COUNTED, read_relapsed
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.noderemedier import DryRunStatus
from kubenode.api.v1alpha1.release import (
    ApprovalSubject,
    ClusterPhase,
    PayloadObject,
    ReleaseCluster,
    ReleasePhase,
    ReleaseReason,
    ReleaseState,
    StageApprovalEntry,
)
from kubenode.api.v1alpha1.releasepipeline import EnforceApproval, StageRules
from kubenode.cli.release_report import describe_release

HOUR = timedelta(hours=1)
ENFORCE = PayloadObject.model_validate(make_rule("Enforce"))


# -- the decision over the product of its inputs ------------------------------------------------


def make_live(mode: str, compiled: str, dry_run: dict[str, Any] | None) -> dict[str, Any]:
    rule = make_rule(mode)
    status = {"observedGeneration": 2, "wouldReach": {"nodes": 1000}}
    condition = {"type": "Compiled", "status": compiled, "reason": "R"}
    conditions = [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    return {
        **rule,
        "metadata": {"name": "rule", "generation": 2},
        "status": {**status, "conditions": conditions, "dryRun": dry_run},
    }


CASES = list(
    product(
        ["DryRun", "Enforce", "Off"],  # mode in the cluster
        ["True", "False"],  # Compiled
        [None, 1, 2],  # generation of the evidence; the rule has 2
        [0, 1],  # nodes that recovered alone
        [0, 1],  # conflicts
        [0, 1, 2, 3],  # firings; 2 are allowed in 2 hours
        [1, 2],  # hours in DryRun; 2 are needed
        EnforceApproval,
        [False, True],  # approved
    )
)


def expect(case: tuple[Any, ...]) -> EvidenceVerdict:
    """Return the verdict by the documentation, in the order of its table."""
    mode, compiled, generation, alone, conflicts, firings, hours, approval, approved = case
    if mode == "Enforce":
        return EvidenceVerdict.COMPLETE
    if mode != "DryRun" or compiled != "True" or generation != 2:
        return EvidenceVerdict.MISSING
    if alone or conflicts or firings > 2:
        return EvidenceVerdict.AGAINST
    if hours < 2:
        return EvidenceVerdict.MISSING
    asks = {"None": False, "Always": True, "IfNotFired": not firings}[approval]
    return EvidenceVerdict.AWAITING_APPROVAL if asks and not approved else EvidenceVerdict.COMPLETE


def judge(case: tuple[Any, ...]) -> EvidenceVerdict:
    mode, compiled, generation, alone, conflicts, firings, hours, approval, approved = case
    dry_run = {
        "generation": generation,
        "since": format_time(T0),
        "until": format_time(T0 + hours * HOUR),
        "firings": firings,
        "nodes": firings,
        "recoveredAlone": alone,
        "conflicts": conflicts,
    }
    live = make_live(mode, compiled, None if generation is None else dry_run)
    limits = StageRules(dry_run_first=2 * HOUR, approval=approval)
    answer = judge_rule(ENFORCE, {ENFORCE.key: live}, limits, approved=approved)
    assert (answer.verdict is EvidenceVerdict.COMPLETE) == (not answer.text)
    return answer.verdict


def test_every_case_gets_the_verdict_of_the_documentation() -> None:
    verdicts = {case: judge(case) for case in CASES}
    assert verdicts == {case: expect(case) for case in CASES}
    assert set(verdicts.values()) == set(EvidenceVerdict)


@pytest.mark.parametrize("dry_run", [[], "text", {"generation": 2}, {"generation": "x"}, 7])
def test_evidence_that_cannot_be_read_is_missing(dry_run: Any) -> None:
    live = make_live("DryRun", "True", dry_run)
    limits = StageRules(dry_run_first=timedelta(0), approval=EnforceApproval.NONE)
    answer = judge_rule(ENFORCE, {ENFORCE.key: live}, limits, approved=True)
    assert answer.verdict is EvidenceVerdict.MISSING
    assert "reports no evidence" in answer.text


def test_firings_are_bounded_by_nodes_and_hours_from_the_start() -> None:
    limits = StageRules(dry_run_first=24 * HOUR, max_firings=2)
    status = DryRunStatus(generation=1, since=T0, until=T0)
    assert count_allowed_firings(status, 1000, limits) == 48
    assert count_allowed_firings(status, 3, limits) == 1
    assert count_allowed_firings(status, 0, limits) == 0
    later = status.model_copy(update={"until": T0 + 48 * HOUR})
    assert count_allowed_firings(later, 1000, limits) == 96


@pytest.mark.parametrize(
    "broken",
    [
        {"status": []},
        {"status": {"conditions": 3}},
        {"status": {"conditions": [{"type": 7}]}},
        {"metadata": "x"},
        {"metadata": {}, "spec": [1]},
    ],
)
def test_answer_that_is_no_object_stops_its_own_cluster_alone(broken: dict[str, Any]) -> None:
    world, (member, _) = make_world(clusters=2)
    world.pipeline = make_pipeline(make_stage("test", maxConcurrency=2))
    world.run(rounds=2)
    member.answer = broken
    status = world.run()
    assert status.reason is ReleaseReason.CLUSTER_UNREACHABLE
    assert "t-0: NodeRemedier/rule is not readable" in status.message
    assert read_cluster(world, "t-1").phase is ClusterPhase.SUCCEEDED


@pytest.mark.parametrize("number", [10**400, -1, 1.5, "x", True, None])
def test_numbers_of_a_member_are_bounded(number: Any) -> None:
    live = make_live("DryRun", "True", None)
    live["status"] |= {"wouldReach": {"nodes": number}, "jobs": {"relapsed": number}}
    assert 0 <= read_relapsed(live) <= MOST_COUNTED
    dry_run = {"generation": 2, "since": format_time(T0), "until": format_time(T0 + HOUR)}
    live["status"]["dryRun"] = {**dry_run, "firings": number}
    limits = StageRules(dry_run_first=HOUR, approval=EnforceApproval.NONE)
    answer = judge_rule(ENFORCE, {ENFORCE.key: live}, limits, approved=True)
    assert answer.verdict is EvidenceVerdict.MISSING


# -- releases -----------------------------------------------------------------------------------


def make_world(
    *payload: dict[str, Any], clusters: int = 1, **rules: Any
) -> tuple[ReleaseWorldDouble, list[RuleMemberDouble]]:
    """A stage `test` with clusters t-0, t-1 ... that a release of the payload goes to."""
    clock = FakeClock()
    members = [RuleMemberDouble(f"t-{number}", "test", clock) for number in range(clusters)]
    stage = make_stage("test", rules={"dryRunFirst": "1m", **rules})
    world = ReleaseWorldDouble(make_pipeline(stage), members, clock)
    world.store.put(make_release(*(payload or (make_rule("Enforce"),))))
    return world, members


def read_mode(member: RuleMemberDouble, name: str = "rule") -> str:
    return str(member.objects[f"NodeRemedier/{name}"]["spec"]["mode"])


def read_cluster(world: ReleaseWorldDouble, name: str = "t-0") -> ReleaseCluster:
    stages = world.store.get().status.stages
    return next(each for stage in stages for each in stage.clusters if each.name == name)


def test_rule_is_in_dry_run_until_the_time_is_over_and_then_acts() -> None:
    world, (member,) = make_world()
    status = world.run(rounds=6)
    assert read_mode(member) == "DryRun"
    assert (status.phase, status.reason) == (
        ReleasePhase.RUNNING,
        ReleaseReason.EVIDENCE_MISSING,
    )
    assert "NodeRemedier/rule: in DryRun since 2026-" in status.message
    assert "and needs 1m" in status.message
    assert world.run().phase is ReleasePhase.SUCCEEDED
    assert read_mode(member) == "Enforce"
    assert read_cluster(world).enforced_at is not None


def test_each_cluster_gives_its_own_evidence() -> None:
    world, (first, second) = make_world(clusters=2)
    world.run(rounds=20)
    assert (read_mode(first), read_mode(second)) == ("Enforce", "DryRun")
    assert world.run().phase is ReleasePhase.SUCCEEDED


@pytest.mark.parametrize(
    ("lever", "value", "words"),
    [
        ("alone", 2, "it would have acted on 2 nodes that recovered alone (at most 0): node-0"),
        ("conflicts", 1, "another rule would have disturbed 1 of its nodes too"),
        ("firings", 2, f"it would have acted 2 times (at most 1 for {SELECTED} nodes)"),
    ],
)
def test_evidence_against_a_rule_stops_the_release_while_it_is_in_dry_run(
    lever: str, value: int, words: str
) -> None:
    world, (member, other) = make_world(clusters=2)
    world.run(rounds=6)
    setattr(member, lever, value)
    status = world.run()
    assert (status.phase, status.reason) == (ReleasePhase.PAUSED, ReleaseReason.CLUSTERS_FAILED)
    assert words in status.message
    assert read_cluster(world).reason is ReleaseReason.EVIDENCE_AGAINST
    assert read_mode(member) == "DryRun"
    assert not other.written


def test_limits_of_the_stage_accept_what_they_say() -> None:
    world, (member,) = make_world(maxRecoveredAlone=2, maxConflicts=1, maxFirings=120)
    member.alone, member.conflicts, member.firings = 2, 1, 2
    assert world.run().phase is ReleasePhase.SUCCEEDED
    assert read_mode(member) == "Enforce"


def test_rule_that_never_fired_needs_a_person() -> None:
    world, (member,) = make_world()
    member.firings = 0
    status = world.run()
    assert (status.phase, status.reason) == (
        ReleasePhase.RUNNING,
        ReleaseReason.AWAITING_APPROVAL,
    )
    assert "`kubenode release approve release test --enforce`" in status.message
    world.store.set_spec(approvals=[StageApprovalEntry(stage="test", by="ann")])
    assert world.run().reason is ReleaseReason.AWAITING_APPROVAL, "it approves the start alone"
    entry = StageApprovalEntry(stage="test", by="ann", subject=ApprovalSubject.ENFORCE)
    world.store.set_spec(approvals=[entry])
    assert world.run().phase is ReleasePhase.SUCCEEDED
    assert read_mode(member) == "Enforce"


def test_approval_of_enforce_does_not_start_a_stage() -> None:
    world, (member,) = make_world()
    stage = make_stage("test", approval="Before", rules={"dryRunFirst": "1m"})
    world.pipeline = make_pipeline(stage)
    entry = StageApprovalEntry(stage="test", by="ann", subject=ApprovalSubject.ENFORCE)
    world.store.set_spec(approvals=[entry])
    assert world.run().phase is ReleasePhase.AWAITING_APPROVAL
    assert not member.written


def test_version_that_acted_before_the_release_needs_no_evidence() -> None:
    same, other = make_rule("Enforce", name="same"), make_rule("Enforce", name="other")
    world, (member,) = make_world(same, other)
    member.put(same)
    member.put({**other, "spec": {**other["spec"], "priority": 7}})
    world.run(rounds=6)
    assert (read_mode(member, "same"), read_mode(member, "other")) == ("Enforce", "DryRun")


@pytest.mark.parametrize("mode", ["DryRun", "Approve", "Off"])
def test_rule_of_another_mode_is_applied_as_it_is(mode: str) -> None:
    world, (member,) = make_world(make_rule(mode))
    assert world.run(rounds=10).phase is ReleasePhase.SUCCEEDED
    assert read_mode(member) == mode


def test_operator_that_does_not_run_gives_no_evidence() -> None:
    world, (member,) = make_world()
    world.run(rounds=6)
    member.set_observing(False)
    assert world.run().reason is ReleaseReason.EVIDENCE_MISSING
    member.set_observing(True)
    assert world.run(rounds=6).reason is ReleaseReason.EVIDENCE_MISSING
    assert world.run().phase is ReleasePhase.SUCCEEDED


def test_rule_that_a_person_changes_before_it_acts_is_not_enforced() -> None:
    world, (member,) = make_world()
    member.intruder = True
    world.run(rounds=20)
    assert not member.violations
    assert read_mode(member) == "DryRun"
    assert world.run().phase is ReleasePhase.SUCCEEDED, "the evidence of the changed one"


def test_failed_rule_is_in_dry_run_again_after_a_resume() -> None:
    world, (member,) = make_world()
    world.pipeline = make_pipeline(make_stage("test", bakeTime="1h", rules={"dryRunFirst": "1m"}))
    world.run()
    member.healthy = False
    assert world.run().phase is ReleasePhase.PAUSED
    assert read_mode(member) == "Enforce"
    member.healthy = True
    for state in (ReleaseState.PAUSE, ReleaseState.RUN):
        world.store.set_spec(state=state)
        world.run(rounds=5)
    assert read_mode(member) == "DryRun"


def test_rollback_of_a_rule_in_dry_run_restores_the_one_that_acted() -> None:
    before = make_rule("Enforce")
    before["spec"]["priority"] = 7
    world, (member,) = make_world()
    member.put(before)
    world.run(rounds=6)
    assert read_mode(member) == "DryRun"
    world.store.set_spec(state=ReleaseState.ROLLBACK)
    assert world.run().phase is ReleasePhase.ROLLED_BACK
    assert member.objects["NodeRemedier/rule"]["spec"] == before["spec"]


def count_writes() -> int:
    world, _ = make_killed_world()
    life = Lifetime()
    world.restart(life)
    world.run()
    return life.writes


def make_killed_world() -> tuple[ReleaseWorldDouble, list[RuleMemberDouble]]:
    rules = [make_rule("Enforce", name=name) for name in ("first", "second")]
    return make_world(*rules, clusters=2)


WRITES = count_writes()


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("at", range(1, WRITES + 1))
@pytest.mark.parametrize("turns", [False, True])
def test_process_that_dies_at_any_write_enforces_nothing_without_evidence(
    at: int, before: bool, turns: bool
) -> None:
    """turns: what was complete when the process died is not any more when the next one starts."""
    world, members = make_killed_world()
    world.restart(Lifetime(at, before))
    with pytest.raises(DeathError):
        world.run()
    enforced = {m.name for m in members if "Enforce" in str(m.specs)}
    for member in members:
        member.alone = int(turns)
    world.restart(Lifetime())
    status = world.run()
    assert not [member.violations for member in members if member.violations]
    if turns:
        assert {m.name for m in members if "Enforce" in str(m.specs)} <= enforced
    else:
        assert status.phase is ReleasePhase.SUCCEEDED
        assert all("DryRun" not in str(member.specs) for member in members)


def test_explain_says_what_is_missing_and_shows_the_numbers() -> None:
    world, (member,) = make_world(maxRecoveredAlone=5)
    world.run(rounds=6)
    member.alone = 2
    world.run(rounds=2)
    text = "\n".join(describe_release(world.store.get()))
    assert "t-0: Verifying, EvidenceMissing: NodeRemedier/rule: in DryRun since" in text
    assert "1 firings on 1 nodes, 2 recovered alone, 0 with another rule (node-0, node-1)" in text
    assert "to go on: wait: status.dryRun of the named rules" in text


@pytest.mark.exhaustive
def test_evidence_of_hundreds_of_clusters_fits_into_etcd() -> None:
    rules = [make_rule("Enforce", name=f"rule-{number}") for number in range(32)]
    world, members = make_world(*rules, clusters=300, maxRecoveredAlone=1000, dryRunFirst="1h")
    world.pipeline = make_pipeline(
        make_stage(
            "test",
            maxConcurrency="100%",
            rules={"dryRunFirst": "1h", "maxRecoveredAlone": 1000},
        )
    )
    for member in members:
        member.alone = 60
    world.run(rounds=8)
    release = world.store.get()
    clusters = release.status.stages[0].clusters
    assert {cluster.phase for cluster in clusters} == {ClusterPhase.VERIFYING}
    names = [cluster.dry_run.node_names for cluster in clusters if cluster.dry_run is not None]
    assert {len(each) for each in names} == {20}
    assert len(release.model_dump_json(by_alias=True)) < 1_500_000
