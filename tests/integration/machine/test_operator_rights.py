"""What the Machine operator and bootstrap tokens may not do; what the operator needs, the other
tests here show, as it runs under nothing else."""

import pytest
from support.control_plane import ControlPlane
from support.machine_world import CHARTS, OPERATOR
from support.rights import Question, wrong

from machine.names import TOKEN_GROUP

pytestmark = pytest.mark.integration

PEOPLE = CHARTS / "people.yaml"
HOOK_GROUP = "admissionregistration.k8s.io"
CSR, CERTIFICATES = "certificatesigningrequests", "certificates.k8s.io"
MAY: list[Question] = [
    ("approve", CERTIFICATES, "signers", "", "kubernetes.io/kube-apiserver-client"),
    ("approve", CERTIFICATES, "signers", "", "kubernetes.io/kube-apiserver-client-kubelet"),
    ("approve", CERTIFICATES, "signers", "", "kubernetes.io/kubelet-serving"),
    ("patch", CERTIFICATES, f"{CSR}/approval", "", "x"),
    ("patch", "kubenode.io", "machines/status", "", "m"),
    ("delete", "coordination.k8s.io", "leases", "kubenode-agents", "m"),
    ("create", "kubenode.io", "machines", "", ""),
    ("patch", "kubenode.io", "machines", "", "m"),
    ("delete", "kubenode.io", "machines", "", "m"),
    ("patch", "", "nodes", "", "n"),
    ("delete", "", "nodes", "", "n"),
    ("list", "storage.k8s.io", "volumeattachments", "", ""),
    ("get", "", "secrets", "kubenode-system", "x"),
    ("create", "", "pods/eviction", "default", "p"),
]
MAY_NOT: list[Question] = [
    ("approve", CERTIFICATES, "signers", "", "example.com/other"),
    ("sign", CERTIFICATES, "signers", "", "kubernetes.io/kube-apiserver-client"),
    ("sign", CERTIFICATES, "signers", "", "kubernetes.io/kubelet-serving"),
    ("approve", CERTIFICATES, "signers", "", "kubernetes.io/legacy-unknown"),
    ("update", CERTIFICATES, f"{CSR}/status", "", "x"),
    ("create", CERTIFICATES, CSR, "", ""),
    ("delete", CERTIFICATES, CSR, "", "x"),
    ("list", "", "secrets", "kube-system", ""),
    ("list", "", "secrets", "kubenode-system", ""),
    ("patch", "", "secrets", "kubenode-system", "x"),
    ("get", "", "secrets", "default", "x"),
    ("patch", "", "secrets", "kubenode-system", "kubenode-machine-webhook"),
    ("get", HOOK_GROUP, "validatingwebhookconfigurations", "", "kubenode-machine"),
    ("patch", HOOK_GROUP, "validatingwebhookconfigurations", "", "kubenode-machine"),
    ("create", "", "nodes", "", ""),
    ("create", "", "pods", "default", ""),
    ("delete", "", "pods", "default", "p"),
    ("create", "kubenode.io", "permits", "", ""),
    ("patch", "kubenode.io", "permits", "", "p"),
    ("patch", "coordination.k8s.io", "leases", "kubenode-agents", "m"),
    ("patch", "rbac.authorization.k8s.io", "clusterrolebindings", "", "x"),
]


def test_the_operator_has_these_rights_and_no_others(cluster: ControlPlane) -> None:
    assert wrong(cluster, OPERATOR, MAY, MAY_NOT) == []


def test_a_bootstrap_token_asks_for_a_certificate_and_does_nothing_else(
    cluster: ControlPlane,
) -> None:
    allowed = [(verb, CSR) for verb in ("create", "get", "list", "watch")]
    others = [
        ("delete", CSR),
        ("update", f"{CSR}/approval"),
        ("get", "secrets"),
        ("get", "configmaps"),
        ("get", "nodes"),
        ("get", "machines.kubenode.io"),
    ]
    token = ("--as=system:bootstrap:abcdef", f"--as-group={TOKEN_GROUP}")

    def may(verb: str, resource: str) -> bool:
        plural, _, sub = resource.partition("/")
        more = [f"--subresource={sub}"] if sub else []
        words = ("auth", "can-i", verb, plural, *more, *token, "-n", "kube-system")
        return cluster.kubectl(*words, check=False).stdout.strip() == "yes"

    assert all(may(*question) for question in allowed)
    assert [what for what in others if may(*what)] == []


def test_a_machine_operator_lets_hosts_in_and_does_nothing_else(cluster: ControlPlane) -> None:
    cluster.kubectl("apply", "-f", PEOPLE)
    who = "machine-operator-alone"
    bind = ("create", "clusterrolebinding", who, "--clusterrole=kubenode-machine-operator")
    cluster.kubectl(*bind, f"--user={who}")
    try:
        may = [(v, "kubenode.io", "machines", "", "") for v in ("get", "list", "create", "patch")]
        may_not = [
            ("delete", "kubenode.io", "machines", "", "m"),
            ("patch", "kubenode.io", "machines/status", "", "m"),
            ("create", "kubenode.io", "remedyoperationjobs", "", ""),
            ("get", "", "secrets", "kube-system", "x"),
            ("approve", CERTIFICATES, "signers", "", "kubernetes.io/kube-apiserver-client"),
        ]
        assert wrong(cluster, who, may, may_not) == []
    finally:
        cluster.kubectl("delete", "clusterrolebinding", who)
        cluster.kubectl("delete", "-f", PEOPLE)
