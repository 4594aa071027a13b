"""The summary of the fleet: faults and activity are two dimensions, and calm is rare."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from support.dashboard_world import a_job, a_node, a_rollout, a_rule, condition, some_rollouts

from defender.dashboard.rollout import SetRollout
from defender.dashboard.rule import RuleView
from defender.decision.census import member_of
from defender.decision.jobs import ObservedJob
from defender.decision.ledger import LedgerPermit
from defender.overview.faults import FaultConditions
from defender.overview.programs import (
    AgentCoverage,
    ProgramSight,
    cover_agents,
    find_leaderless,
    needs_agent,
)
from defender.overview.records import DryRunView, RecordView, current_dry_runs
from defender.overview.situation import NodeEvidence, NodeSituation, assess_node
from defender.overview.summary import FleetSummary, FleetSurroundings, summarize_fleet
from kubenode.api.v1alpha1 import Disruption, JobPhase, Operation
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.kube.objects import Node

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
NOTIFY = [{"name": "page", "steps": [{"notify": {"message": "look"}}]}]


def rule(name: str = "kernel-deadlock", mode: str = "Enforce", **spec: Any) -> RuleView:
    body = a_rule(name, mode)
    status = spec.pop("status", {})
    body["spec"] |= spec
    body["status"] |= status
    return msgspec.convert(body, RuleView, strict=False)


def rules(*each: RuleView) -> dict[str, RuleView]:
    return {one.metadata.name: one for one in each}


def node(name: str = "n1", *conditions: tuple[str, str], **given: Any) -> Node:
    body = a_node(name, **given)
    body["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "uid": f"uid-{name}"}
    body["status"]["conditions"] += [condition(t, s, "Why", "", 600.0) for t, s in conditions]
    return msgspec.convert(body, Node, strict=False)


def job(phase: str, **given: Any) -> ObservedJob:
    body = a_job("n1", phase, **{k: v for k, v in given.items() if k != "ladder"})
    if "ladder" in given:
        body["spec"]["ladder"] = given["ladder"]
    return msgspec.convert(body, ObservedJob, strict=False)


def permit(operation: Operation, granted: datetime = NOW) -> LedgerPermit:
    holder = Holder(kind="MachineComponentSet", name="containerd", uid="u")
    grants = [(Disruption.PODS, granted)]
    return LedgerPermit("p", "n1", operation, holder, grants, NOW + timedelta(hours=1))


def situation(of: Node, *loaded: RuleView, **known: Any) -> NodeSituation:
    evidence = NodeEvidence(of, member_of(of, NOW, timedelta(minutes=5)), **known)
    return assess_node(evidence, FaultConditions.of(loaded))


def summary(*nodes: NodeSituation, **around: Any) -> FleetSummary:
    return summarize_fleet(nodes, FleetSurroundings(**around))


# -- faults


@pytest.mark.parametrize("mode", ["Enforce", "Approve", "DryRun"])
def test_true_condition_of_a_loaded_rule_is_a_fault_whatever_its_mode(mode: str) -> None:
    found = situation(node("n1", ("KernelDeadlock", "True")), rule(mode=mode))
    assert [(fault.name, fault.rule) for fault in found.faults] == [
        ("KernelDeadlock", "kernel-deadlock")
    ]
    assert found.since is not None and found.unattended


@pytest.mark.parametrize(
    ("when", "status"),
    [
        ({"condition": {"type": "KernelDeadlock", "status": "True"}}, "False"),
        ({"not": {"condition": {"type": "KernelDeadlock", "status": "True"}}}, "True"),
        ({"condition": {"type": "KernelDeadlock", "reason": "^DockerHung$"}}, "True"),
        ({"condition": {"type": "KernelDeadlock", "status": "False"}}, "False"),
        ({"fact": {"name": "node.ready"}}, "True"),
    ],
)
def test_condition_that_no_rule_reads_as_evidence_is_no_fault(
    when: dict[str, Any], status: str
) -> None:
    assert not situation(node("n1", ("KernelDeadlock", status)), rule(when=when)).faults


def test_rule_that_is_off_or_selects_other_nodes_reports_no_fault() -> None:
    ill = node("n1", ("KernelDeadlock", "True"))
    elsewhere = {"selector": {"matchLabels": {"kubenode.io/pool": "gpu"}}}
    assert not situation(ill, rule(mode="Off"), rule("other", nodes=elsewhere)).faults


def test_condition_type_that_is_true_when_healthy_is_a_fault_when_false() -> None:
    when = {"all": [{"condition": {"type": "StorageReady", "status": "False"}}]}
    assert situation(node("n1", ("StorageReady", "False")), rule(when=when)).faults
    assert not situation(node("n1", ("StorageReady", "True")), rule(when=when)).faults


def test_node_that_is_not_ready_has_a_fault_unless_it_starts_leaves_or_holds_a_permit() -> None:
    down = node(ready="False")
    assert situation(down).faults[0].name == "NotReady"
    upgrading = situation(
        down, permits=[permit(Operation.ROLLOUT, datetime(2020, 1, 1, tzinfo=UTC))]
    )
    assert (upgrading.faults, upgrading.upgrading, upgrading.repairing) == ((), True, False)
    new = node(ready="False")
    new.metadata.creation_timestamp = NOW
    assert not situation(new).faults


def test_lasting_dry_run_is_a_fault_and_one_of_a_rule_that_now_acts_is_not() -> None:
    body = {
        "metadata": {"name": "n1"},
        "spec": {
            "nodeUID": "uid-n1",
            "dryRuns": [
                {"remedier": "lasts", "faultClass": "a", "recent": [{"rung": "reboot"}]},
                {"remedier": "over", "faultClass": "b", "falseSince": "2026-11-22T02:30:00Z"},
                {"remedier": "acts", "faultClass": "c"},
            ],
        },
    }  # fmt: skip
    record = msgspec.convert(body, RecordView, strict=False)
    loaded = rules(rule("lasts", "DryRun"), rule("over", "DryRun"), rule("acts"))
    runs = current_dry_runs(record, node(), loaded)
    assert [run.remedier for run in runs] == ["lasts"]
    found = situation(node(), dry_runs=tuple(runs))
    assert [fault.name for fault in found.faults] == ["a"]
    assert not found.unattended
    other = node()
    other.metadata.uid = "another machine"
    assert not current_dry_runs(record, other, loaded)


# -- activity


def test_job_that_only_notifies_repairs_nothing_and_its_node_is_faulty() -> None:
    notifying = situation(node(), jobs=[job("Running", ladder=NOTIFY)])
    assert (notifying.repairing, len(notifying.faults)) == (False, 1)
    assert situation(node(), jobs=[job("Running")]).repairing


def test_node_of_a_rollout_is_upgraded_and_not_repaired() -> None:
    found = situation(node(), permits=[permit(Operation.ROLLOUT)])
    assert (found.upgrading, found.repairing) == (True, False)
    assert situation(node(), permits=[permit(Operation.REPAIR)]).repairing


def test_node_that_a_rollout_cordoned_is_upgraded_also_without_a_permit() -> None:
    mark = {"kubenode.io/cordoned-by": "MachineComponentSet/containerd/u1"}
    assert situation(node(unschedulable=True, annotations=mark)).upgrading
    assert not situation(node(annotations=mark)).upgrading
    ours = {"kubenode.io/cordoned-by": "n1-0a1b2c3d4e"}
    assert not situation(node(unschedulable=True, annotations=ours)).upgrading


def test_summary_counts_nodes_by_fault_and_by_activity_apart() -> None:
    loaded = rule()
    ill = node("n1", ("KernelDeadlock", "True"))
    run = DryRunView(remedier="kernel-deadlock", fault_class="kernel_deadlock")
    found = summary(
        situation(ill, loaded, jobs=[job("Running")]),
        situation(ill, loaded, jobs=[job("AwaitingPermit")]),
        situation(ill, loaded, jobs=[job("NeedsHuman")]),
        situation(ill, loaded, dry_runs=[run]),
        situation(node("n5", ready="False")),
        situation(node("n6"), permits=[permit(Operation.ROLLOUT)]),
        situation(ill, loaded, jobs=[job("Verifying", ladder=NOTIFY)]),
    )
    assert found.sentence == "6 of 7 nodes have a fault: KernelDeadlock on 5, NotReady on 1."
    assert [text for _, text in found.activities()] == [
        "1 job waits for a person",
        "1 job is held",
        "1 node is being repaired",
        "1 node would be repaired, but its rules are in DryRun",
        "1 faulty node has a job that disrupts nothing now",
        "1 faulty node has no job",
        "1 node is being upgraded",
    ]
    assert not found.calm and found.since is not None


@pytest.mark.parametrize("phase", [phase.value for phase in JobPhase])
@pytest.mark.parametrize("ladder", [None, NOTIFY])
@pytest.mark.parametrize("operation", [None, *Operation])
def test_every_faulty_node_counts_in_an_activity(
    phase: str, ladder: list[dict[str, Any]] | None, operation: Operation | None
) -> None:
    jobs = [job(phase, **({} if ladder is None else {"ladder": ladder}))]
    permits = [] if operation is None else [permit(operation)]
    for known in ({"jobs": jobs}, {}):
        found = summary(situation(node(ready="False"), permits=permits, **known))
        assert found.activities() or not found.faulty


def test_fact_about_one_node_is_no_cause() -> None:
    infer = {"fact": "node.silentTogether", "scope": "Node"}
    silent = rule("silent", infer=infer, status={"inferred": [{"group": "n1"}]})
    assert summary(situation(node(ready="False")), rules=rules(silent)).causes == ()


def test_inferred_cause_is_named_while_its_evidence_lasts() -> None:
    infer = {"fact": "zone.suspectNetworkLoss", "scope": "Zone"}
    groups = [{"group": "eu-1a"}, {"group": "eu-1b", "until": "2026-11-22T04:00:00Z"}]
    cause = rule("loss", infer=infer, status={"inferred": groups})
    found = summary(situation(node(ready="False")), rules=rules(cause), causes=["kernel 6.1"])
    assert found.causes == ("kernel 6.1", "zone.suspectNetworkLoss in eu-1a")


# -- when all is well


CALM = ProgramSight({"kubenode-remedy": 2.0}, {"n1"})


def test_all_is_well_is_said_of_a_healthy_fleet_with_leaders_and_fresh_sight() -> None:
    well = summary(situation(node()), rules=rules(rule()), programs=CALM)
    assert well.calm and well.sentence.startswith("All is well")


@pytest.mark.parametrize(
    "around",
    [
        {"stale": "nodes are not current"},
        {"programs": ProgramSight({}), "rules": rules(rule())},
        {"programs": ProgramSight({"kubenode-remedy": 61.0}), "rules": rules(rule())},
        {"agents": AgentCoverage(6, 0, ("kernel-deadlock",))},
        {"rules": rules(rule(status={"phase": "Rejected"}))},
        {
            "rollouts": {
                "containerd": msgspec.convert(some_rollouts()[1], SetRollout, strict=False)
            },
            "programs": ProgramSight({"kubenode-all": 1.0}),
        },
    ],
    ids=["stale", "no leader", "dead leader", "no agents", "rejected", "rollout stopped"],
)
def test_all_is_well_is_not_said_while_something_is_missing(around: dict[str, Any]) -> None:
    found = summary(situation(node()), **around)
    assert not found.calm and "All is well" not in found.sentence
    assert found.stale or all(notice.remedy for notice in found.notices)


def test_stale_sight_says_that_the_count_is_an_old_one() -> None:
    found = replace(summary(situation(node(ready="False"))), stale="late")
    assert found.sentence == (
        "1 of 1 nodes had a fault when last read; the view of the cluster is not current."
    )


def test_rollout_that_a_person_paused_has_not_stopped() -> None:
    why = {"type": "Paused", "status": "True", "reason": "User", "message": "spec.paused"}
    paused = a_rollout("a", "a-1", "Paused", conditions=[why])
    made = msgspec.convert(paused, SetRollout, strict=False)
    assert summary(situation(node()), rollouts={"a": made}).calm


# -- programs and agents


def test_machine_operator_ought_to_run_where_there_are_machines_or_component_sets() -> None:
    led = ProgramSight({"kubenode-remedy": 1.0})
    assert find_leaderless(led, [rule()], 0) == ()
    assert find_leaderless(led, [], 1) == ("kubenode-machine",)
    assert find_leaderless(replace(led, machines=True), [], 0) == ("kubenode-machine",)
    assert find_leaderless(ProgramSight(), [rule()], 1) == (), "nothing was read"
    everything = ProgramSight({"kubenode-all": 1.0}, machines=True)
    assert find_leaderless(everything, [rule()], 1) == ()


def test_rule_needs_an_agent_for_its_steps_and_probes_where_it_selects_nodes() -> None:
    assert needs_agent(rule())
    assert not needs_agent(rule(ladder=NOTIFY))
    assert needs_agent(rule(ladder=NOTIFY, unless={"probe": {"name": "host.agent"}}))
    assert not needs_agent(rule(ladder=NOTIFY, unless={"probe": {"name": "ready.gang_pods"}}))
    assert not needs_agent(rule(status={"wouldReach": {"nodes": 0}}))


def test_agents_are_counted_by_the_names_that_nodes_would_have() -> None:
    sight = ProgramSight(agents={"m1", "n2"})
    covered = cover_agents(sight, ["m1", "n2", "n3"], [rule()])
    assert (covered.nodes, covered.with_agent, covered.rules) == (3, 2, ("kernel-deadlock",))
    assert covered.lacks
    assert not cover_agents(ProgramSight(), ["n1"], [rule()]).lacks, "nothing was read"
