"""What the chart lets the remedy operator do, asked of a real API server."""

import pytest
from support.registry_plane import ACCOUNT, RegistryPlane
from support.rights import wrong

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

OURS, SYSTEM = "kubenode.io", "kubenode-system"
MAY = [
    ("watch", OURS, "noderemediers", "", ""),
    ("patch", OURS, "noderemediers/status", "", "any"),
    ("create", OURS, "remedyoperationjobs", "", ""),
    ("patch", OURS, "remedyoperationjobs", "", "any"),
    ("patch", OURS, "remedyoperationjobs/status", "", "any"),
    ("delete", OURS, "remedyoperationjobs", "", "any"),
    ("watch", OURS, "hostevents", "", ""),
    ("create", OURS, "hostevents", "", ""),
    ("patch", OURS, "hostevents", "", "any"),
    ("patch", OURS, "hostevents/status", "", "any"),
    ("delete", OURS, "hostevents", "", "any"),
    ("create", OURS, "hostprobes", "", ""),
    ("delete", OURS, "hostprobes", "", "any"),
    ("patch", OURS, "hostprobes/status", "", "any"),
    ("patch", "", "nodes", "", "any"),
    ("watch", "", "events", "", ""),
    ("create", "", "events", "default", ""),
    ("patch", "", "events", "default", "any"),
    ("list", "", "pods", "", ""),
    ("create", "", "pods/eviction", "shop", "any"),
    ("delete", "", "pods", "shop", "any"),
    ("get", "apps", "statefulsets", "shop", "any"),
    ("get", "apps", "replicasets", "shop", "any"),
    ("patch", "apps", "deployments", "shop", "any"),
    ("list", "autoscaling", "horizontalpodautoscalers", "shop", ""),
    ("get", "", "persistentvolumeclaims", "shop", "any"),
    ("get", "", "persistentvolumes", "", "any"),
    ("list", "policy", "poddisruptionbudgets", "", ""),
    ("list", "cluster.x-k8s.io", "machines", "", ""),
    ("patch", "cluster.x-k8s.io", "machines", "capi", "any"),
    ("delete", "cluster.x-k8s.io", "machines", "capi", "any"),
    ("list", "karpenter.sh", "nodeclaims", "", ""),
    ("delete", "karpenter.sh", "nodeclaims", "", "any"),
    ("create", "coordination.k8s.io", "leases", SYSTEM, ""),
    ("update", "coordination.k8s.io", "leases", SYSTEM, "kubenode-remedy"),
    ("watch", "coordination.k8s.io", "leases", "kube-node-lease", ""),
    ("watch", "coordination.k8s.io", "leases", "kubenode-agents", ""),
    ("create", "apps", "controllerrevisions", SYSTEM, ""),
    ("get", "", "secrets", SYSTEM, "kubenode-remedy-webhook"),
    ("patch", "", "secrets", SYSTEM, "kubenode-remedy-webhook"),
    ("get", "", "secrets", SYSTEM, "kubenode-host-doctor"),
    ("patch", "", "secrets", SYSTEM, "kubenode-host-doctor"),
    ("patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "",
     "kubenode-remedy"),
    ("patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "",
     "kubenode-remedy"),
]  # fmt: skip
MAY_NOT = [
    ("patch", OURS, "noderemediers", "", "any"),
    ("create", OURS, "noderemediers", "", ""),
    ("patch", OURS, "defenderpolicies", "", "default"),
    ("create", OURS, "permits", "", ""),
    ("delete", "", "nodes", "", "any"),
    ("create", "cluster.x-k8s.io", "machines", "capi", ""),
    ("patch", "cluster.x-k8s.io", "machinesets", "capi", "any"),
    ("delete", "karpenter.sh", "nodepools", "", "any"),
    ("create", "", "pods", "shop", ""),
    ("patch", "apps", "statefulsets", "shop", "any"),
    ("delete", "apps", "deployments", "shop", "any"),
    ("create", "apps", "deployments", "shop", ""),
    ("patch", "", "persistentvolumes", "", "any"),
    ("list", "", "secrets", SYSTEM, ""),
    ("create", "", "secrets", SYSTEM, ""),
    ("get", "", "secrets", SYSTEM, "another"),
    ("get", "", "secrets", "shop", "kubenode-remedy-webhook"),
    ("update", "coordination.k8s.io", "leases", SYSTEM, "kubenode-defender"),
    ("patch", "coordination.k8s.io", "leases", "kubenode-agents", "any"),
    ("patch", "coordination.k8s.io", "leases", "kube-node-lease", "any"),
    ("watch", "coordination.k8s.io", "leases", "shop", ""),
    ("create", "apps", "controllerrevisions", "shop", ""),
    ("patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "another"),
    ("create", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", ""),
    ("patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "another"),
    ("create", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", ""),
]


def test_the_operator_may_do_its_work_and_nothing_else(plane: RegistryPlane) -> None:
    assert wrong(plane.cp, ACCOUNT, MAY, MAY_NOT) == []
