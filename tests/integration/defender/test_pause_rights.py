"""Who may pause changes spec.pauses of a DefenderPolicy and nothing else (finding 18)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.chart_rights import ChartRights, account
from support.control_plane import ControlPlane
from support.defender_objects import policy_object

from kubenode.api.v1alpha1 import default_policy

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

POLICIES = "/apis/kubenode.io/v1alpha1/defenderpolicies"
POLICY = f"{POLICIES}/default"
OPERATOR, EDITOR, PATCHER = "olga", "edgar", "paula"
"""Roles kubenode-operator, kubenode-policy-editor, and one with every verb on the resource."""
PAUSE = {"scope": "Cluster", "by": "olga", "why": "storage moves"}
LIFTED: dict[str, dict[str, Any]] = {
    "limits": {"spec": {"limits": [], "acknowledgeUnlimited": True}},
    "a wider limit": {"spec": {"limits": [{"scope": "Cluster", "maxConcurrent": "100%"}]}},
    "a breaker": {"spec": {"breaker": {"reserved": 9}}},
    "other nodes": {"spec": {"nodes": {"all": None, "selector": {"matchLabels": {"a": "b"}}}}},
    "a workload": {"spec": {"workload": {"respectPDB": False}}},
    "guard": {"spec": {"guard": {"deletions": "Off"}}},
    "exclude": {"spec": {"exclude": {"matchLabels": {"x": "y"}}}},
    "a pause and limits": {
        "spec": {"pauses": [PAUSE], "limits": [{"scope": "Cluster", "maxConcurrent": 100}]}
    },
    "an owner that is missing": {
        "metadata": {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "00000000-0000"}
            ]
        }
    },
    "a finalizer": {"metadata": {"finalizers": ["example.com/stay"]}},
    "a label": {"metadata": {"labels": {"a": "b"}}},
}


@pytest.fixture(scope="module")
def rights(control_plane: ControlPlane) -> Iterator[ChartRights]:
    everything = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "patches-policies"},
        "rules": [
            {"apiGroups": ["kubenode.io"], "resources": ["defenderpolicies"], "verbs": ["*"]}
        ],
    }
    roles = {
        OPERATOR: "kubenode-operator",
        EDITOR: "kubenode-policy-editor",
        PATCHER: "patches-policies",
    }
    with ChartRights(control_plane) as rights:
        control_plane.kubectl("create", "-f", "-", stdin=json.dumps(everything))
        control_plane.kubectl("delete", "defenderpolicies", "--all")
        control_plane.kubectl("create", "-f", "-", stdin=json.dumps(policy_object()))
        for user, role in roles.items():
            rights.bind(user, role)
        try:
            rights.wait_until_refused(PATCHER, "PATCH", POLICY, LIFTED["a wider limit"])
            rights.wait_until_refused(OPERATOR, "PATCH", POLICY, LIFTED["a wider limit"])
            yield rights
        finally:
            for user, role in roles.items():
                rights.unbind(user, role)
            control_plane.kubectl("delete", "clusterrole", "patches-policies")
            control_plane.kubectl("delete", "defenderpolicies", "--all")


@pytest.mark.parametrize("user", [OPERATOR, PATCHER])
@pytest.mark.parametrize("change", LIFTED)
def test_the_right_to_pause_changes_nothing_but_pauses(
    rights: ChartRights, user: str, change: str
) -> None:
    refusal = rights.send(user, "PATCH", POLICY, LIFTED[change])
    assert "spec.pauses" in refusal
    assert "defenderpolicies/limits" in refusal


@pytest.mark.parametrize("user", [OPERATOR, PATCHER, EDITOR])
def test_each_of_them_pauses_and_resumes(rights: ChartRights, user: str) -> None:
    assert rights.send(user, "PATCH", POLICY, {"spec": {"pauses": [PAUSE]}}) == ""
    assert rights.cp.get(POLICY)["spec"]["pauses"][0]["why"] == PAUSE["why"]
    assert rights.send(user, "PATCH", POLICY, {"spec": {"pauses": []}}) == ""


def test_the_editor_changes_limits(rights: ChartRights) -> None:
    for change in ("a wider limit", "guard", "a label"):
        assert rights.send(EDITOR, "PATCH", POLICY, LIFTED[change], dry_run=True) == ""


def test_only_an_editor_creates_a_policy(rights: ChartRights) -> None:
    unlimited = policy_object("wide", limits=[], acknowledgeUnlimited=True)
    assert "create" in rights.send(OPERATOR, "POST", POLICIES, unlimited)
    assert "defenderpolicies/limits" in rights.send(PATCHER, "POST", POLICIES, unlimited)
    assert rights.send(EDITOR, "POST", POLICIES, unlimited, dry_run=True) == ""


def test_kube_defender_creates_the_default_policy_alone(rights: ChartRights) -> None:
    defender = account("kubenode-defender")
    body = default_policy().to_dict()
    rights.cp.kubectl("delete", "defenderpolicies", "--all")
    assert rights.send(defender, "POST", POLICIES, body, dry_run=True) == ""
    other = {**body, "metadata": {"name": "other"}}
    assert "defenderpolicies/limits" in rights.send(defender, "POST", POLICIES, other)
    rights.cp.kubectl("create", "-f", "-", stdin=json.dumps(policy_object()))
