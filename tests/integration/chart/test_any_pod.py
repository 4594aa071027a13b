"""Any pod: an account without a right of ours, and a caller without a credential.

Real kube-apiserver with the roles and policies of the chart. The ports are tested in
tests/integration/robustness/test_ports_without_credential.py.
"""

from collections.abc import Iterator

import pytest
from support.agent_jobs import Anonymous, Bearer, Caller
from support.chart_rights import ChartRights
from support.control_plane import ControlPlane
from support.own_requests import (
    OBJECT,
    cluster_rights,
    own_requests,
    own_rights,
    rights_in_own_namespaces,
)
from support.rights import wrong

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

ACCOUNT = "any-pod"
POD = f"system:serviceaccount:default:{ACCOUNT}"
POD_GROUPS = ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
SUBJECTS = {
    "pod": (POD, POD_GROUPS),
    "pod of kubenode-system": (
        "system:serviceaccount:kubenode-system:default",
        (
            "system:serviceaccounts",
            "system:serviceaccounts:kubenode-system",
            "system:authenticated",
        ),
    ),
    "authenticated": ("somebody", ("system:authenticated",)),
    "unauthenticated": ("system:anonymous", ("system:unauthenticated",)),
}


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    with ChartRights(control_plane):
        control_plane.kubectl("create", "serviceaccount", ACCOUNT, "-n", "default")
        yield control_plane
        control_plane.kubectl("delete", "serviceaccount", ACCOUNT, "-n", "default")


def token(cluster: ControlPlane, *flags: str) -> str:
    return cluster.kubectl("create", "token", ACCOUNT, "-n", "default", *flags).stdout.strip()


@pytest.fixture(scope="module")
def callers(cluster: ControlPlane) -> dict[str, tuple[Caller, int]]:
    """Each caller, and the HTTP status of a refusal."""
    return {
        "pod": (Bearer(cluster, token(cluster)), 403),
        "authenticated": (Caller(cluster, "somebody", []), 403),
        "unauthenticated": (Anonymous(cluster), 403),
        "token of another audience": (Bearer(cluster, token(cluster, "--audience=other")), 401),
        "made-up token": (Bearer(cluster, "made-up"), 401),
    }


@pytest.mark.parametrize(
    "who",
    ["pod", "authenticated", "unauthenticated", "token of another audience", "made-up token"],
)
def test_every_verb_on_every_resource_is_refused(
    callers: dict[str, tuple[Caller, int]], cluster: ControlPlane, who: str
) -> None:
    caller, refusal = callers[who]
    answers = {
        str(request): caller.ask(request.method, request.path, request.body)[0]
        for request in own_requests(cluster)
    }
    assert len(answers) > 100
    assert {name: code for name, code in answers.items() if code != refusal} == {}


@pytest.mark.parametrize("who", SUBJECTS)
def test_no_role_of_the_chart_reaches_any_pod(cluster: ControlPlane, who: str) -> None:
    user, groups = SUBJECTS[who]
    rights = own_rights()
    assert ("create", "kubenode.io", "permits/ask", "", OBJECT) in rights
    assert ("download", "kubenode.io", "bundles", "", OBJECT) in rights
    assert wrong(cluster, user, [], rights, groups) == []


@pytest.mark.parametrize("who", SUBJECTS)
def test_any_pod_has_no_right_in_the_namespaces_of_kubenode(
    cluster: ControlPlane, who: str
) -> None:
    user, groups = SUBJECTS[who]
    rights = [*rights_in_own_namespaces(), *cluster_rights()]
    assert wrong(cluster, user, [], rights, groups) == []
