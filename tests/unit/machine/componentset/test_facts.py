"""What a set makes of a Machine, its Node and its agent's words."""

from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinecomponentset import UpdateStrategy
from kubenode.runtime.components.wire import WireConditionWanted
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeCondition, NodeSpec, NodeStatus
from machine.componentset.facts import START_WITHIN, MachineSurroundings, SetView, member_of
from machine.componentset.member import MemberState, RolloutMember

OLD, NEW = "1-0000000001", "1-0000000002"


def a_node(ready: str = "True", cordoned: bool = False, **conditions: str) -> Node:
    said = {"Ready": ready, **conditions}
    return Node(
        KubeObjectMeta(name="m1"),
        NodeSpec(unschedulable=cordoned),
        NodeStatus(conditions=[NodeCondition(type=t, status=s) for t, s in said.items()]),
    )


def member(
    status: dict[str, Any] | None,
    around: MachineSurroundings | None = None,
    *,
    entry: dict[str, Any] | None = None,
    node: str = "Expected",
    **rest: Any,
) -> RolloutMember:
    assigned = {
        "name": "c",
        "component": "c-2",
        "set": "s",
        "revision": NEW,
        "configHash": NEW,
        "assignedAt": T0.isoformat(),
        **(entry or {}),
    }
    spec = {"addresses": ["10.0.0.1"], "node": node, "components": [assigned], **rest}
    echo = {"name": "c", "revision": NEW, "attempt": 1, "configHash": NEW}
    body = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": "m1", "uid": "u"},
        "spec": spec,
        "status": {
            "components": [{**echo, **status}] if status is not None else [],
            "nodeRef": {"name": "m1"},
        },
    }
    checks = {"c-2": [WireConditionWanted(type="Net")]} if rest.get("mode") else {}
    view = SetView("s", "c", UpdateStrategy(), checks=checks)
    return member_of(
        Machine.model_validate(body), around or MachineSurroundings(a_node(), True), view
    )


def test_f31_a_healthy_old_revision_is_no_success_of_the_new_one() -> None:
    assert member({"state": "Healthy", "revision": OLD}).standing is MemberState.PENDING
    assert member({"state": "Healthy", "attempt": 2}).standing is MemberState.PENDING
    assert member({"state": "Healthy", "configHash": OLD}).standing is MemberState.PENDING
    assert member({"state": "Healthy"}).standing is MemberState.SUCCEEDED


def test_a_machine_whose_kubelet_is_a_component_disturbs_nobody_until_it_is_initialized() -> None:
    assert member(None, node="Join").newcomer
    assert not member(None, node="Expected").newcomer
    assert not member(None, node="None").newcomer


@pytest.mark.parametrize(
    "around",
    [
        MachineSurroundings(a_node(), False),
        MachineSurroundings(a_node("False"), True),
        MachineSurroundings(None, True),
    ],
)
def test_success_needs_a_live_agent_and_a_ready_node(around: MachineSurroundings) -> None:
    found = member({"state": "Healthy"}, around)
    assert found.standing is MemberState.UNWELL and not found.available


def test_a_machine_outside_kubernetes_needs_no_node() -> None:
    found = member({"state": "Healthy"}, MachineSurroundings(None, True), node="None")
    assert found.standing is MemberState.SUCCEEDED and found.available


def test_conditions_of_the_node_belong_to_the_health_of_a_component() -> None:
    lacking = member({"state": "Healthy"}, mode="Manage")
    assert lacking.standing is MemberState.UNWELL
    good = MachineSurroundings(a_node(Net="True"), True)
    assert member({"state": "Healthy"}, good, mode="Manage").standing is MemberState.SUCCEEDED


def test_a_cordoned_node_is_out_of_service() -> None:
    assert not member(
        {"state": "Healthy"}, MachineSurroundings(a_node(cordoned=True), True)
    ).available


@pytest.mark.parametrize("state", ["Failed", "RolledBack", "Unhealthy", "DriftFight"])
def test_every_end_without_success_is_a_failure(state: str) -> None:
    found = member({"state": state, "reason": "HealthFailed"})
    assert found.standing is MemberState.FAILED and "HealthFailed" in found.why
    assert found.broken is (state != "RolledBack")


def test_waiting_takes_no_time_and_a_dead_agent_waits_for_nothing() -> None:
    waits = {"state": "Staged", "needs": "Drain"}
    found = member(waits)
    assert found.standing is MemberState.WAITING and found.since is None
    dead = member(waits, MachineSurroundings(a_node(), False))
    assert dead.standing is MemberState.PENDING and dead.since == T0


def test_time_runs_from_the_permit() -> None:
    given = T0 + timedelta(hours=3)
    permit = {
        "name": "p",
        "components": ["c"],
        "maxDisruption": "Drain",
        "startBefore": (given + START_WITHIN).isoformat(),
    }
    found = member({"state": "Staged", "needs": "Drain"}, permit=permit)
    assert found.standing is MemberState.ACTING and found.since == given


def test_a_reboot_gets_more_time() -> None:
    permit = {
        "name": "p",
        "components": ["c"],
        "maxDisruption": "Reboot",
        "startBefore": T0.isoformat(),
    }
    plain, reboots = member({"state": "Applying"}), member({"state": "Applying"}, permit=permit)
    assert reboots.patience == plain.patience + timedelta(minutes=10)


def test_mild_changes_need_no_permit() -> None:
    assert member({"state": "Staged", "needs": "Reload"}).standing is MemberState.PENDING


def test_what_is_only_downloaded_is_ahead() -> None:
    entry = {"desiredState": "Staged"}
    assert member({"state": "Staged"}, entry=entry).standing is MemberState.AHEAD


def test_drift_is_told_from_a_change() -> None:
    drifts = member({"state": "Drifted", "needs": "Restart"})
    assert drifts.standing is MemberState.WAITING and drifts.drift and not drifts.down
    assert member({"state": "Drifted"}).standing is MemberState.DRIFTED


def test_nothing_reported_is_fresh() -> None:
    assert member(None).fresh and not member({"state": "Healthy", "version": "1"}).fresh
