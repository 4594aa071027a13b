"""`kubenode status`: faults first, then what is done, what waits, and what to do."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from support.dashboard_world import a_job, a_node, a_rollout, a_rule, condition, now

from defender.dashboard.rollout import SetRollout
from defender.dashboard.rule import RuleView
from defender.decision.jobs import ObservedJob
from defender.decision.policies import read_policy
from kubenode.cli.defender_objects import DefenderObjects
from kubenode.cli.fleet_state import FleetState
from kubenode.cli.status import as_data, fleet_status, lines
from kubenode.runtime.kube.objects import Node

LED = {"kubenode-all": 2.0}
DEFENDER_GONE = "Kube Defender has no leader"
REMEDY_GONE = "The Remedy operator has no leader"
LONG_AGO = "2026-01-01T00:00:00Z"


def node(name: str, *faults: str) -> Node:
    body = a_node(name)
    body["metadata"] |= {"creationTimestamp": LONG_AGO, "uid": f"uid-{name}"}
    body["status"]["conditions"] += [condition(t, "True", "Why", "", 600.0) for t in faults]
    return msgspec.convert(body, Node, strict=False)


def rule(name: str = "kernel-deadlock") -> RuleView:
    return msgspec.convert(a_rule(name), RuleView, strict=False)


def job(name: str, phase: str, node_name: str = "n1", **given: Any) -> ObservedJob:
    body = a_job(node_name, phase, **given)
    body["metadata"]["name"] = name
    return msgspec.convert(body, ObservedJob, strict=False)


def policy(**status: Any) -> Any:
    body = {
        "metadata": {"name": "default"},
        "spec": {"nodes": {"all": True}, "limits": [{"scope": "Cluster", "maxConcurrent": 1}]},
        "status": status,
    }
    return read_policy(msgspec.json.encode(body))


def state(
    nodes: Sequence[Node],
    jobs: Sequence[ObservedJob] = (),
    policies: Sequence[Any] = (),
    **more: Any,
) -> FleetState:
    by_name = {each.metadata.name: each for each in nodes}
    objects = DefenderObjects(by_name, list(policies), (), list(jobs))
    given: Mapping[str, Any] = {"leases": LED, "agents": frozenset(by_name)} | more
    return FleetState(now(), objects, **given)


def text(of: FleetState, *, wide: bool = False) -> str:
    return "\n".join(lines(fleet_status(of), wide=wide))


RULES = {"kernel-deadlock": rule()}


def test_a_healthy_fleet_with_all_programs_is_all_well() -> None:
    calm = fleet_status(state([node("n1")], rules=RULES))
    assert calm.calm
    assert lines(calm, wide=False) == ["All is well: no node has a fault, and nothing waits."]


def test_nodes_with_a_fault_come_first_with_what_is_done() -> None:
    shown = text(state([node("n1", "KernelDeadlock"), node("n2")], rules=RULES))
    assert shown.startswith("1 of 2 nodes has a fault: KernelDeadlock on 1.")
    assert "1 faulty node has no job" in shown
    (row,) = [line.split() for line in shown.splitlines() if line.startswith("n1 ")]
    assert row[:2] == ["n1", "KernelDeadlock"] and row[3:] == ["has", "no", "job"]


def test_jobs_that_need_a_person_come_before_those_that_wait_for_approval() -> None:
    jobs = [job("a", "AwaitingApproval"), job("b", "NeedsHuman", "n2")]
    status = fleet_status(state([node("n1"), node("n2")], jobs, rules=RULES))
    rows = as_data(status)["forPeople"]
    assert [(row["job"], row["do"]) for row in rows] == [
        ("b", "kubenode explain job b"),
        ("a", "kubenode approve a"),
    ]
    assert not status.calm


def test_held_jobs_are_counted_by_reason() -> None:
    hold = ("BreakerOpen", "zone=a", "5 of 9")
    jobs = [job(f"j{n}", "AwaitingPermit", f"n{n}", hold=hold) for n in range(3)]
    status = fleet_status(state([node(f"n{n}") for n in range(3)], jobs, rules=RULES))
    assert as_data(status)["held"] == [{"reason": "BreakerOpen", "scope": "zone=a", "jobs": 3}]


@pytest.mark.parametrize(
    ("leases", "missing"),
    [
        ({"kubenode-all": 2.0}, set()),
        (
            {"kubenode-all": 900.0},
            {"Kube Defender has no leader", "The Remedy operator has no leader"},
        ),
        ({"kubenode-defender": 2.0}, {"The Remedy operator has no leader"}),
        ({"kubenode-remedy": 2.0}, {"Kube Defender has no leader"}),
    ],
)
def test_a_program_without_a_leader_is_named_and_all_is_not_well(
    leases: dict[str, float], missing: set[str]
) -> None:
    status = fleet_status(state([node("n1")], rules=RULES, leases=leases))
    assert {notice.title for notice in status.notices} == missing
    assert status.calm is not bool(missing)
    assert ("All is well" in status.sentence) is not bool(missing)


def test_a_stopped_rollout_says_what_to_do() -> None:
    stopped = msgspec.convert(
        a_rollout("runtime", "containerd", "RollingBack"), SetRollout, strict=False
    )
    shown = text(state([node("n1")], rules=RULES, rollouts={"runtime": stopped}))
    assert "Rollout of runtime has stopped" in shown
    assert "kubenode component resume runtime" in shown
    assert "All is well" not in shown


def test_an_open_breaker_is_read_from_the_policy_and_not_computed_again() -> None:
    breaker = {
        "scope": "zone=a",
        "state": "Open",
        "since": "2026-11-22T03:00:00Z",
        "why": "5 of 9 nodes failed within 10m",
    }
    shown = text(state([node("n1")], policies=[policy(breaker=[breaker])], rules=RULES))
    assert "Breaker of zone=a is Open since 2026-11-22T03:00:00" in shown
    assert "5 of 9 nodes failed within 10m" in shown
    assert shown.startswith("No node has a fault.")


def test_what_could_not_be_read_is_no_calm() -> None:
    status = fleet_status(replace(state([node("n1")], rules=RULES), gaps=("leases: forbidden",)))
    assert not status.calm
    assert "kubenode-viewer" in "\n".join(lines(status, wide=False))


def test_long_tables_are_cut_unless_wide() -> None:
    many = state([node(f"n{n}", "KernelDeadlock") for n in range(30)], rules=RULES)
    assert "… and 10 more (-o wide)" in text(many)
    assert "more (-o wide)" not in text(many, wide=True)
