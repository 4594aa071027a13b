"""What the credential of each program of the chart may do: every verb on every resource.

A real API server lists the resources and resolves the rights of each service account. The rights
are those that the chart's roles state, none by another group or wildcard; those that lead to an
administrator are given to nobody.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from support.chart_values import EVERYTHING
from support.control_plane import ControlPlane
from support.helm import Helm
from support.used_rights import Right, given

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

ROLES = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
NAMESPACES = ("kubenode-system", "kubenode-agents", "kubenode-components", "kubenode-members",
              "kube-system", "kube-node-lease", "default")  # fmt: skip
ACCOUNTS = (
    "kubenode-system/kubenode-remedy",
    "kubenode-system/kubenode-defender",
    "kubenode-system/kubenode-machine",
    "kubenode-system/kubenode-captain",
    "kubenode-system/kubenode-crds",
    "kubenode-system/kubenode-rules",
    "kubenode-system/kubenode-autoscaler",
    "kubenode-agents/kubenode-agent",
)
ADMINISTRATOR = {
    "clusterroles": ("escalate", "bind", "create", "update", "patch"),
    "roles": ("escalate", "bind"),
    "clusterrolebindings": ("create", "update", "patch"),
    "users": ("impersonate",),
    "groups": ("impersonate",),
    "serviceaccounts": ("impersonate",),
    "serviceaccounts/token": ("create",),
    "secrets": ("list", "watch"),
    "pods": ("create",),
    "pods/exec": ("create", "get"),
    "nodes/proxy": ("create", "get"),
    "deployments": ("create", "update"),
    "daemonsets": ("create", "update", "patch"),
    "customresourcedefinitions": ("update", "patch"),
    "validatingadmissionpolicies": ("update", "patch", "delete"),
    "validatingadmissionpolicybindings": ("update", "patch", "delete"),
    "validatingwebhookconfigurations": ("update", "patch", "delete"),
    "mutatingwebhookconfigurations": ("update", "patch", "delete"),
}
"""Verbs by resource, of any group, in any namespace."""

DOCUMENTED = {
    ("kubenode-system/kubenode-captain", "list", "secrets", "kubenode-members"),
    ("kubenode-system/kubenode-captain", "watch", "secrets", "kubenode-members"),
    *(("kubenode-system/kubenode-crds", "update", "customresourcedefinitions", namespace)
      for namespace in NAMESPACES),
}  # fmt: skip
"""Such rights that docs/security.md explains: account, verb, resource, namespace."""


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Roles and bindings of the chart with every program."""
    objects = Helm(tmp_path_factory.mktemp("helm")).rendered(EVERYTHING)
    return [found for found in objects if found["kind"] in ROLES]


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane, chart: list[dict[str, Any]]) -> Iterator[ControlPlane]:
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in NAMESPACES
        if name.startswith("kubenode-")
    ]
    own = ("apply", "--server-side", "--field-manager=every-right", "-f", "-")
    control_plane.kubectl(*own, stdin=as_list(spaces))
    control_plane.kubectl("apply", "-f", "-", stdin=as_list(chart))
    yield control_plane
    control_plane.kubectl("delete", "-f", "-", "--ignore-not-found", stdin=as_list(chart))


def as_list(objects: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def test_every_program_of_the_chart_is_listed_here(chart: list[dict[str, Any]]) -> None:
    assert {right.account for right in given(chart)} == {*ACCOUNTS}


@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_program_has_the_rights_of_its_roles_and_no_other(
    cluster: ControlPlane, chart: list[dict[str, Any]], account: str
) -> None:
    stated = {right for right in given(chart) if right.account == account}
    assert stated
    for namespace in NAMESPACES:
        here = {r for r in stated if r.namespace in ("", namespace)}
        expected = {replace(right, namespace="") for right in here}
        other = resolved(cluster, "default/any-pod", namespace)
        extra = {replace(right, account=account) for right in other}
        assert resolved(cluster, account, namespace) - extra == expected - extra, namespace


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_program_may_make_itself_an_administrator(cluster: ControlPlane, account: str) -> None:
    for namespace in NAMESPACES:
        rights = resolved(cluster, account, namespace)
        broad = {r for r in rights if "*" in (r.verb, r.resource, r.group)}
        assert not broad, namespace
        dangerous = {
            (account, right.verb, right.resource, namespace)
            for right in rights
            if right.verb in ADMINISTRATOR.get(right.resource, ())
        }
        assert dangerous <= DOCUMENTED


def test_what_the_hook_of_an_upgrade_updates_is_named(chart: list[dict[str, Any]]) -> None:
    updates = [
        right
        for right in given(chart)
        if (right.verb, right.resource) == ("update", "customresourcedefinitions")
    ]
    assert updates
    assert all(name.endswith(".kubenode.io") for right in updates for name in right.names)
    assert all(right.names for right in updates)


@cache
def resolved(cluster: ControlPlane, account: str, namespace: str) -> set[Right]:
    """Rights of an account in a namespace, by the API server. `Right.namespace` is ""."""
    space, _, name = account.partition("/")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{space}", "system:authenticated")
    impersonation = [f"--as-group={group}" for group in groups]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    words = (
        "create",
        "--validate=false",
        "-f",
        "-",
        "-o",
        "json",
        f"--as=system:serviceaccount:{space}:{name}",
    )
    status = json.loads(cluster.kubectl(*words, *impersonation, stdin=json.dumps(review)).stdout)
    rules = status["status"]
    assert rules["incomplete"] is False
    return {
        Right(account, group, resource, verb, "", tuple(sorted(rule.get("resourceNames", ()))))
        for rule in rules["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
