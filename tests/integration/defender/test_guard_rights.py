"""What the chart lets Kube Defender do, and who may ask it, asked of a real API server."""

from collections.abc import Iterator

import pytest
from support.control_plane import ControlPlane
from support.guard_plane import ACCOUNT, REMEDY, SYSTEM, GuardPlane
from support.rights import wrong

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

OURS = "kubenode.io"
HOOKS = "validatingwebhookconfigurations"
MAY = [
    ("watch", OURS, "permits", "", ""),
    ("create", OURS, "permits", "", ""),
    ("patch", OURS, "permits", "", "any"),
    ("patch", OURS, "permits/status", "", "any"),
    ("delete", OURS, "permits", "", "any"),
    ("watch", OURS, "defenderpolicies", "", ""),
    ("create", OURS, "defenderpolicies", "", ""),
    ("patch", OURS, "defenderpolicies/status", "", "any"),
    ("watch", OURS, "remedyoperationjobs", "", ""),
    ("list", OURS, "noderemediers", "", ""),
    ("watch", "", "nodes", "", ""),
    ("get", "", "pods", "shop", "any"),
    ("list", "policy", "poddisruptionbudgets", "", ""),
    ("create", "authentication.k8s.io", "tokenreviews", "", ""),
    ("create", "authorization.k8s.io", "subjectaccessreviews", "", ""),
    ("create", "coordination.k8s.io", "leases", SYSTEM, ""),
    ("update", "coordination.k8s.io", "leases", SYSTEM, "kubenode-defender"),
    ("update", "coordination.k8s.io", "leases", SYSTEM, "kubenode-defender-store"),
    ("update", "coordination.k8s.io", "leases", SYSTEM, "kubenode-defender-fleet"),
    ("create", "", "configmaps", SYSTEM, ""),
    ("patch", "", "configmaps", SYSTEM, "kubenode-lineage"),
    ("patch", "", "configmaps", SYSTEM, "kubenode-dashboard-signouts"),
    ("get", "", "secrets", SYSTEM, "kubenode-defender"),
    ("patch", "", "secrets", SYSTEM, "kubenode-defender"),
    ("patch", "admissionregistration.k8s.io", HOOKS, "", "kubenode-defender"),
    ("create", "", "events", "default", ""),
    ("get", "", "namespaces", "", "kube-system"),
    ("patch", "discovery.k8s.io", "endpointslices", SYSTEM, "kubenode-defender-ipv4"),
]
MAY_NOT = [
    ("delete", "", "nodes", "", "any"),
    ("patch", "", "nodes", "", "any"),
    ("create", "", "pods/eviction", "shop", "any"),
    ("delete", "", "pods", "shop", "any"),
    ("patch", OURS, "defenderpolicies", "", "default"),
    ("delete", OURS, "defenderpolicies", "", "default"),
    ("create", OURS, "remedyoperationjobs", "", ""),
    ("patch", OURS, "remedyoperationjobs", "", "any"),
    ("patch", OURS, "remedyoperationjobs/status", "", "any"),
    ("patch", "", "configmaps", SYSTEM, "another"),
    ("get", "", "secrets", SYSTEM, "another"),
    ("list", "", "secrets", SYSTEM, ""),
    ("update", "coordination.k8s.io", "leases", SYSTEM, "kubenode-remedy"),
    ("patch", "admissionregistration.k8s.io", HOOKS, "", "kubenode-remedy"),
    ("impersonate", "", "users", "", "any"),
    ("patch", "discovery.k8s.io", "endpointslices", SYSTEM, "another"),
]
ASKER_MAY = [
    ("create", OURS, "permits/ask", "", ""),
    ("update", OURS, "permits/ask", "", ""),
    ("get", OURS, "permits", "", ""),
]
ASKER_MAY_NOT = [
    ("create", OURS, "permits", "", ""),
    ("update", OURS, "permits", "", "any"),
    ("patch", OURS, "permits/status", "", "any"),
    ("patch", OURS, "defenderpolicies", "", "default"),
]


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[GuardPlane]:
    with GuardPlane(control_plane) as found:
        yield found


def test_kube_defender_may_do_its_work_and_disrupts_nothing(plane: GuardPlane) -> None:
    assert wrong(plane.cp, ACCOUNT, MAY, MAY_NOT) == []


def test_whoever_may_ask_cannot_write_a_permit(plane: GuardPlane) -> None:
    assert wrong(plane.cp, REMEDY, ASKER_MAY, ASKER_MAY_NOT) == []
