"""What an agent may write of its node, its machine and their Events, under both identities."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.agent_jobs import (
    EVENTS,
    GROUP,
    LEASES,
    MACHINES,
    NODES,
    Bearer,
    Caller,
    a_machine,
    an_event,
    both_identities,
    install,
    user,
)
from support.control_plane import ControlPlane

from kubenode.api.v1alpha1.machinestatus import WRITTEN_BY_AGENT, MachineStatus

pytestmark = pytest.mark.integration

MINE, THEIRS = "own-1", "own-2"
STRATEGIC = "application/strategic-merge-patch+json"
T = "2026-01-01T12:00:00Z"
KUBELETS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def a_condition(type_: str = "KernelDeadlock", status: str = "True") -> dict[str, str]:
    times = {"lastHeartbeatTime": T, "lastTransitionTime": T}
    return {"type": type_, "status": status, "reason": "R", "message": "m", **times}


def a_node(name: str) -> dict[str, Any]:
    images = [{"names": [f"registry.example.org/image-{n}:v1"], "sizeBytes": n} for n in range(50)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "status": {
            "conditions": [a_condition(t, "False") for t in (*KUBELETS, "Other")],
            "capacity": {"cpu": "4"},
            "images": images,
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    install(control_plane)
    admin = Caller(control_plane, "admin", ["system:masters"])
    for name in (MINE, THEIRS):
        code, said = admin.ask("POST", NODES, a_node(name))
        assert code == 201, said
        status = {"status": a_node(name)["status"]}
        code, said = admin.ask("PATCH", f"{NODES}/{name}/status", status, STRATEGIC)
        assert code == 200, said
        control_plane.kubectl("create", "-f", "-", stdin=json.dumps(a_machine(name)))
        status = {"status": {"phase": "Running", "host": {"bootID": "b"}}}
        assert admin.ask("PATCH", f"{MACHINES}/{name}/status", status)[0] == 200
    lease = {"metadata": {"name": THEIRS}, "spec": {"holderIdentity": THEIRS}}
    assert admin.ask("POST", LEASES, lease)[0] == 201
    kubelets = an_event(MINE, source={"component": "kubelet"}, reportingComponent="kubelet")
    kubelets["metadata"]["name"] = "kubelets"
    assert admin.ask("POST", EVENTS, kubelets)[0] == 201
    yield control_plane
    control_plane.kubectl("delete", "node", MINE, THEIRS)
    control_plane.kubectl("delete", "knm", MINE, THEIRS)
    control_plane.kubectl("delete", "event", "--all")
    control_plane.kubectl("delete", "lease", "-n", "kubenode-agents", "--all")
    pod = ["pod", "--all", "--force", "--grace-period=0"]
    control_plane.kubectl("delete", "-n", "kubenode-agents", *pod)


@pytest.fixture(scope="module")
def agents(cluster: ControlPlane) -> dict[str, Caller]:
    """Agent own-1."""
    return both_identities(cluster, MINE)


@pytest.fixture(params=["certificate", "token"])
def agent(agents: dict[str, Caller], request: pytest.FixtureRequest) -> Caller:
    return agents[request.param]


def conditions(
    caller: Caller, *listed: dict[str, Any], node: str = MINE, kind: str = STRATEGIC, **more: Any
) -> tuple[int, str]:
    status = {"conditions": list(listed)} if listed else {}
    body = {"status": {**status, **more.pop("status", {})}, **more}
    return caller.ask("PATCH", f"{NODES}/{node}/status", body, kind)


# ---- what it may


def test_it_writes_conditions_of_its_own_node(agent: Caller, cluster: ControlPlane) -> None:
    code, said = conditions(agent, a_condition(), a_condition("Other"))
    assert code == 200, said
    assert json.loads(said)["metadata"]["uid"]
    code, said = conditions(agent)  # learns the UID
    assert code == 200, said
    written = cluster.get(f"{NODES}/{MINE}")["status"]["conditions"]
    assert {c["type"]: c["status"] for c in written} == {
        **dict.fromkeys(KUBELETS, "False"),
        "KernelDeadlock": "True",
        "Other": "True",
    }


def test_it_writes_events_about_its_own_node_and_counts_on(agent: Caller) -> None:
    event = an_event(MINE)
    event["metadata"]["name"] = f"{MINE}.{id(agent)}"
    code, said = agent.ask("POST", EVENTS, event)
    assert code == 201, said
    path = f"{EVENTS}/{event['metadata']['name']}"
    code, said = agent.ask("PATCH", path, {"count": 2, "lastTimestamp": T, "message": "n"})
    assert code == 200, said


def test_it_writes_about_its_machine(agent: Caller) -> None:
    about = {"kind": "Machine", "apiVersion": "kubenode.io/v1alpha1", "name": MINE}
    event = an_event(MINE, involvedObject=about, related={"kind": "Node", "name": "another"})
    event["metadata"]["name"] = f"machine.{id(agent)}"
    code, said = agent.ask("POST", EVENTS, event)
    assert code == 201, said


def test_it_writes_what_host_its_machine_is(agent: Caller, cluster: ControlPlane) -> None:
    host = {"bootID": "b2", "os": "debian-12", "kernel": "6.1", "arch": "amd64", "agent": "0.3"}
    code, said = agent.ask("PATCH", f"{MACHINES}/{MINE}/status", {"status": {"host": host}})
    assert code == 200, said
    status = cluster.get(f"{MACHINES}/{MINE}")["status"]
    assert (status["host"], status["phase"]) == (host, "Running")


def test_it_renews_its_own_lease(agent: Caller) -> None:
    lease = {"metadata": {"name": MINE}, "spec": {"holderIdentity": MINE}}
    assert agent.ask("POST", LEASES, lease)[0] in (201, 409)
    assert agent.ask("PATCH", f"{LEASES}/{MINE}", lease)[0] == 200


def test_a_node_says_which_machine_is_behind_it(cluster: ControlPlane) -> None:
    """By the annotation kubenode.io/machine: then nobody of the node's own name is its agent."""
    admin = Caller(cluster, "admin", ["system:masters"])
    path = f"{NODES}/{THEIRS}"
    note = {"metadata": {"annotations": {"kubenode.io/machine": "sh-113"}}}
    assert admin.ask("PATCH", path, note)[0] == 200
    try:
        named = Caller(cluster, user("sh-113"), [GROUP])
        assert conditions(named, a_condition(), node=THEIRS)[0] == 200
        same = Caller(cluster, user(THEIRS), [GROUP])
        assert conditions(same, a_condition(), node=THEIRS)[0] == 403
    finally:
        admin.ask("PATCH", path, {"metadata": {"annotations": {"kubenode.io/machine": None}}})


# ---- what it may not


def refused(answer: tuple[int, str], why: str) -> None:
    code, said = answer
    assert code == 403, said
    assert why in said


@pytest.mark.parametrize("type_", KUBELETS)
def test_no_condition_of_kubelet(agent: Caller, type_: str) -> None:
    why = "leaves the conditions of kubelet and node controller as they are"
    refused(conditions(agent, a_condition(type_)), why)
    refused(conditions(agent, {"type": type_, "lastHeartbeatTime": "2026-01-02T12:00:00Z"}), why)
    refused(conditions(agent, {"type": type_, "$patch": "delete"}), why)


def test_kubelets_conditions_are_neither_replaced_nor_doubled(agent: Caller) -> None:
    why = "leaves the conditions of kubelet and node controller as they are"
    merge = "application/merge-patch+json"
    refused(conditions(agent, a_condition(), kind=merge), why)
    doubled = [a_condition(t, "False") for t in (*KUBELETS, "Ready")]
    refused(conditions(agent, *doubled, kind=merge), why)


def test_no_more_conditions_than_a_node_needs(agent: Caller) -> None:
    refused(conditions(agent, *[a_condition(f"C{n}") for n in range(100)]), "at most 100")


@pytest.mark.parametrize(
    "status",
    [
        {"capacity": {"cpu": "400"}},
        {"allocatable": {"cpu": "400"}},
        {"addresses": [{"type": "InternalIP", "address": "10.0.0.66"}]},
        {"nodeInfo": {"bootID": "another"}},
        {"volumesInUse": ["v"]},
        {"volumesAttached": [{"name": "v", "devicePath": "/dev/x"}]},
        {"daemonEndpoints": {"kubeletEndpoint": {"Port": 66}}},
        {"images": [{"names": ["x"]}]},
        {"phase": "Running"},
        {"features": {"supplementalGroupsPolicy": True}},
    ],
    ids=lambda status: next(iter(status)),
)
def test_no_other_field_of_the_nodes_status(agent: Caller, status: dict[str, Any]) -> None:
    refused(
        conditions(agent, a_condition(), status=status),
        "an agent writes conditions and no other field of its node's status",
    )


def test_no_field_of_the_nodes_status_is_taken_away(agent: Caller) -> None:
    merge = "application/merge-patch+json"
    refused(conditions(agent, kind=merge, status={"addresses": None}), "removes no field")


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"pool": "gpu"}},
        {"labels": {"a": None}},
        {"annotations": {"kubenode.io/machine": "another"}},
        {"annotations": {"c": None}},
        {"finalizers": ["a.b/c"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]},
    ],
    ids=str,
)
def test_no_metadata_of_the_node(agent: Caller, metadata: dict[str, Any]) -> None:
    answer = conditions(agent, a_condition(), metadata=metadata)
    refused(answer, "an agent changes no metadata of its node")


def test_no_spec_of_the_node_slips_through_the_status(agent: Caller, cluster: ControlPlane) -> None:
    code, _ = conditions(agent, a_condition(), spec={"unschedulable": True})
    assert code in (200, 403)
    assert "unschedulable" not in cluster.get(f"{NODES}/{MINE}")["spec"]


def test_no_other_node(agent: Caller) -> None:
    answer = conditions(agent, a_condition(), node=THEIRS)
    refused(answer, "may write the conditions of its own node only")


@pytest.mark.parametrize(
    "changes",
    [
        {"involvedObject": {"kind": "Node", "name": THEIRS}},
        {"involvedObject": {"kind": "Pod", "name": MINE, "namespace": "default"}},
        {"involvedObject": {"kind": "Machine", "name": THEIRS}},
        {"involvedObject": {}},
        {"reportingInstance": THEIRS},
        {"reportingInstance": ""},
        {"source": {"component": "kubelet"}},
        {"reportingComponent": "node-controller"},
    ],
    ids=str,
)
def test_no_event_about_another_or_for_another(agent: Caller, changes: dict[str, Any]) -> None:
    event = an_event(MINE, **changes)
    event["metadata"]["name"] = "refused"
    code, said = agent.ask("POST", EVENTS, event)
    assert code == 403, said


def test_no_event_that_another_wrote(agent: Caller) -> None:
    code, said = agent.ask("PATCH", f"{EVENTS}/kubelets", {"message": "all is well"})
    assert code == 403, said


@pytest.mark.parametrize(
    "changes",
    [
        {"involvedObject": {"name": THEIRS}},
        {"reportingInstance": THEIRS},
        {"source": {"component": "kubelet"}},
    ],
    ids=str,
)
def test_an_own_event_does_not_become_anothers(agent: Caller, changes: dict[str, Any]) -> None:
    event = an_event(MINE)
    event["metadata"]["name"] = f"mine.{id(agent)}"
    assert agent.ask("POST", EVENTS, event)[0] in (201, 409)
    code, said = agent.ask("PATCH", f"{EVENTS}/{event['metadata']['name']}", changes)
    assert code == 403, said


COMPONENTS = MACHINES.replace("machines", "machinecomponents")
SECRETS = "/api/v1/namespaces/kubenode-components/secrets"


def test_it_reads_its_machine_and_what_its_components_are(
    cluster: ControlPlane, agent: Caller
) -> None:
    code, said = agent.ask("GET", f"{MACHINES}?fieldSelector=metadata.name%3D{MINE}")
    assert code == 200, said
    assert [one["metadata"]["name"] for one in json.loads(said)["items"]] == [MINE]
    assert agent.ask("GET", f"{COMPONENTS}/containerd-2.1.4")[0] == 404
    assert agent.ask("GET", f"{SECRETS}/registry")[0] == 403, "none of its components needs it"
    assert agent.ask("GET", f"{SECRETS.replace('secrets', 'configmaps')}/registry")[0] == 404
    components = [{"name": "runc", "revision": "1-0123456789", "attempt": 1, "state": "Healthy"}]
    body = {"status": {"components": components}}
    code, said = agent.ask("PATCH", f"{MACHINES}/{MINE}/status", body)
    assert code == 200, said


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", f"{MACHINES}/{THEIRS}/status", {"status": {"components": []}}),
        ("PATCH", f"{MACHINES}/{MINE}", {"spec": {"components": []}}),
        ("PATCH", f"{MACHINES}/{MINE}", {"spec": {"permit": None}}),
        ("POST", COMPONENTS, {}),
        ("GET", COMPONENTS, None),
        ("GET", COMPONENTS.replace("components", "componentsets"), None),
        ("GET", SECRETS, None),
        ("POST", SECRETS, {}),
        ("PATCH", f"{SECRETS}/registry", {"data": {}}),
        ("GET", "/api/v1/namespaces/kubenode-system/secrets/registry", None),
        ("GET", "/api/v1/namespaces/default/configmaps/x", None),
    ],
    ids=str,
)
def test_invariant_03_nothing_else_of_machines_and_components(
    agent: Caller, method: str, path: str, body: Any
) -> None:
    code, said = agent.ask(method, path, body)
    assert code == 403, said


MACHINE_FIELDS: dict[str, Any] = {
    field.alias or name: {} for name, field in MachineStatus.model_fields.items()
}


@pytest.mark.parametrize("field", sorted(MACHINE_FIELDS.keys() - set(WRITTEN_BY_AGENT)))
def test_no_other_field_of_the_machines_status(agent: Caller, field: str) -> None:
    value: Any = "Failed" if field == "phase" else {"x": "y"}
    if field in ("observedGeneration",):
        value = 9
    if field in ("conditions",):
        value = [{"type": "Healthy", "status": "True", "reason": "R", "lastTransitionTime": T}]
    if field in ("initializedAt",):
        value = T
    code, said = agent.ask("PATCH", f"{MACHINES}/{MINE}/status", {"status": {field: value}})
    assert code in (403, 422), said


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", f"{MACHINES}/{THEIRS}/status", {"status": {"host": {"bootID": "x"}}}),
        ("PATCH", f"{MACHINES}/{MINE}/status", {"status": {"phase": None}}),
        ("PATCH", f"{MACHINES}/{MINE}", {"spec": {"mode": "Observe"}}),
        ("POST", MACHINES, a_machine("own-3")),
        ("DELETE", f"{MACHINES}/{MINE}", None),
        ("POST", NODES, a_node("own-3")),
        ("PATCH", f"{NODES}/{MINE}", {"spec": {"unschedulable": True}}),
        ("PUT", f"{NODES}/{MINE}/status", a_node(MINE)),
        ("DELETE", f"{NODES}/{MINE}", None),
        ("GET", f"{NODES}/{MINE}", None),
        ("GET", f"{NODES}/{MINE}/proxy/pods", None),
        ("GET", EVENTS, None),
        ("DELETE", EVENTS, None),
        ("DELETE", f"{EVENTS}/kubelets", None),
        ("POST", EVENTS.replace("default", "kube-system"), an_event(MINE)),
        ("GET", "/api/v1/namespaces/kubenode-agents/pods", None),
        ("POST", "/api/v1/namespaces/kubenode-agents/serviceaccounts/kubenode-agent/token", {}),
        ("PATCH", f"{LEASES}/{THEIRS}", {"spec": {"holderIdentity": "me"}}),
        ("GET", "/api/v1/secrets", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_everything_else_is_forbidden(agent: Caller, method: str, path: str, body: Any) -> None:
    code, said = agent.ask(method, path, body)
    assert code == 403, said


def test_a_token_that_is_bound_to_no_node_is_nobodys(cluster: ControlPlane) -> None:
    text = cluster.kubectl("create", "token", "-n", "kubenode-agents", "kubenode-agent")
    nobody = Bearer(cluster, text.stdout.strip())
    assert conditions(nobody, a_condition())[0] == 403
    assert nobody.ask("POST", EVENTS, an_event(MINE))[0] == 403
    host = {"status": {"host": {"bootID": "x"}}}
    assert nobody.ask("PATCH", f"{MACHINES}/{MINE}/status", host)[0] == 403


def test_the_policies_hold_an_agent_even_with_an_administrators_rights(
    cluster: ControlPlane,
) -> None:
    both = Caller(cluster, user(MINE), [GROUP, "system:masters"])
    said = "an agent writes the conditions of its node and nothing else of it"
    refused(both.ask("PATCH", f"{NODES}/{MINE}", {"metadata": {"labels": {"x": "y"}}}), said)
    refused(both.ask("DELETE", f"{NODES}/{MINE}"), said)
    refused(both.ask("POST", NODES, a_node("own-3")), said)
    said = "an agent writes Events of its node in namespace default and deletes none"
    refused(both.ask("DELETE", f"{EVENTS}/kubelets"), said)
    said = "an agent writes the status of its machine and nothing else of it"
    refused(both.ask("PATCH", f"{MACHINES}/{MINE}", {"spec": {"mode": "Observe"}}), said)
    modern = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {
        "metadata": {"name": "modern"},
        "regarding": {"kind": "Node", "name": THEIRS},
        "eventTime": "2026-01-01T12:00:00.000000Z",
        "type": "Warning",
        "reason": "R",
        "action": "A",
        "reportingController": "kernel-monitor",
        "reportingInstance": MINE,
    }
    refused(both.ask("POST", modern, event), "may write Events about its own node only")
