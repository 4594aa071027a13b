"""A host was taken over: what its kubelet's certificate can do, and what is refused.

Real kube-apiserver with the Node authorizer, NodeRestriction, and the roles and policies of the
chart. Findings 6 and 17 of the security review. docs/security.md has what is inherent to
Kubernetes; the last part of this file holds that list.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.agent_jobs import (
    EVENTS,
    JOBS,
    LEASES,
    NODES,
    Caller,
    Operator,
    a_machine,
    a_probe,
    an_agent_job,
    an_event,
    asked,
    install,
)
from support.chart_rights import ChartRights
from support.control_plane import ControlPlane
from support.own_requests import (
    API,
    OBJECT,
    PATCH_KIND,
    OwnRequest,
    cluster_rights,
    own_requests,
    own_rights,
    rights_in_own_namespaces,
)
from support.rights import allowed, wrong

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

NODE, THEIRS = "kubelet-1", "kubelet-victim"
USER = f"system:node:{NODE}"
KUBELETS = ("system:nodes", "system:authenticated")
STRATEGIC = "application/strategic-merge-patch+json"
OURS = {"kubenode.io/machine": "m", "kubenode.io/bmc": "b"}
CORDON_MARK = {"kubenode.io/cordoned-by": "job-1"}
SYSTEM_PODS = "/api/v1/namespaces/kubenode-system/pods"
SYSTEM_ACCOUNTS = "/api/v1/namespaces/kubenode-system/serviceaccounts"
NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
SIGNING_REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def a_node(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}}


def a_pod(name: str, node: str, account: str = "", **annotations: str) -> dict[str, Any]:
    """A pod of kubenode-system on a node; with the annotation of a mirror pod, a mirror pod."""
    spec: dict[str, Any] = {"nodeName": node, "containers": [{"name": "c", "image": "i:1"}]}
    if account:
        spec["serviceAccountName"] = account
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Two Nodes of KubeNode, with a job, a HostProbe and a Machine for each."""
    with ChartRights(control_plane):
        install(control_plane)
        admin = Caller(control_plane, "admin", ["system:masters"])
        operator = Operator(control_plane)
        for name in (NODE, THEIRS):
            marks = {"annotations": OURS, "labels": {"kubenode.io/pool": "gpu", "x": "y"}}
            assert admin.ask("POST", NODES, a_node(name, **marks))[0] == 201
            control_plane.kubectl("create", "-f", "-", stdin=json.dumps(a_machine(name)))
            operator.ask(a_probe(f"probe-{name}", name, "disk"))
            operator.make(an_agent_job(f"job-{name}", name, "a.service"), asked("boot-1"))
        yield control_plane
        names = ("node,knm", NODE, THEIRS)
        control_plane.kubectl("delete", *names)
        control_plane.kubectl("delete", "knhp", f"probe-{NODE}", f"probe-{THEIRS}")
        control_plane.kubectl("delete", "knj", f"job-{NODE}", f"job-{THEIRS}")


@pytest.fixture(scope="module")
def admin(cluster: ControlPlane) -> Caller:
    return Caller(cluster, "admin", ["system:masters"])


@pytest.fixture(scope="module")
def kubelet(cluster: ControlPlane) -> Caller:
    """Rights without limit: only the policy can refuse."""
    return Caller(cluster, USER, ["system:nodes", "system:masters"])


@pytest.fixture(scope="module")
def stolen(cluster: ControlPlane) -> Caller:
    """The kubelet's own certificate, and no other right."""
    return Caller(cluster, USER, ["system:nodes"])


# ---- KubeNode's own resources


def test_a_kubelet_is_refused_every_verb_on_every_resource(
    stolen: Caller, cluster: ControlPlane
) -> None:
    requests = own_requests(cluster)
    assert {f"{API}/remedyoperationjobs", f"{API}/permits"} <= {
        request.path for request in requests if request.verb == "list"
    }
    answers = {str(request): send(stolen, request) for request in requests}
    assert {name: code for name, code in answers.items() if code != 403} == {}


def send(caller: Caller, request: OwnRequest) -> int:
    return caller.ask(request.method, request.path, request.body)[0]


def test_an_administrator_is_served_the_same_requests(admin: Caller, cluster: ControlPlane) -> None:
    """Otherwise a wrong path would count as a refusal."""
    for request in own_requests(cluster):
        code = send(admin, request)
        if request.verb in ("list", "watch", "deletecollection"):
            # 429: the API server fills its cache of a CRD that was just installed.
            assert code in (200, 429), request
        else:
            assert code in (201, 400, 404, 409, 422), (request, code)


@pytest.mark.parametrize("object_", ["job", "probe", "machine"])
@pytest.mark.parametrize("node", [NODE, THEIRS])
def test_a_kubelet_writes_no_answer_of_its_agent_or_of_another(
    stolen: Caller, object_: str, node: str
) -> None:
    path, status = {
        "job": (f"{JOBS}/job-{node}", {"agent": {"requests": {"r0s0a1": {"state": "Done"}}}}),
        "probe": (f"{API}/hostprobes/probe-{node}", {"answer": {"a": 1}}),
        "machine": (f"{API}/machines/{node}", {"host": {"os": "x"}}),
    }[object_]
    code, said = stolen.ask("PATCH", f"{path}/status", {"status": status}, PATCH_KIND)
    assert code == 403, said


def test_no_role_of_the_chart_reaches_a_kubelet(cluster: ControlPlane) -> None:
    rights = own_rights()
    assert ("create", "kubenode.io", "permits/ask", "", OBJECT) in rights
    assert ("download", "kubenode.io", "bundles", "", OBJECT) in rights
    assert wrong(cluster, USER, [], rights, KUBELETS) == []


def test_a_kubelet_lifts_no_rule_of_the_chart(cluster: ControlPlane) -> None:
    assert wrong(cluster, USER, [], cluster_rights(), KUBELETS) == []


def test_in_the_namespaces_of_kubenode_a_kubelet_has_only_what_each_kubelet_has(
    cluster: ControlPlane,
) -> None:
    rights = rights_in_own_namespaces()
    answers = allowed(cluster, USER, rights, KUBELETS)
    has = {(q[0], q[2]) for q, may in zip(rights, answers, strict=True) if may}
    # NodeRestriction narrows both verbs on pods to mirror pods and to pods of its own node.
    services = {(verb, "services") for verb in ("get", "list", "watch")}
    assert has == {("create", "pods"), ("delete", "pods"), *services}


# ---- other nodes


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", f"{NODES}/{THEIRS}", {"metadata": {"labels": {"a": "b"}}}),
        ("PATCH", f"{NODES}/{THEIRS}", {"spec": {"unschedulable": True}}),
        ("PATCH", f"{NODES}/{THEIRS}/status", {"status": {"conditions": []}}),
        ("DELETE", f"{NODES}/{THEIRS}", None),
        ("DELETE", f"{NODES}/{NODE}", None),
        ("PATCH", f"{NODES}/{NODE}", {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}),
        ("POST", LEASES, {"metadata": {"name": NODE}, "spec": {"holderIdentity": NODE}}),
        ("POST", NODE_LEASES, {"metadata": {"name": THEIRS}, "spec": {"holderIdentity": THEIRS}}),
        ("GET", "/api/v1/secrets", None),
        ("GET", "/api/v1/namespaces/kubenode-system/secrets/kubenode-defender", None),
        ("GET", "/api/v1/namespaces/kubenode-system/configmaps/kubenode-lineage", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_kubelet_is_refused_what_belongs_to_others(
    stolen: Caller, method: str, path: str, body: Any
) -> None:
    code, said = stolen.ask(method, path, body)
    assert code == 403, said


def test_a_kubelet_makes_no_pod_with_an_account_of_kubenode(stolen: Caller) -> None:
    ordinary = a_pod("root", NODE, "kubenode-machine")
    mirror = a_pod("root", NODE, "kubenode-machine", **{"kubernetes.io/config.mirror": "x"})
    elsewhere = a_pod("root", THEIRS, **{"kubernetes.io/config.mirror": "x"})
    for pod in (ordinary, mirror, elsewhere):
        code, said = stolen.ask("POST", f"{SYSTEM_PODS}?dryRun=All", pod)
        assert code == 403, said


@pytest.mark.parametrize("namespace", ["kubenode-system", "kubenode-agents", "kubenode-components"])
def test_a_kubelet_creates_no_pod_beside_those_of_kubenode(
    stolen: Caller, cluster: ControlPlane, namespace: str
) -> None:
    """With the labels of Kube Defender a mirror pod would become an endpoint of its Service."""
    uid = cluster.get(f"{NODES}/{NODE}")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": uid, "controller": True}
    mirror = a_pod("static", NODE, **{"kubernetes.io/config.mirror": "x"})
    mirror["metadata"]["labels"] = {"app.kubernetes.io/name": "kubenode-defender"}
    mirror["metadata"]["ownerReferences"] = [owner]
    mirror["spec"]["automountServiceAccountToken"] = False
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    code, said = stolen.ask("POST", path, mirror)
    assert code == 403 and "namespace of KubeNode" in said, said
    code, said = stolen.ask("POST", path.replace(namespace, "default"), mirror)
    assert code == 201, said


def test_a_kubelet_gets_no_token_of_an_account_without_a_pod_on_its_node(
    stolen: Caller, cluster: ControlPlane
) -> None:
    accounts = cluster.get(SYSTEM_ACCOUNTS)["items"]
    assert {"kubenode-remedy", "kubenode-machine", "kubenode-defender"} <= {
        account["metadata"]["name"] for account in accounts
    }
    for account in accounts:
        path = f"{SYSTEM_ACCOUNTS}/{account['metadata']['name']}/token"
        code, said = stolen.ask("POST", path, {"spec": {}})
        assert code == 403, said


# ---- Events about Nodes, which rules read


@pytest.mark.parametrize("kind", ["Node", "Machine"])
def test_a_kubelet_writes_no_event_about_another_node(stolen: Caller, kind: str) -> None:
    about = {"kind": kind, "apiVersion": "v1", "name": THEIRS}
    event = an_event(THEIRS, involvedObject=about)
    code, said = stolen.ask("POST", f"{EVENTS}?dryRun=All", event)
    assert (code, "Events about its own Node" in said) == (403, True), said


def test_a_kubelet_writes_no_event_about_another_node_by_the_newer_api(stolen: Caller) -> None:
    event = {
        "metadata": {"name": f"{THEIRS}.newer", "namespace": "default"},
        "regarding": {"kind": "Node", "apiVersion": "v1", "name": THEIRS},
        "type": "Warning",
        "reason": "TaskHung",
        "action": "None",
        "reportingController": "kernel-monitor",
        "reportingInstance": THEIRS,
        "eventTime": "2026-01-01T12:00:00.000000Z",
    }
    path = "/apis/events.k8s.io/v1/namespaces/default/events?dryRun=All"
    code, said = stolen.ask("POST", path, event)
    assert code == 403, said


def test_a_kubelet_changes_no_event_about_another_node(stolen: Caller, admin: Caller) -> None:
    path = f"{EVENTS}/{THEIRS}.0123"
    assert admin.ask("POST", EVENTS, an_event(THEIRS))[0] == 201
    try:
        code, said = stolen.ask("PATCH", path, {"message": "x"})
        assert (code, "Events about its own Node" in said) == (403, True), said
    finally:
        admin.ask("DELETE", path)


POD = {"kind": "Pod", "apiVersion": "v1", "name": "p", "namespace": "default"}


@pytest.mark.parametrize("host", [THEIRS, ""])
def test_a_kubelet_reports_about_pods_as_itself_alone(stolen: Caller, host: str) -> None:
    event = an_event(NODE, involvedObject=POD, source={"component": "kubelet", "host": host})
    code, said = stolen.ask("POST", f"{EVENTS}?dryRun=All", event)
    assert (code, "names its own Node" in said) == (403, True), said
    event["source"]["host"] = NODE
    assert stolen.ask("POST", f"{EVENTS}?dryRun=All", event)[0] == 201


def test_who_may_create_events_reports_nothing_as_a_kubelet(cluster: ControlPlane) -> None:
    somebody = Caller(cluster, "system:kube-controller-manager", [])
    event = an_event(NODE, involvedObject=POD, source={"component": "kubelet", "host": NODE})
    code, said = somebody.ask("POST", f"{EVENTS}?dryRun=All", event)
    assert (code, "only a kubelet reports" in said) == (403, True), said
    event["source"]["component"] = "attachdetach-controller"
    assert somebody.ask("POST", f"{EVENTS}?dryRun=All", event)[0] == 201


@pytest.mark.parametrize(
    ("user", "groups"),
    [
        (f"system:node:{NODE}", ["system:nodes"]),
        ("system:serviceaccount:kube-system:generic-garbage-collector", []),
    ],
)
def test_only_the_attach_detach_controller_reports_its_events(
    cluster: ControlPlane, user: str, groups: list[str]
) -> None:
    event = an_event(NODE, involvedObject=POD, source={"component": "attachdetach-controller"})
    permitted = Caller(cluster, "system:serviceaccount:kube-system:attachdetach-controller", [])
    assert permitted.ask("POST", f"{EVENTS}?dryRun=All", event)[0] == 201
    code, said = Caller(cluster, user, groups).ask("POST", f"{EVENTS}?dryRun=All", event)
    assert (code, "only the attach-detach controller" in said) == (403, True), said


# ---- KubeNode's labels and annotations: findings 6 and 17


CHANGES: list[dict[str, Any]] = [
    {"annotations": {"kubenode.io/machine": "victim"}},
    {"annotations": {"kubenode.io/machine": None}},
    {"annotations": {"kubenode.io/cordoned-by": "x"}},
    {"annotations": {"rollback.kubenode.io/x": "x"}},
    {"labels": {"kubenode.io/pool": "cpu"}},
    {"labels": {"kubenode.io/pool": None}},
    {"labels": {"kubenode.io/rack": "r"}},
]


@pytest.mark.parametrize("part", ["", "/status"])
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_kubelet_changes_no_mark_of_kubenode(
    kubelet: Caller, change: dict[str, Any], part: str
) -> None:
    code, said = kubelet.ask("PATCH", f"{NODES}/{NODE}{part}", {"metadata": change}, STRATEGIC)
    assert code == 403, said
    assert "a kubelet writes no" in said


def test_a_kubelet_goes_on_writing_its_own(kubelet: Caller, cluster: ControlPlane) -> None:
    own = {
        "labels": {"kubernetes.io/os": "linux", "notkubenode.io/x": "y"},
        "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
    }
    for part in ("", "/status"):
        code, said = kubelet.ask("PATCH", f"{NODES}/{NODE}{part}", {"metadata": own}, STRATEGIC)
        assert code == 200, said
    assert OURS.items() <= cluster.get(f"{NODES}/{NODE}")["metadata"]["annotations"].items()


def test_a_kubelet_registers_with_a_pool_and_a_rack_alone(
    cluster: ControlPlane,
) -> None:
    new = Caller(cluster, "system:node:kubelet-2", ["system:nodes", "system:masters"])
    path = f"{NODES}?dryRun=All"
    labels = {"kubenode.io/pool": "gpu", "kubenode.io/rack": "r"}
    code, said = new.ask("POST", path, a_node("kubelet-2", labels=labels))
    assert code == 201, said
    marks: list[dict[str, Any]] = [{"annotations": OURS}, {"labels": {"kubenode.io/x": "y"}}]
    for metadata in marks:
        code, said = new.ask("POST", path, a_node("kubelet-2", **metadata))
        assert (code, "a kubelet writes no" in said) == (403, True), said


def test_people_and_operators_write_marks(cluster: ControlPlane) -> None:
    ann = Caller(cluster, "ann", ["system:masters"])
    for value in ("x", None):
        change = {"metadata": {"annotations": {"kubenode.io/hands-off": value}}}
        assert ann.ask("PATCH", f"{NODES}/{NODE}", change)[0] == 200


# ---- its cordon


@pytest.fixture
def cordoned(admin: Caller) -> Iterator[None]:
    """KubeNode has cordoned the kubelet's Node."""
    cordon = {"metadata": {"annotations": CORDON_MARK}, "spec": {"unschedulable": True}}
    assert admin.ask("PATCH", f"{NODES}/{NODE}", cordon)[0] == 200
    yield
    gone = {
        "metadata": {"annotations": dict.fromkeys(CORDON_MARK)},
        "spec": {"unschedulable": None},
    }
    assert admin.ask("PATCH", f"{NODES}/{NODE}", gone)[0] == 200


@pytest.mark.parametrize("value", [None, False])
def test_a_kubelet_does_not_undo_a_cordon_of_kubenode(
    stolen: Caller, cluster: ControlPlane, cordoned: None, value: bool | None
) -> None:
    """A job takes a missing cordon for a person's wish, and closes."""
    uncordon = {"spec": {"unschedulable": value}}
    code, said = stolen.ask("PATCH", f"{NODES}/{NODE}", uncordon)
    assert (code, "a kubelet does not uncordon" in said) == (403, True), said
    stolen.ask("PATCH", f"{NODES}/{NODE}/status", uncordon)
    assert cluster.get(f"{NODES}/{NODE}")["spec"]["unschedulable"]


def test_a_kubelet_writes_its_node_while_kubenode_has_cordoned_it(
    stolen: Caller, cordoned: None
) -> None:
    label = {"metadata": {"labels": {"kubernetes.io/os": "linux"}}}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "m"}
    for part, change in (("", label), ("/status", {"status": {"conditions": [ready]}})):
        code, said = stolen.ask("PATCH", f"{NODES}/{NODE}{part}", change, STRATEGIC)
        assert code == 200, said


def test_people_undo_a_cordon_of_kubenode(cluster: ControlPlane, cordoned: None) -> None:
    ann = Caller(cluster, "ann", ["system:masters"])
    assert ann.ask("PATCH", f"{NODES}/{NODE}", {"spec": {"unschedulable": None}})[0] == 200


# ---- what is inherent to Kubernetes: docs/security.md, "A kubelet's key"


def test_inherent_a_kubelet_undoes_a_persons_cordon(stolen: Caller, admin: Caller) -> None:
    assert admin.ask("PATCH", f"{NODES}/{NODE}", {"spec": {"unschedulable": True}})[0] == 200
    code, said = stolen.ask("PATCH", f"{NODES}/{NODE}", {"spec": {"unschedulable": None}})
    assert code == 200, said


def test_inherent_a_kubelet_says_anything_of_its_own_node(stolen: Caller) -> None:
    conditions = [
        {"type": kind, "status": "True", "reason": "R", "message": "m"}
        for kind in ("Ready", "KernelDeadlock", "NodeFenced")
    ]
    claims = [{"type": "InternalIP", "address": "10.9.9.9"}, {"type": "Hostname", "address": "x"}]
    for status in ({"conditions": conditions}, {"addresses": claims}):
        code, said = stolen.ask("PATCH", f"{NODES}/{NODE}/status", {"status": status}, STRATEGIC)
        assert code == 200, said


def test_inherent_a_kubelet_writes_a_node_of_one_megabyte(stolen: Caller) -> None:
    large = {"type": "Large", "status": "True", "reason": "R", "message": "m" * 1_000_000}
    for value in (large, {"type": "Large", "$patch": "delete"}):
        change = {"status": {"conditions": [value]}}
        code, said = stolen.ask("PATCH", f"{NODES}/{NODE}/status", change, STRATEGIC)
        assert code == 200, said[:1000]


def test_inherent_a_kubelet_writes_events_about_its_own_node_and_about_pods(
    stolen: Caller,
) -> None:
    pod = {"kind": "Pod", "apiVersion": "v1", "name": "p", "namespace": "default"}
    for event in (an_event(NODE), an_event(NODE, involvedObject=pod)):
        code, said = stolen.ask("POST", f"{EVENTS}?dryRun=All", event)
        assert code == 201, said


def test_inherent_a_kubelet_asks_for_certificates(stolen: Caller, cluster: ControlPlane) -> None:
    """Who approves them checks who asked: tests/integration/machine/test_certificates.py."""
    identity = base64.b64encode(b"not a request").decode()
    request = {
        "metadata": {"name": "by-a-kubelet"},
        "spec": {
            "request": identity,
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    }
    code, said = stolen.ask("POST", f"{SIGNING_REQUESTS}?dryRun=All", request)
    assert code in (400, 422), f"authorized, and refused as unreadable: {said}"


def test_inherent_a_kubelet_has_the_accounts_of_the_pods_on_its_node(
    stolen: Caller, admin: Caller, cluster: ControlPlane
) -> None:
    """So the Machine operator belongs on nodes of the control plane."""
    code, said = admin.ask("POST", SYSTEM_PODS, a_pod("machine-0", NODE, "kubenode-machine"))
    assert code == 201, said
    pod = json.loads(said)["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    body = {"spec": {"boundObjectRef": bound}}
    other = Caller(cluster, f"system:node:{THEIRS}", ["system:nodes"])
    path = f"{SYSTEM_ACCOUNTS}/kubenode-machine/token"
    try:
        codes = [each.ask("POST", path, body)[0] for each in (stolen, other)]
        assert codes == [201, 403]
    finally:
        now = {"gracePeriodSeconds": 0}
        assert stolen.ask("DELETE", f"{SYSTEM_PODS}/machine-0", now)[0] == 200
