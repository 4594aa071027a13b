"""A ladder and a case's facts in the words of the other: actions, classes, answers of probes."""

from typing import Any

import pytest

from kubenode.api.v1alpha1 import NodeRemedier
from simulation.cases.actions import plan, repair_class
from simulation.cases.answers import answers
from simulation.cases.form import Case
from simulation.cases.limits import policy_of
from simulation.cases.setting import setting

from .test_case_form import CASE

CORDON: dict[str, Any] = {"cordon": {}}
DRAIN: dict[str, Any] = {"migrate": {}}
ASK: dict[str, Any] = {"waitForApproval": {}}
REBOOT: dict[str, Any] = {"reboot": {}}
TELL: dict[str, Any] = {"notify": {}}


def agent(action: str, **more: Any) -> dict[str, Any]:
    return {"agent": {"action": action, **more}}


def rule(*rungs: list[dict[str, Any]], gives_up: str = "Hold") -> NodeRemedier:
    ladder = [{"name": f"r{n}", "steps": steps} for n, steps in enumerate(rungs)]
    return NodeRemedier.from_user(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "NodeRemedier",
            "metadata": {"name": "r"},
            "spec": {
                "mode": "Enforce",
                "nodes": {"all": True},
                "when": {"condition": {"type": "KernelDeadlock"}},
                "onGiveUp": gives_up,
                "ladder": ladder,
            },
        }
    )


@pytest.mark.parametrize(
    ("rungs", "gives_up", "expected"),
    [
        ([[TELL]], "Hold", "notify_only"),
        ([[{"waitForEvent": {"until": ["Completed"]}}], [TELL]], "Release", "none_observe"),
        ([[{"collect": {}}, agent("RunCheck", check="x")]], "Hold", "notify_only"),
        ([[agent("RestartUnit", unit="kubelet.service")]], "Hold", "restart_service"),
        ([[agent("DeleteSandbox")]], "Hold", "delete_sandbox"),
        ([[agent("CleanDisk", params={"target": "journal"})]], "Hold", "clean_disk"),
        ([[agent("SetSysctl")]], "Hold", "tune_sysctl"),
        ([[CORDON]], "Hold", "cordon_wait_human"),
        ([[CORDON]], "Release", "cordon_only"),
        ([[CORDON, ASK, REBOOT]], "Hold", "cordon_wait_human"),
        ([[CORDON, DRAIN]], "Hold", "cordon_drain_wait_human"),
        ([[CORDON, DRAIN]], "Release", "evict_drain"),
        ([[CORDON, DRAIN], [REBOOT]], "Hold", "evict_drain"),
        ([[CORDON, DRAIN], [ASK, REBOOT]], "Release", "cordon_drain_wait_human"),
        ([[CORDON, DRAIN, REBOOT]], "Hold", "cordon_drain_reboot"),
        ([[CORDON, DRAIN, agent("ResetGPU")]], "Hold", "gpu_reset"),
        ([[CORDON, DRAIN, {"replace": {}}]], "Hold", "cordon_drain_replace"),
        ([[CORDON, {"powerOff": {}}, {"fence": {}}]], "Hold", "fence_out_of_service"),
        ([[{"uncordon": {}}]], "Hold", "uncordon_after_event"),
        ([[{"createObject": {"template": "x"}}]], "Hold", "cordon_drain_replace"),
    ],
)
def test_the_first_rung_names_the_class(
    rungs: list[list[dict[str, Any]]], gives_up: str, expected: str
) -> None:
    assert repair_class(rule(*rungs, gives_up=gives_up)) == expected


def test_a_job_that_starts_higher_has_the_class_of_that_rung() -> None:
    ladder = rule([agent("RestartUnit", unit="kubelet.service")], [CORDON, DRAIN, REBOOT])
    assert repair_class(ladder, 1) == "cordon_drain_reboot"
    assert plan(ladder, 1)[:2] == ["cordon", "drain"]


def test_a_plan_is_the_whole_ladder_and_ends_with_a_person_or_the_cordon_off() -> None:
    ladder = ([TELL, CORDON, DRAIN], [REBOOT])
    words = ["notify", "cordon", "drain", "reboot_os", "reboot_api"]
    assert plan(rule(*ladder)) == [*words, "wait_human"]
    assert plan(rule(*ladder, gives_up="Release")) == [*words, "uncordon"]


@pytest.mark.parametrize(
    ("unit", "word"),
    [
        ("kubelet.service", "restart_kubelet"),
        ("containerd.service", "restart_runtime"),
        ("chronyd.service", "restart_time_sync"),
        ("systemd-timesyncd.service", "restart_time_sync"),
        ("nvidia-fabricmanager.service", "restart_fabric_manager"),
        ("sshd.service", "restart_service"),
    ],
)
def test_a_restart_is_called_by_what_it_restarts(unit: str, word: str) -> None:
    assert plan(rule([agent("RestartUnit", unit=unit)]))[0] == word


def test_deleting_pods_after_a_drain_is_told() -> None:
    assert "delete_pod" in plan(rule([CORDON, {"migrate": {"onTimeout": "Delete"}}]))


def case(**changes: Any) -> Case:
    return Case.model_validate({**CASE, **changes})


def test_facts_become_answers_and_what_is_not_said_stays_unknown() -> None:
    found = answers(
        case(
            facts={
                "agent": "alive",
                "clock_offset_s": -3.5,
                "units": {"sshd": "failed", "ntpd": "failed", "chronyd": "active"},
                "device_role": {"sda": "root", "sdb": "data_volume"},
                "restarts": [{"unit": "containerd", "count": 4, "window_s": 1200}],
                "workloads": [{"kind": "MPIJob", "gang": True, "checkpoint_age_s": 90}],
            }
        )
    )
    assert found == {
        "host.agent": "alive",
        "host.time_unit": "active",
        "clock.offset_s": 3.5,
        "ready.status": "False",
        "ready.gang_pods": True,
        "disk.data_volumes": True,
    }


@pytest.mark.parametrize(
    ("facts", "answer"),
    [
        ({"runtime_state": "failed_after_restart"}, {"host.runtime_state": "error"}),
        ({"pods_stuck_terminating": 2}, {"ready.pods_stuck_terminating": 2}),
        ({"stuck_s": 900}, {"ready.oldest_pending_s": 900.0}),
        ({"device_role": {"sda": "root"}}, {"disk.data_volumes": False}),
        ({"nodes_same_fault": 40, "recent_change": True, "nfs_server": "10.0.0.1"}, {}),
        ({"pid_top_owner": "workload", "attached_node": "b"}, {}),
    ],
)
def test_case_answers_only_what_a_program_of_production_answers(
    facts: dict[str, Any], answer: dict[str, Any]
) -> None:
    found = answers(case(facts=facts))
    del found["ready.status"]
    assert found == answer


def test_nodes_of_the_same_fault_are_there_in_the_same_state() -> None:
    signal = {**CASE["signals"][0], "held_s": 600}
    made = setting(case(signals=[signal], facts={"nodes_same_fault": 12}))
    sick = [look for look in made.snapshots.values() if look.conditions]
    assert len(sick) == 12
    assert len(made.snapshots) == 24


def test_a_condition_that_began_within_the_story_begins_there() -> None:
    history = {**CASE["signals"][0], "at_s": -900, "status": "True"}
    now = {**CASE["signals"][0], "held_s": 300}
    made = setting(case(signals=[history, now]))
    assert [c.status for c in made.snapshots["a"].conditions] == ["True"]
    assert [entry.at for entry in made.entries if entry.condition] == [
        made.start.replace(minute=55, second=30)
    ]


def test_an_event_grows_over_its_window() -> None:
    event = {"signal": "event", "node": "a", "at_s": 0, "reason": "X", "count": 5, "window_s": 400}
    made = setting(case(signals=[event]))
    counts = [entry.event.count for entry in made.entries if entry.event is not None]
    assert counts == [1, 2, 3, 4, 5]


def test_limits_of_a_case_become_a_policy() -> None:
    assert policy_of(case()) is None
    found = policy_of(case(policy={"max_repairs_per_hour": 3, "min_healthy": 11}))
    assert found is not None
    limits = [limit.to_dict() for limit in found.spec.limits]
    assert any(limit.get("minHealthy") == 11 for limit in limits)
    assert any(limit.get("rate", {}).get("count") == 3 for limit in limits)
