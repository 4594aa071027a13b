"""What a stolen credential of each program cannot do, on a real API server with the chart's roles.

Findings 5, 18 and 19 of the security review. docs/security.md has what remains possible.
"""

import asyncio
import copy
import json
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey as Ed25519
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from support.chart_rights import ChartRights, account
from support.control_plane import ControlPlane
from support.defender_objects import policy_object
from support.helm import CHART, documents
from support.machine_requests import REQUESTS, a_key, a_request, as_object
from support.machine_world import MACHINES, a_machine, closing
from support.rights import wrong

from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.access_reviews import AccessReviews
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict
from kubenode.runtime.kube.official import connect
from remedy.job.migration.replicas import Replicas

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

REMEDY, DEFENDER, MACHINE = map(
    account, ("kubenode-remedy", "kubenode-defender", "kubenode-machine")
)
PROGRAMS = (REMEDY, DEFENDER, MACHINE)
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "dns", "namespace": "kube-system"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "dns"}},
        "template": {
            "metadata": {"labels": {"app": "dns"}},
            "spec": {"containers": [{"name": "dns", "image": "dns:1"}]},
        },
    },
}
DNS = paths.apps("deployments", "kube-system", "dns")
MACHINE_NAME = "m-stolen"
M = f"{MACHINES}/{MACHINE_NAME}"
ROOT_POD = {
    "spec": {
        "template": {
            "spec": {
                "hostPID": True,
                "serviceAccountName": "cluster-admin",
                "containers": [
                    {"name": "dns", "image": "own:1", "securityContext": {"privileged": True}}
                ],
            }
        }
    }
}
OPERATION = {"id": "replace-job-1", "type": "Replace", "permit": "permit-1"}
COMPONENT = {
    "name": "rootkit",
    "component": "rootkit-1",
    "revision": "1-0123456789",
    "configHash": "1-0123456789",
}
PERMIT = {
    "name": "permit-1",
    "components": ["rootkit"],
    "maxDisruption": "None",
    "startBefore": "2030-01-01T00:00:00Z",
}
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "00000000-0000"}
HOOKS = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture(scope="module")
def rights(control_plane: ControlPlane) -> Iterator[ChartRights]:
    with ChartRights(control_plane) as rights:
        control_plane.kubectl("create", "-f", "-", stdin=json.dumps(DEPLOYMENT))
        control_plane.kubectl("create", "-f", "-", stdin=json.dumps(a_machine(MACHINE_NAME)))
        control_plane.kubectl("create", "-f", "-", stdin=json.dumps(policy_object()))
        try:
            rights.wait_until_refused(REMEDY, "PATCH", DNS, ROOT_POD)
            rights.wait_until_refused(REMEDY, "PATCH", M, {"metadata": {"labels": {"a": "b"}}})
            rights.wait_until_refused(MACHINE, "POST", ROLES, a_role("x"))
            yield rights
        finally:
            control_plane.kubectl("delete", "deployment", "-n", "kube-system", "dns")
            control_plane.kubectl("delete", "knm", MACHINE_NAME)
            control_plane.kubectl("delete", "defenderpolicies", "--all")


# -- the remedy operator: Deployments -------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        ROOT_POD,
        {"spec": {"paused": True}},
        {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}},
        {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}},
        {"spec": {"replicas": 0}},
        {"spec": {"replicas": 1}},
        {"spec": {"replicas": 0}, "metadata": {"annotations": {"surge.kubenode.io/x": "2"}}},
        {"metadata": {"annotations": {"surge.kubenode.io/x": "2"}}},
        {"metadata": {"annotations": {"example.com/owner": "me"}}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.com/stay"]}},
        {"metadata": {"ownerReferences": [OWNER]}},
    ],
    ids=lambda change: json.dumps(change)[:60],
)
def test_remedy_changes_no_deployment_beyond_surge(
    rights: ChartRights, change: dict[str, Any]
) -> None:
    assert "remedy operator" in rights.send(REMEDY, "PATCH", DNS, change, dry_run=True)


def test_remedy_raises_and_lowers_replicas_with_a_record(rights: ChartRights) -> None:
    mark, second = "surge.kubenode.io/job-1", "surge.kubenode.io/job-2"
    to = "kubenode.io/surged-to"

    def patch(replicas: int, annotations: dict[str, Any]) -> str:
        body = {"spec": {"replicas": replicas}, "metadata": {"annotations": annotations}}
        return rights.send(REMEDY, "PATCH", DNS, body)

    assert patch(4, {mark: "2", to: "4"}) == ""
    assert patch(5, {second: "1", to: "5"}) == ""
    assert "remedy operator" in patch(2, {mark: None, to: "2"})
    assert patch(3, {mark: None, to: "3"}) == ""
    assert patch(2, {second: None, to: None}) == ""
    # Somebody else has scaled the Deployment meanwhile: only the marks are removed.
    assert patch(3, {mark: "1", to: "3"}) == ""
    rights.cp.kubectl("scale", "deployment", "-n", "kube-system", "dns", "--replicas=2")
    only_marks = {"metadata": {"annotations": {mark: None, to: None}}}
    assert rights.send(REMEDY, "PATCH", DNS, only_marks) == ""


def test_remedy_takes_no_replicas_that_their_owner_took_back(rights: ChartRights) -> None:
    """A mark on a Deployment that its owner keeps scaling back must not lower it further."""
    mark, to = "surge.kubenode.io/job-1", "kubenode.io/surged-to"

    def patch(replicas: int, annotations: dict[str, Any]) -> str:
        body = {"spec": {"replicas": replicas}, "metadata": {"annotations": annotations}}
        return rights.send(REMEDY, "PATCH", DNS, body)

    assert patch(4, {mark: "2", to: "4"}) == ""
    rights.cp.kubectl("scale", "deployment", "-n", "kube-system", "dns", "--replicas=2")
    for replicas, annotations in (
        (0, {mark: None, to: None}),
        (2, {to: "2"}),
        (3, {to: "3"}),
        (3, {mark: "3", to: "3"}),
    ):
        assert "somebody else" in patch(replicas, annotations)
    assert "remedy operator" in patch(2, {to: None})
    assert patch(2, {mark: None, to: None}) == ""


async def test_the_surge_of_migrations_passes_the_policy(rights: ChartRights) -> None:
    cp = rights.cp
    generation = cp.get(DNS)["metadata"]["generation"]
    status = {"observedGeneration": generation, "replicas": 2, "readyReplicas": 2}
    cp.kubectl("patch", "deployment", "-n", "kube-system", "dns", "--subresource=status",
               "--type=merge", "-p", json.dumps({"status": status}))  # fmt: skip
    async with closing(rights.client(REMEDY)) as kube:
        replicas = Replicas(kube)
        assert await _settled(lambda: replicas.raise_by("kube-system/dns", "job-9", 1)) == ""
        assert cp.get(DNS)["spec"]["replicas"] == 3
        assert await _settled(lambda: replicas.lower("kube-system/dns", "job-9")) == ""
    after = cp.get(DNS)
    assert after["spec"]["replicas"] == 2
    assert [key for key in after["metadata"].get("annotations", {}) if "surge" in key] == []


async def _settled(write: Callable[[], Awaitable[str]]) -> str:
    """Repeat a write while the Deployment controller writes the same object."""
    for _ in range(20):
        with suppress(Conflict):
            return await write()
    return "conflict"


def test_remedy_reaches_no_deployment_by_another_way(rights: ChartRights) -> None:
    other = copy.deepcopy(DEPLOYMENT)
    other["metadata"]["name"] = "own"
    path = DNS.rpartition("/")[0]
    assert rights.send(REMEDY, "POST", path, other, dry_run=True) != ""
    scale = {"spec": {"replicas": 0}}
    assert rights.send(REMEDY, "PATCH", f"{DNS}/scale", scale, dry_run=True) != ""
    assert rights.send(REMEDY, "DELETE", DNS, dry_run=True) != ""


# -- the remedy operator: Machines ----------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"components": [COMPONENT]}},
        {"spec": {"operation": OPERATION, "components": [COMPONENT]}},
        {"spec": {"permit": PERMIT}},
        {"spec": {"providerID": "other://1"}},
        {"spec": {"addresses": ["10.0.0.1"]}},
        {"metadata": {"annotations": {"kubenode.io/bmc": "10.0.0.1"}}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.com/stay"]}},
        {"metadata": {"ownerReferences": [OWNER]}},
    ],
    ids=lambda change: json.dumps(change)[:60],
)
def test_remedy_changes_nothing_of_a_machine_but_its_operation(
    rights: ChartRights, change: dict[str, Any]
) -> None:
    assert "remedy operator" in rights.send(REMEDY, "PATCH", M, change, dry_run=True)


def test_remedy_asks_for_an_operation_and_a_rollback(rights: ChartRights) -> None:
    annotation = {"metadata": {"annotations": {"rollback.kubenode.io/runtime": "{}"}}}
    assert rights.send(REMEDY, "PATCH", M, {"spec": {"operation": OPERATION}}) == ""
    assert rights.send(REMEDY, "PATCH", M, annotation) == ""
    assert rights.send(REMEDY, "PATCH", M, {"spec": {"operation": None}}) == ""


# -- the Machine operator: rights on Secrets of components -----------------------------------------

RBAC_PATH = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC_PATH}/namespaces/kubenode-components/roles"
BINDINGS = f"{RBAC_PATH}/namespaces/kubenode-components/rolebindings"
AGENT = f"kubenode:agent:{MACHINE_NAME}"
READS = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["x"], "verbs": ["get"]}
RBAC_API = "rbac.authorization.k8s.io"


def a_role(name: str = AGENT, **rule: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": [{**READS, **rule}]}


def a_binding(
    name: str = AGENT, role: str = AGENT, kind: str = "User", user: str = AGENT
) -> dict[str, Any]:
    ref = {"apiGroup": RBAC_API, "kind": "Role", "name": role}
    subject = {"apiGroup": RBAC_API, "kind": kind, "name": user}
    return {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}


@pytest.fixture(scope="module")
def role(rights: ChartRights) -> Iterator[str]:
    """The Role of an agent, as the Machine operator writes it."""
    assert rights.send(MACHINE, "POST", ROLES, a_role()) == ""
    yield AGENT
    rights.cp.kubectl("delete", "role", AGENT, "-n", "kubenode-components")


def test_machine_binds_the_role_of_an_agent_to_it(rights: ChartRights, role: str) -> None:
    assert rights.send(MACHINE, "POST", BINDINGS, a_binding(role), dry_run=True) == ""


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (ROLES, a_role("inspections")),
        (ROLES, a_role(resourceNames=[])),
        (ROLES, a_role(resources=["secrets", "configmaps"])),
        (ROLES, a_role(apiGroups=["batch"], resources=["jobs"], verbs=["create"])),
        (BINDINGS, a_binding("inspections")),
        (BINDINGS, a_binding(role="kubenode-machine-inspections")),
        (BINDINGS, a_binding(f"{AGENT}-2")),
        (BINDINGS, a_binding(kind="Group", user="kubenode:agents")),
        (BINDINGS, a_binding(user="alice")),
    ],
)
@pytest.mark.usefixtures("role")
def test_machine_grants_nothing_else(rights: ChartRights, path: str, body: dict[str, Any]) -> None:
    said = rights.send(MACHINE, "POST", path, body, dry_run=True)
    assert "Machine operator" in said, said


@pytest.mark.parametrize("namespace", ["kube-system", "kubenode-system", "default"])
def test_machine_grants_nothing_elsewhere(rights: ChartRights, namespace: str) -> None:
    for plural, body in (("roles", a_role()), ("rolebindings", a_binding())):
        path = f"{RBAC_PATH}/namespaces/{namespace}/{plural}"
        assert rights.send(MACHINE, "POST", path, body, dry_run=True) != ""
    assert rights.send(MACHINE, "DELETE", f"{ROLES}/{AGENT}", dry_run=True) != ""


# -- the Machine operator: certificates ------------------------------------------------------------

NODE_CLIENT, NODE_SERVER = (
    "kubernetes.io/kube-apiserver-client-kubelet",
    "kubernetes.io/kubelet-serving",
)
ORG, CN = NameOID.ORGANIZATION_NAME, NameOID.COMMON_NAME
AGENT_O, NODE_O = ["kubenode:agents"], ["system:nodes"]
BOOTSTRAP = ("system:bootstrap:abcdef", ["system:bootstrappers:kubenode"])
CONTROLLER = "system:kube-controller-manager"


def a_subject(*parts: tuple[x509.ObjectIdentifier, str]) -> bytes:
    """PEM of a request whose subject has these parts in this order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # X.520 has 64 characters, Kubernetes more
        names = [x509.NameAttribute(oid, text, _validate=False) for oid, text in parts]
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    return made.sign(a_key(), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def a_second_block() -> bytes:
    """An agent's request that no decoder takes, before one of the controller manager."""
    lines = a_request("kubenode:agent:m1").splitlines(keepends=True)
    return b"".join([*lines[:-2], b"=A=A\n", lines[-1], a_request(CONTROLLER, [])])


def approve(
    rights: ChartRights,
    pem: bytes,
    requester: tuple[str, list[str]] = BOOTSTRAP,
    **spec: Any,
) -> str:
    """The refusal when the Machine operator approves such a request, "" if there is none."""
    name = f"approved-{uuid4().hex[:12]}"
    body = as_object(name, pem, **spec)
    user, groups = requester
    kubeconfig = rights.cp.kubeconfig_for(user, [*groups, "system:masters"])

    async def sent() -> None:
        async with closing(Kube(connect(str(kubeconfig)))) as kube:
            await kube.create(REQUESTS, body)

    asyncio.run(sent())
    condition = {"type": "Approved", "status": "True", "reason": "Own", "message": ""}
    change = {"status": {"conditions": [condition]}}
    try:
        return rights.send(MACHINE, "PATCH", f"{REQUESTS}/{name}/approval", change, dry_run=True)
    finally:
        rights.cp.kubectl("delete", "csr", name)


@pytest.mark.parametrize("name", ["m", "sh-113", "n" * 60, "n" * 75, "n" * 76, "n" * 103])
def test_machine_approves_the_certificate_of_an_agent(rights: ChartRights, name: str) -> None:
    user = f"kubenode:agent:{name}"
    pem = a_subject((ORG, AGENT_O[0]), (CN, user))
    assert approve(rights, pem) == ""
    if len(user) <= 64:  # more is beyond the certificates of this test's clients
        assert approve(rights, pem, (user, AGENT_O)) == ""


@pytest.mark.parametrize("key", [rsa.generate_private_key(65537, 2048), Ed25519.generate()])
def test_machine_approves_keys_of_every_kind(rights: ChartRights, key: Any) -> None:
    assert approve(rights, a_request("kubenode:agent:m1", key=key)) == ""


def test_machine_approves_certificates_of_kubelets(rights: ChartRights) -> None:
    node = ("system:node:n1", NODE_O)
    printable = x509.NameAttribute(ORG, NODE_O[0], _ASN1Type.PrintableString)
    client: dict[str, Any] = {"signerName": NODE_CLIENT, "expirationSeconds": None}
    server = {**client, "signerName": NODE_SERVER, "usages": ["server auth", "digital signature"]}
    name = x509.Name([printable, x509.NameAttribute(CN, node[0], _ASN1Type.PrintableString)])
    made = x509.CertificateSigningRequestBuilder().subject_name(name)
    pem = made.sign(a_key(), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    assert approve(rights, pem, **client) == ""
    assert approve(rights, pem, node, **client) == ""
    assert approve(rights, a_request(node[0], NODE_O, san=["n1", "10.0.0.1"]), node, **server) == ""


@pytest.mark.parametrize(
    ("pem", "more"),
    [
        (a_request(CONTROLLER, []), {}),
        (a_request(CONTROLLER), {}),
        (a_request("alice", ["kubenode:machine-exporters"]), {}),
        (a_request("kubenode:agent:m1", [*AGENT_O, "system:nodes"]), {}),
        (a_request("kubenode:agent:m1", unit="x"), {}),
        (a_request("kubenode:agent:"), {}),
        (a_request("kubenode:agent:M 1"), {}),
        (a_subject((ORG, AGENT_O[0]), (CN, "kubenode:agent:" + "n" * 104)), {}),
        (a_subject((CN, "kubenode:agent:m1"), (ORG, AGENT_O[0])), {}),
        (a_subject((ORG, AGENT_O[0]), (CN, "kubenode:agent:m1"), (CN, CONTROLLER)), {}),
        (a_subject((ORG, AGENT_O[0]), (CN, CONTROLLER), (CN, "kubenode:agent:m1")), {}),
        # Digit 0 is the tag of what follows a subject.
        (a_subject((ORG, AGENT_O[0]), (CN, "kubenode:agent:a0"), (CN, CONTROLLER)), {}),
        (a_second_block(), {}),
        (b"\n" + a_request(CONTROLLER), {}),
        (a_request("system:node:n1", NODE_O), {}),
        (a_request("kubenode:agent:m1"), {"signerName": NODE_CLIENT}),
        (a_request("system:node:n1", AGENT_O), {"signerName": NODE_CLIENT}),
        (a_request("system:node:n1", NODE_O, san="n1"),
         {"signerName": NODE_SERVER, "usages": ["server auth"]}),
        (a_request("kubenode:agent:m1"), {"usages": ["client auth", "server auth"]}),
        (a_request("kubenode:agent:m1"), {"expirationSeconds": 31536000}),
        (a_request("kubenode:agent:m1"), {"requester": ("kubenode:agent:m2", AGENT_O)}),
        (a_request("kubenode:agent:m1"), {"requester": ("alice", [])}),
        (a_request("kubenode:agent:m1"), {"requester": ("alice", BOOTSTRAP[1])}),
        (a_request("kubenode:agent:m1"), {"requester": (BOOTSTRAP[0], ["system:bootstrappers"])}),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else json.dumps(value)[:50],
)  # fmt: skip
def test_machine_approves_no_other_certificate(
    rights: ChartRights, pem: bytes, more: dict[str, Any]
) -> None:
    said = approve(rights, pem, **more)
    assert "the Machine operator approves" in said, said


# -- all three ------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", PROGRAMS)
def test_no_program_lifts_a_limit(rights: ChartRights, user: str) -> None:
    path = paths.custom("defenderpolicies")
    change = {"spec": {"limits": [], "acknowledgeUnlimited": True}}
    assert rights.send(user, "PATCH", f"{path}/default", change, dry_run=True) != ""
    unlimited = policy_object("wide", limits=[], acknowledgeUnlimited=True)
    assert rights.send(user, "POST", path, unlimited, dry_run=True) != ""
    assert rights.send(user, "DELETE", f"{path}/default", dry_run=True) != ""


@pytest.mark.parametrize("user", PROGRAMS)
def test_no_program_widens_its_own_rights(rights: ChartRights, user: str) -> None:
    name = user.rpartition(":")[2]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    everything = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    assert rights.send(user, "PATCH", f"{rbac}/clusterroles/{name}", everything) != ""
    for policy in ("kubenode-remedy-deployments", "kubenode-remedy-machines", "kubenode-limits",
                   "kubenode-machine-tokens", "kubenode-machine-secret-access",
                   "kubenode-machine-approvals", "kubenode-machine-conversions",
                   "kubenode-node-classes"):  # fmt: skip
        for plural in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
            assert rights.send(user, "DELETE", f"{HOOKS}/{plural}/{policy}", dry_run=True) != ""


@pytest.mark.parametrize("user", PROGRAMS)
def test_no_program_lists_secrets_or_makes_tokens(rights: ChartRights, user: str) -> None:
    assert rights.send(user, "GET", "/api/v1/secrets") != ""
    assert rights.send(user, "GET", "/api/v1/namespaces/default/secrets") != ""
    token = "/api/v1/namespaces/kube-system/serviceaccounts/default/token"
    assert rights.send(user, "POST", token, {"spec": {}}) != ""


@pytest.mark.parametrize("user", [DEFENDER, MACHINE])
def test_the_others_write_no_deployment(rights: ChartRights, user: str) -> None:
    assert rights.send(user, "PATCH", DNS, {"spec": {"replicas": 3}}, dry_run=True) != ""


@pytest.mark.parametrize("user", [REMEDY, DEFENDER])
def test_the_others_make_no_bootstrap_token_and_approve_nothing(
    rights: ChartRights, user: str
) -> None:
    secrets = "/api/v1/namespaces/kube-system/secrets"
    token = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bootstrap-token-abcdef"}}
    assert rights.send(user, "POST", secrets, token, dry_run=True) != ""
    approval = "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval"
    assert "forbidden" in rights.send(user, "PATCH", approval, {"status": {}}).lower()


# -- what remains possible ------------------------------------------------------------------------

OURS, HOOK_GROUP = "kubenode.io", "admissionregistration.k8s.io"
SIGNER = "kubernetes.io/kube-apiserver-client"
REMAINS = {
    REMEDY: [
        ("patch", "", "nodes", "", "any"),
        ("delete", "", "pods", "kube-system", "any"),
        ("create", OURS, "remedyoperationjobs", "", ""),
        ("patch", OURS, "machines", "", "any"),
        ("delete", "cluster.x-k8s.io", "machines", "any", "any"),
        ("delete", "karpenter.sh", "nodeclaims", "", "any"),
        ("patch", "apps", "deployments", "any", "any"),
        ("patch", "", "configmaps", "kubenode-system", "kubenode-lineage"),
        ("get", "", "secrets", "kubenode-system", "kubenode-host-doctor"),
    ],
    DEFENDER: [
        ("create", OURS, "permits", "", ""),
        ("delete", OURS, "permits", "", "any"),
        ("create", OURS, "defenderpolicies", "", ""),
        ("patch", "", "configmaps", "kubenode-system", "kubenode-lineage"),
    ],
    MACHINE: [
        ("approve", "certificates.k8s.io", "signers", "", SIGNER),
        ("approve", "certificates.k8s.io", "signers", "", NODE_CLIENT),
        ("patch", "certificates.k8s.io", "certificatesigningrequests/approval", "", "any"),
        ("create", "", "secrets", "kube-system", ""),
        ("get", "", "secrets", "kube-system", "any"),
        ("get", "", "secrets", "kubenode-system", "any"),
        ("get", "", "secrets", "kubenode-components", "any"),
        ("patch", OURS, "machines", "", "any"),
        ("delete", OURS, "machines", "", "any"),
        ("delete", "", "nodes", "", "any"),
        ("create", "batch", "jobs", "kubenode-components", ""),
        ("create", RBAC_API, "roles", "kubenode-components", ""),
    ],
}


@pytest.mark.parametrize("user", PROGRAMS)
def test_what_remains_possible_is_as_documented(rights: ChartRights, user: str) -> None:
    """The rights that docs/security.md names under "Stolen credentials"."""
    assert wrong(rights.cp, user, REMAINS[user], []) == []


# -- webhooks: Helm creates the certificates (decision 0038) ---------------------------------------

KINDS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
CONFIGURATIONS = [
    (document, program)
    for program in ("remedy", "defender", "machine")
    for document in documents((CHART / program / "webhook.yaml").read_text())
    if document["kind"].endswith("WebhookConfiguration")
]
EVERY_OBJECT = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
                "resources": ["pods", "secrets"]}  # fmt: skip


@pytest.fixture(scope="module")
def configurations(rights: ChartRights) -> Iterator[None]:
    """The chart's webhook configurations. Each calls its webhook for no object."""
    items = copy.deepcopy([document for document, _ in CONFIGURATIONS])
    for hook in (hook for item in items for hook in item["webhooks"]):
        hook["rules"] = []
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    rights.cp.kubectl("create", "-f", "-", stdin=listed)
    yield
    rights.cp.kubectl("delete", "-f", "-", stdin=listed)


@pytest.mark.usefixtures("configurations")
@pytest.mark.parametrize("user", PROGRAMS)
@pytest.mark.parametrize(
    ("configuration", "program"),
    CONFIGURATIONS,
    ids=[f"{program}-{document['kind']}" for document, program in CONFIGURATIONS],
)
def test_no_program_points_a_webhook_at_other_objects(
    rights: ChartRights, user: str, configuration: dict[str, Any], program: str
) -> None:
    path = f"{HOOKS}/{configuration['kind'].lower()}s/kubenode-{program}"
    patch = [{"op": "replace", "path": "/webhooks/0/rules", "value": [EVERY_OBJECT]}]
    assert "cannot patch" in rights.send(user, "PATCH", path, patch, dry_run=True)
    stored = rights.cp.get(path)
    stored["webhooks"][0]["rules"] = [EVERY_OBJECT]
    assert "cannot update" in rights.send(user, "PUT", path, stored, dry_run=True)
    assert "cannot get" in rights.send(user, "GET", path)


@pytest.mark.parametrize("user", PROGRAMS)
def test_no_program_has_any_right_on_webhook_configurations(rights: ChartRights, user: str) -> None:
    names = ("kubenode-remedy", "kubenode-defender", "kubenode-machine", "another")
    forbidden = [
        (verb, HOOK_GROUP, kind, "", name)
        for kind in KINDS
        for name in names
        for verb in ("get", "patch", "update", "delete")
    ]
    forbidden += [(verb, HOOK_GROUP, kind, "", "") for kind in KINDS for verb in ("create", "list")]
    assert wrong(rights.cp, user, [], forbidden) == []


FOREIGN = [
    ("kubenode-system", "kubenode-remedy-webhook-tls"),
    ("kubenode-system", "kubenode-defender-guard-tls"),
    ("kubenode-system", "kubenode-machine-webhook-tls"),
    ("kubenode-system", "kubenode-remedy-webhook"),
    ("kubenode-system", "kubenode-machine-webhook"),
    ("kubenode-components", "password"),
    ("kubenode-agents", "password"),
    ("default", "password"),
]
"""Namespaces and names of Secrets that belong to no program, or only to its kubelet."""
READS_SECRETS_OF = {MACHINE: ("kubenode-system", "kubenode-components")}
"""Namespaces in which a program reads Secrets of any name: user data, and those of components."""


@pytest.mark.parametrize(("namespace", "name"), FOREIGN)
@pytest.mark.parametrize("user", PROGRAMS)
def test_no_program_reads_or_writes_foreign_secrets(
    rights: ChartRights, user: str, namespace: str, name: str
) -> None:
    """With Helm the Secrets of webhooks too are foreign: kubelet mounts them."""
    path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
    change = {"data": {"tls.key": ""}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **change}
    assert "cannot patch" in rights.send(user, "PATCH", path, change, dry_run=True)
    assert "cannot update" in rights.send(user, "PUT", path, secret, dry_run=True)
    if namespace not in READS_SECRETS_OF.get(user, ()):
        assert "cannot get" in rights.send(user, "GET", path)


# -- tokens that callers show ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("namespace", "name", "audience"),
    [
        ("kubenode-system", "kubenode-remedy", "kubenode-defender"),
        ("kubenode-system", "kubenode-machine", "kubenode-defender"),
        ("kubenode-agents", "kubenode-agent", "kubenode-host-doctor"),
    ],
)
async def test_a_token_that_a_caller_shows_is_refused_by_the_api_server(
    rights: ChartRights, namespace: str, name: str, audience: str
) -> None:
    cp = rights.cp
    words = ("create", "token", name, "-n", namespace, f"--audience={audience}")
    token = cp.kubectl(*words).stdout.strip()
    said = cp.kubectl("--kubeconfig=/dev/null", f"--server={cp.server}",
                      f"--certificate-authority={cp.ca_file}", f"--token={token}",
                      "get", "--raw", "/api/v1/nodes", check=False)  # fmt: skip
    assert said.returncode != 0
    assert "Unauthorized" in said.stderr or "logged in" in said.stderr
    async with closing(rights.client(DEFENDER)) as kube:
        clock = SystemClock()
        user = await AccessReviews(kube, clock, audience).user(token)
        assert user is not None
        assert user.name == f"system:serviceaccount:{namespace}:{name}"
        assert await AccessReviews(kube, clock, "another").user(token) is None
        full = cp.kubectl("create", "token", name, "-n", namespace).stdout.strip()
        assert await AccessReviews(kube, clock, audience).user(full) is None
