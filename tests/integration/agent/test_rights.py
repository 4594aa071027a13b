"""An agent's identity on a real API server tries everything, and may do what is its own."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.agent_jobs import GROUP as AGENTS
from support.agent_jobs import JOBS, LEASES, Caller, Operator, an_agent_job, asked, install, user
from support.control_plane import ControlPlane

from kubenode.api.v1alpha1.remedyoperationjob import RemedyOperationJobStatus

pytestmark = pytest.mark.integration

MINE, THEIRS = "rights-mine", "rights-theirs"
T = "2026-01-01T12:00:00Z"
NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OURS = "/apis/kubenode.io/v1alpha1"


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    install(control_plane)
    operator = Operator(control_plane)
    operator.make(an_agent_job(MINE, "n1", "a.service"), asked("boot-1"))
    operator.make(an_agent_job(THEIRS, "n2", "a.service"), asked("boot-2"))
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **a_lease("n2")}
    control_plane.kubectl("create", "-n", "kubenode-agents", "-f", "-", stdin=json.dumps(lease))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(node))
    yield control_plane
    control_plane.kubectl("delete", "knj", MINE, THEIRS)
    control_plane.kubectl("delete", "node", "n1")
    control_plane.kubectl("delete", "lease", "-n", "kubenode-agents", "--all")


@pytest.fixture(scope="module")
def n1(cluster: ControlPlane) -> Caller:
    """Agent n1."""
    return Caller(cluster, user("n1"), [AGENTS])


def a_pod(**spec: Any) -> dict[str, Any]:
    container = {"name": "a", "image": "a.example/a", **spec.pop("container", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "inspection", "namespace": "kubenode-components"},
        "spec": {"containers": [container], **spec},
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"container": {"securityContext": {"privileged": True}}},
        {"hostPID": True},
        {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]},
    ],
)
def test_a_pod_of_an_inspection_has_no_rights_on_its_host(
    cluster: ControlPlane, spec: dict[str, Any]
) -> None:
    said = cluster.kubectl(
        "create", "--dry-run=server", "-f", "-", stdin=json.dumps(a_pod(**spec)), check=False
    )
    assert "violates PodSecurity" in said.stderr
    plain = cluster.kubectl(
        "create", "--dry-run=server", "-f", "-", stdin=json.dumps(a_pod()), check=False
    )
    assert "violates PodSecurity" not in plain.stderr


def a_lease(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"holderIdentity": name}}


def an_answer(**changes: Any) -> dict[str, Any]:
    return {"agent": {"requests": {"r0s0a1": {"state": "Done", "output": "ok", **changes}}}}


# ---- what it may


def test_it_reads_jobs_and_answers_its_own(cluster: ControlPlane, n1: Caller) -> None:
    assert n1.ask("GET", f"{JOBS}/{MINE}")[0] == 200
    code, listed = n1.ask("GET", f"{JOBS}?fieldSelector=spec.agent%3Dn1")
    assert code == 200
    assert [job["metadata"]["name"] for job in json.loads(listed)["items"]] == [MINE]
    code, said = n1.patch_status(MINE, an_answer(bootID="boot-1", code=0, startedAt=T))
    assert code == 200, said
    written = Operator(cluster).read(MINE)["status"]
    assert written["agent"]["requests"]["r0s0a1"]["state"] == "Done"
    assert written["message"] == "asked"


def test_it_reads_a_permit_by_its_name_and_no_more_of_permits(n1: Caller) -> None:
    """It asks of the permit that a job names, right before a boot."""
    assert n1.ask("GET", f"{OURS}/permits/p-1")[0] == 404
    assert n1.ask("GET", f"{OURS}/permits")[0] == 403
    assert n1.ask("PATCH", f"{OURS}/permits/p-1/status", {"status": {"state": "Granted"}})[0] == 403


def test_it_answers_a_job_with_the_largest_status(cluster: ControlPlane, n1: Caller) -> None:
    """The comparison of all fields stays within the API server's cost limit."""
    (step,) = asked("boot-1")["steps"]
    step |= {"message": "m" * 500, "output": {f"key-{n}": "v" * 60 for n in range(16)}}
    many = [{**step, "requestID": f"r0s0a{n}"} for n in range(256)]
    admin = Caller(cluster, "admin", ["system:masters"])
    name = Operator(cluster).make(an_agent_job("rights-large", "n1", "a.service"))
    try:
        code, said = admin.patch_status(name, {**asked("boot-1"), "steps": many})
        assert code == 200, said
        code, said = n1.patch_status(name, an_answer(output="x" * 4096))
        assert code == 200, said
        code, said = n1.patch_status(name, {"steps": [*many[:255], {**many[255], "state": "Done"}]})
        assert code == 403 and "status.agent and no other field" in said
    finally:
        cluster.kubectl("delete", "knj", name)


def test_it_makes_and_renews_its_own_lease(n1: Caller) -> None:
    assert n1.ask("POST", LEASES, a_lease("n1"))[0] == 201
    note = {"metadata": {"annotations": {"kubenode.io/boot-id": "boot-1"}}}
    code, said = n1.ask("PATCH", f"{LEASES}/n1", note)
    assert code == 200, said


# ---- what it may not

OTHER_FIELDS: dict[str, Any] = {
    "observedGeneration": 9,
    "phase": "Succeeded",
    "message": "all is well",
    "rung": 1,
    "step": 1,
    "steps": [],
    "permit": {"name": "p", "class": "Node"},
    "hold": {"reason": "Paused"},
    "owned": {"cordon": True},
    "alsoMatched": [{"remedier": "r", "why": "w"}],
    "wordsHeard": 3,
    "timeline": {"acted": T},
    "evidenceFalseSince": T,
    "verifyingSince": T,
    "conditions": [{"type": "Healthy", "status": "True", "lastTransitionTime": T}],
}


def test_the_list_of_other_fields_is_complete() -> None:
    fields = {f.alias or name for name, f in RemedyOperationJobStatus.model_fields.items()}
    assert fields - {"agent"} == set(OTHER_FIELDS)


@pytest.mark.parametrize("field", OTHER_FIELDS)
@pytest.mark.parametrize("with_answer", [False, True])
def test_no_other_field_of_the_status(n1: Caller, field: str, with_answer: bool) -> None:
    status = {field: OTHER_FIELDS[field], **(an_answer(output="x") if with_answer else {})}
    code, said = n1.patch_status(MINE, status)
    assert code == 403
    assert "an agent writes status.agent and no other field of the status" in said


@pytest.mark.parametrize("field", ["message", "steps"])
def test_no_field_is_taken_away(n1: Caller, field: str) -> None:
    code, said = n1.patch_status(MINE, {field: None})
    assert code == 403
    assert "an agent removes no field of the status" in said


def test_a_whole_status_is_not_replaced(cluster: ControlPlane, n1: Caller) -> None:
    job = Operator(cluster).read(MINE)
    assert n1.ask("PUT", f"{JOBS}/{MINE}/status", {**job, "status": an_answer()})[0] == 403
    patch = [{"op": "replace", "path": "/status", "value": an_answer()}]
    kind = "application/json-patch+json"
    code, said = n1.ask("PATCH", f"{JOBS}/{MINE}/status", patch, kind)
    assert code == 403 and "an agent removes no field" in said


def test_metadata_and_spec_do_not_slip_through_the_status(
    cluster: ControlPlane, n1: Caller
) -> None:
    """The API server drops them from a write of the status; seen here, so that we rely on it."""
    more = {"labels": {"x": "y"}, "finalizers": ["a.b/c"], "annotations": {"x": "y"}}
    answer = an_answer(output="again")
    code, _ = n1.patch_status(MINE, answer, metadata=more, spec={"cancel": True})
    assert code in (200, 403)
    job = Operator(cluster).read(MINE)
    assert not job["spec"].get("cancel")
    assert not {"labels", "finalizers", "annotations"} & set(job["metadata"])


def test_no_other_agents_job(n1: Caller) -> None:
    code, said = n1.patch_status(THEIRS, an_answer())
    assert code == 403
    assert "may write jobs with spec.agent" in said


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", JOBS, an_agent_job("rights-x", "n1", "a.service")),
        ("PATCH", f"{JOBS}/{MINE}", {"spec": {"cancel": True}}),
        ("PATCH", f"{JOBS}/{MINE}", {"metadata": {"labels": {"a": "b"}}}),
        ("PUT", f"{JOBS}/{MINE}", an_agent_job(MINE, "n1", "b.service")),
        ("GET", f"{JOBS}/{MINE}/status", None),
        ("DELETE", f"{JOBS}/{MINE}", None),
        ("DELETE", f"{JOBS}/{THEIRS}", None),
        ("DELETE", JOBS, None),
        *[("GET", f"{OURS}/{kind}", None) for kind in ("noderemediers", "permits", "hostevents")],
        *[("POST", f"{OURS}/{kind}", {}) for kind in ("noderemediers", "permits", "hostprobes")],
        ("PATCH", f"{OURS}/defenderpolicies/default", {"spec": {}}),
        ("GET", "/api/v1/nodes", None),
        ("GET", "/api/v1/nodes/n1", None),
        ("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": True}}),
        ("DELETE", "/api/v1/nodes/n1", None),
        ("GET", "/api/v1/pods", None),
        ("POST", "/api/v1/namespaces/default/pods", {}),
        ("POST", "/api/v1/namespaces/default/pods/x/eviction", {}),
        ("POST", "/api/v1/namespaces/default/pods/x/exec", None),
        ("GET", "/api/v1/secrets", None),
        ("GET", "/api/v1/namespaces/kubenode-agents/secrets", None),
        ("GET", "/api/v1/namespaces/kube-system/configmaps", None),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {}),
        ("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}}),
        ("GET", "/api/v1/events", None),
        ("GET", f"{RBAC}/clusterrolebindings", None),
        ("POST", f"{RBAC}/clusterrolebindings", {}),
        ("GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests", None),
        ("GET", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", None),
        ("GET", LEASES, None),
        ("GET", f"{LEASES}/n2", None),
        ("DELETE", f"{LEASES}/n1", None),
        ("DELETE", f"{LEASES}/n2", None),
        ("DELETE", LEASES, None),
        ("GET", f"{NODE_LEASES}/n1", None),
        ("POST", NODE_LEASES, a_lease("n1")),
        ("PATCH", f"{NODE_LEASES}/n1", {"spec": {"holderIdentity": "me"}}),
        # within what RBAC grants, so that the policy alone must speak
        ("POST", LEASES, a_lease("n3")),
        ("PATCH", f"{LEASES}/n2", {"spec": {"holderIdentity": "me"}}),
        ("PUT", f"{LEASES}/n2", a_lease("n2")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_everything_else_is_forbidden(n1: Caller, method: str, path: str, body: Any) -> None:
    code, said = n1.ask(method, path, body)
    assert code == 403, said


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("kubenode:agents", [AGENTS]),
        ("n1", [AGENTS]),
        ("kubenode:agent:", [AGENTS]),
        ("kubenode:agent:N1", [AGENTS]),
        ("kubenode:agent:n1:x", [AGENTS]),
        ("kubenode:agent:n1", []),
        ("kubenode:agent:n1", ["kubenode:agent"]),
    ],
)
def test_only_the_exact_name_in_the_group_is_the_agent(
    cluster: ControlPlane, name: str, groups: list[str]
) -> None:
    other = Caller(cluster, name, groups)
    assert other.patch_status(MINE, an_answer(output="forged"))[0] == 403
    assert other.ask("PATCH", f"{LEASES}/n2", {"spec": {"holderIdentity": "me"}})[0] == 403


def test_the_policy_holds_an_agent_even_with_an_administrators_rights(
    cluster: ControlPlane,
) -> None:
    both = Caller(cluster, user("n1"), [AGENTS, "system:masters"])
    code, said = both.patch_status(MINE, {"phase": "Succeeded"})
    assert code == 403 and "no other field" in said
    code, said = both.ask("DELETE", f"{JOBS}/{MINE}")
    assert code == 403 and "an agent writes the status of jobs and nothing else" in said
    code, said = both.ask("DELETE", f"{LEASES}/n2")
    assert code == 403 and "may write Lease kubenode-agents/n1 only" in said


def test_the_operator_is_not_held_by_it(cluster: ControlPlane) -> None:
    operator = Operator(cluster)
    operator.write(MINE, {"message": "seen"})
    assert operator.read(MINE)["status"]["message"] == "seen"
    operator.write(MINE, {"message": "asked"})


def test_the_policies_raise_no_warning_of_types(cluster: ControlPlane) -> None:
    listed = cluster.get("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies")
    ours = [p for p in listed["items"] if p["metadata"]["name"].startswith("kubenode-agent")]
    assert len(ours) == 6
    for policy in ours:
        warnings = policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings", [])
        assert warnings == []
