"""A host was taken over: what its agent's key can store in the API server, and what is refused.

Real kube-apiserver, the chart's RBAC and policies, both identities of an agent. Who writes about
other hosts is tested in test_node_rights.py, test_rights.py and test_probe_rights.py.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.agent_jobs import (
    EVENTS,
    JOBS,
    LEASES,
    MACHINES,
    NODES,
    PROBES,
    Caller,
    Operator,
    a_machine,
    a_probe,
    an_agent_job,
    an_event,
    asked,
    both_identities,
    install,
)
from support.control_plane import ControlPlane

pytestmark = pytest.mark.integration

MINE, THEIRS = "taken-1", "taken-2"
STRATEGIC = "application/strategic-merge-patch+json"
T = "2026-01-01T12:00:00Z"
COMPONENTS = "/api/v1/namespaces/kubenode-components"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/kubenode-components"
CLOCK = {"kubenode.io/clock-offset": "-3"}
BOOT = {"kubenode.io/boot-id": "0d1f6f2c-3b7a-4b0e-9a53-0a4a3c8f2f11"}


class Taken:
    """Whoever has the agent's key."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, str]:
        return self._caller.ask(method, path, body, kind)

    def refused(self, *request: Any, why: str) -> None:
        code, said = self.ask(*request)
        assert code in (403, 422), said[:2000]
        assert why in said, said[:2000]


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    install(control_plane)
    admin = Caller(control_plane, "admin", ["system:masters"])
    operator = Operator(control_plane)
    for name in (MINE, THEIRS):
        assert admin.ask("POST", NODES, {"metadata": {"name": name}})[0] == 201
        control_plane.kubectl("create", "-f", "-", stdin=json.dumps(a_machine(name)))
        operator.ask(a_probe(f"probe-{name}", name, "disk"))
        operator.make(an_agent_job(f"job-{name}", name, "a.service"), asked("boot-1"))
    lease = {"metadata": {"name": THEIRS}, "spec": {"holderIdentity": THEIRS}}
    assert admin.ask("POST", LEASES, lease)[0] == 201
    yield control_plane
    control_plane.kubectl("delete", "node,knm", MINE, THEIRS)
    control_plane.kubectl("delete", "knhp", f"probe-{MINE}", f"probe-{THEIRS}")
    control_plane.kubectl("delete", "knj", f"job-{MINE}", f"job-{THEIRS}")
    control_plane.kubectl("delete", "event", "--all")
    control_plane.kubectl("delete", "lease", "-n", "kubenode-agents", "--all")
    pod = ["pod", "--all", "--force", "--grace-period=0"]
    control_plane.kubectl("delete", "-n", "kubenode-agents", *pod)


@pytest.fixture(scope="module")
def identities(cluster: ControlPlane) -> dict[str, Caller]:
    return both_identities(cluster, MINE)


@pytest.fixture(params=["certificate", "token"])
def agent(identities: dict[str, Caller], request: pytest.FixtureRequest) -> Taken:
    return Taken(identities[request.param])


# ---- its answers: finding 1a


@pytest.mark.parametrize(
    "value", [[], {}, [[]], {"a": {"b": 1}}, "x" * 1025], ids=lambda value: str(value)[:9]
)
def test_an_answer_is_a_scalar_of_bounded_length(agent: Taken, value: Any) -> None:
    body = {"status": {"answer": {"a": value}, "answeredAt": T}}
    agent.refused("PATCH", f"{PROBES}/probe-{MINE}/status", body, why="status.answer")


def test_an_answer_has_short_names_of_fields(agent: Taken) -> None:
    path = f"{PROBES}/probe-{MINE}/status"
    names = {"status": {"answer": {"x" * 129: 1}}}
    agent.refused("PATCH", path, names, why="at most 128 characters")
    many = {"status": {"answer": {f"f{n}": 1 for n in range(65)}}}
    agent.refused("PATCH", path, many, why="status.answer")


@pytest.mark.parametrize(
    "requests",
    [
        {"r0s0a1": {"state": "Done", "output": {"a": [1]}}},
        {"r0s0a1": {"state": "Done", "output": "x" * 4097}},
        {f"r{n}s0a1": {"state": "Done"} for n in range(129)},
        {"r" * 65: {"state": "Done"}},
    ],
    ids=["an object", "too long", "too many", "a long name"],
)
def test_an_answer_to_a_job_is_a_text_of_bounded_length(agent: Taken, requests: Any) -> None:
    body = {"status": {"agent": {"requests": requests}}}
    agent.refused("PATCH", f"{JOBS}/job-{MINE}/status", body, why="status")


@pytest.mark.parametrize(
    "status",
    [
        {"host": {"os": "x" * 65}},
        {"host": {"os": {"a": [1]}}},
        {"components": [{"name": f"c{n}"} for n in range(65)]},
        {"components": [{"name": "c", "message": "x" * 1025}]},
        {"components": [{"name": "c", "drift": [{"kind": "File"}] * 11}]},
    ],
    ids=["long", "deep", "components", "message", "drift"],
)
def test_what_it_says_of_its_machine_is_bounded(agent: Taken, status: Any) -> None:
    agent.refused("PATCH", f"{MACHINES}/{MINE}/status", {"status": status}, why="status.")


# ---- its Node: finding 14


def condition(type_: str = "KernelDeadlock", **changes: str) -> dict[str, str]:
    made = {"type": type_, "status": "True", "reason": "R", "message": "m"}
    return {**made, "lastHeartbeatTime": T, "lastTransitionTime": T, **changes}


def tell(agent: Taken, *conditions: dict[str, str]) -> tuple[int, str]:
    body = {"status": {"conditions": list(conditions)}}
    return agent.ask("PATCH", f"{NODES}/{MINE}/status", body, STRATEGIC)


def test_conditions_as_large_as_an_agent_writes_are_accepted(agent: Taken) -> None:
    largest = condition(reason="R" * 128, message="ä" * 1024)
    assert tell(agent, largest)[0] == 200
    code, said = tell(agent, *[condition(f"C{n}", message="m" * 364) for n in range(90)])
    assert code == 200, said
    assert tell(agent, *[{"type": f"C{n}", "$patch": "delete"} for n in range(90)])[0] == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"message": "<" * 1025},
        {"reason": "R" * 129},
        {"type": "T" * 317},
        {"status": "x" * 64},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_texts_of_a_condition_are_bounded(agent: Taken, changes: dict[str, str]) -> None:
    code, said = tell(agent, {**condition(), **changes})
    assert code == 403, said[:1000]
    assert "a condition of an agent has" in said


def test_its_node_does_not_grow_to_933_kb(agent: Taken) -> None:
    code, said = tell(agent, condition(message="<" * 930_000))
    assert code == 403, said[:1000]
    # Neither at once nor little by little.
    code, said = tell(agent, *[condition(f"C{n}", message="m" * 1024) for n in range(90)])
    assert (code, "65536 characters" in said) == (403, True), said[:1000]
    codes = [tell(agent, condition(f"C{n}", message="m" * 1024))[0] for n in range(90)]
    assert codes.count(200) <= 64
    assert tell(agent, *[{"type": f"C{n}", "$patch": "delete"} for n in range(90)])[0] == 200


def test_a_long_condition_of_another_writer_does_not_silence_the_agent(
    agent: Taken, cluster: ControlPlane
) -> None:
    admin = Taken(Caller(cluster, "admin", ["system:masters"]))
    others = [condition(f"Other{n}", message="m" * 20_000, reason="R" * 500) for n in range(5)]
    assert tell(admin, *others)[0] == 200
    try:
        code, said = tell(agent, condition(message="short", status="False"))
        assert code == 200, said
    finally:
        tell(admin, *[{"type": f"Other{n}", "$patch": "delete"} for n in range(5)])


# ---- its Lease and its Events: LOW


def lease(name: str = MINE, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"holderIdentity": name, **(spec or {})},
    }


def test_the_heartbeat_is_accepted(agent: Taken) -> None:
    assert agent.ask("POST", LEASES, lease(annotations=BOOT))[0] in (201, 409)
    spec = {"leaseDurationSeconds": 40, "renewTime": "2026-01-01T12:00:00.000000Z"}
    code, said = agent.ask(
        "PATCH", f"{LEASES}/{MINE}", lease(spec=spec, annotations={**BOOT, **CLOCK})
    )
    assert code == 200, said
    gone = {"kubenode.io/clock-offset": None}
    assert agent.ask("PATCH", f"{LEASES}/{MINE}", lease(annotations=gone))[0] == 200


METADATA: dict[str, dict[str, Any]] = {
    "finalizer": {"finalizers": ["a.b/c"]},
    "owner": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]},
    "label": {"labels": {"a": "b"}},
    "annotation": {"annotations": {"a": "b"}},
    "240 KB": {"annotations": {"a": "x" * 240_000}},
    "a long boot ID": {"annotations": {"kubenode.io/boot-id": "x" * 129}},
    "a long offset": {"annotations": {"kubenode.io/clock-offset": "x" * 129}},
}


@pytest.mark.parametrize("what", METADATA)
def test_the_metadata_of_its_lease_is_frozen(
    agent: Taken, cluster: ControlPlane, what: str
) -> None:
    cluster.kubectl("delete", "lease", "-n", "kubenode-agents", MINE, "--ignore-not-found")
    assert agent.ask("POST", LEASES, lease())[0] == 201
    why = "agent changes two annotations"
    agent.refused("PATCH", f"{LEASES}/{MINE}", lease(**METADATA[what]), why=why)
    cluster.kubectl("delete", "lease", "-n", "kubenode-agents", MINE, "--timeout=20s")
    agent.refused("POST", LEASES, lease(**METADATA[what]), why=why)


def test_its_lease_is_held_by_itself(agent: Taken) -> None:
    agent.ask("POST", LEASES, lease())
    spec = {"holderIdentity": "x" * 300_000}
    agent.refused("PATCH", f"{LEASES}/{MINE}", lease(spec=spec), why="held by that agent")


@pytest.mark.parametrize("field", ["preferredHolder", "strategy"])
def test_its_lease_names_no_other_holder(agent: Taken, cluster: ControlPlane, field: str) -> None:
    """Refused, or dropped where the server's feature CoordinatedLeaderElection is off."""
    agent.ask("POST", LEASES, lease())
    code, _ = agent.ask("PATCH", f"{LEASES}/{MINE}", lease(spec={field: "x" * 300_000}))
    assert code in (200, 403, 422)
    assert field not in cluster.get(f"{LEASES}/{MINE}")["spec"]


def test_what_others_wrote_into_its_lease_stays(agent: Taken, cluster: ControlPlane) -> None:
    agent.ask("POST", LEASES, lease())
    admin = Caller(cluster, "admin", ["system:masters"])
    theirs: dict[str, Any] = {"labels": {"a": "b"}, "annotations": {"a": "b"}}
    assert admin.ask("PATCH", f"{LEASES}/{MINE}", lease(**theirs))[0] == 200
    assert agent.ask("PATCH", f"{LEASES}/{MINE}", lease(annotations=BOOT))[0] == 200
    removals: list[dict[str, Any]] = [{"labels": {"a": None}}, {"annotations": {"a": None}}]
    for gone in removals:
        why = "agent changes two annotations"
        agent.refused("PATCH", f"{LEASES}/{MINE}", lease(**gone), why=why)


@pytest.mark.parametrize(
    "changes",
    [
        {"message": "<" * 1025},
        {"reason": "R" * 129},
        {"action": "a" * 129},
        {"source": {"component": "c" * 254}},
        {"reportingComponent": "c" * 254},
        {"involvedObject": {"kind": "Node", "name": MINE, "fieldPath": "x" * 300_000}},
        {"related": {"kind": "Node", "name": MINE, "fieldPath": "x" * 300_000}},
        {"related": {"kind": "Node", "name": "x" * 300_000}},
        {"metadata": {"annotations": {"a": "x" * 240_000}}},
        {"metadata": {"finalizers": ["a.b/c"]}},
        {"metadata": {"labels": {"a": "b"}}},
    ],
    ids=lambda changes: f"{next(iter(changes))}-{next(iter(dict(changes).values()))}"[:40],
)
def test_its_events_are_small_and_can_be_deleted(agent: Taken, changes: dict[str, Any]) -> None:
    event = an_event(MINE, **changes)
    mine = {"name": f"{MINE}.large", "namespace": "default"}
    event["metadata"] = {**mine, **changes.get("metadata", {})}
    agent.refused("POST", EVENTS, event, why="Event of an agent")


def test_an_event_does_not_grow_later(agent: Taken) -> None:
    event = an_event(MINE, message="ä" * 1024, reason="R" * 128)
    event["metadata"]["name"] = f"{MINE}.later"
    code, said = agent.ask("POST", EVENTS, event)
    assert code in (201, 409), said
    path = f"{EVENTS}/{MINE}.later"
    agent.refused("PATCH", path, {"message": "x" * 1025}, why="Event of an agent")
    notes = {"metadata": {"annotations": {"a": "b"}}}
    agent.refused("PATCH", path, notes, why="Event of an agent")
    assert agent.ask("PATCH", path, {"count": 3, "message": "again"})[0] == 200


# ---- what is not its own


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", f"{NODES}/{THEIRS}/status", {"status": {"conditions": []}}),
        ("PATCH", f"{PROBES}/probe-{THEIRS}/status", {"status": {"answer": {"a": 1}}}),
        ("PATCH", f"{JOBS}/job-{THEIRS}/status", {"status": {"agent": {"requests": {}}}}),
        ("PATCH", f"{MACHINES}/{THEIRS}/status", {"status": {"host": {"os": "x"}}}),
        ("PATCH", f"{LEASES}/{THEIRS}", lease(THEIRS)),
        ("DELETE", f"{LEASES}/{MINE}", None),
        ("DELETE", f"{PROBES}/probe-{MINE}", None),
        ("POST", EVENTS, an_event(THEIRS)),
        ("GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests", None),
        ("GET", "/api/v1/secrets", None),
        ("GET", f"{COMPONENTS}/secrets", None),
        ("GET", f"{COMPONENTS}/secrets/theirs", None),
        ("POST", f"{RBAC}/roles", {"metadata": {"name": "own"}, "rules": []}),
        ("PATCH", f"{RBAC}/roles/kubenode:agent:{MINE}", {"rules": []}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_objects_of_others_are_refused(agent: Taken, method: str, path: str, body: Any) -> None:
    code, said = agent.ask(method, path, body)
    assert code == 403, said
