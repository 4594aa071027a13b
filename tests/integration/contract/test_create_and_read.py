"""Creating objects and reading them back, one by one, in lists and in pages."""

import base64
import json

import pytest
from support.contract_api import (
    TABLE,
    ContractApi,
    a_configmap,
    a_foo,
    a_lease,
    a_pod,
)

pytestmark = pytest.mark.integration


async def test_create_gives_identity_and_strips_status(api: ContractApi) -> None:
    body = {**a_pod(name="p1", labels={"app": "a"}), "status": {"phase": "Running"}}
    reply = await api.post(api.pods, body)
    assert reply.code == 201
    assert {"uid", "creationTimestamp", "resourceVersion"} <= reply.meta.keys()
    assert reply.meta["namespace"] == api.ns
    assert reply.meta["generation"] == 1
    assert reply.status["phase"] == "Pending"
    assert reply.spec["restartPolicy"] == "Always"
    assert reply.spec["terminationGracePeriodSeconds"] == 30


async def test_node_keeps_the_status_it_was_created_with(api: ContractApi) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": api.ns},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    reply = await api.made("/api/v1/nodes", body)
    assert reply.status["conditions"][0]["status"] == "True"
    assert "generation" not in reply.meta
    await api.delete(f"/api/v1/nodes/{api.ns}")


async def test_new_node_carries_the_not_ready_taint(api: ContractApi) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"t-{api.ns}"}}
    reply = await api.made("/api/v1/nodes", body)
    await api.delete(f"/api/v1/nodes/t-{api.ns}")
    assert [taint["key"] for taint in reply.spec.get("taints", ())] == [
        "node.kubernetes.io/not-ready"
    ]


async def test_duplicate_is_already_exists(api: ContractApi) -> None:
    await api.made(api.configmaps, a_configmap("one"))
    reply = await api.post(api.configmaps, a_configmap("one"))
    assert (reply.code, reply.reason) == (409, "AlreadyExists")


async def test_generate_name_makes_a_name(api: ContractApi) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}}
    reply = await api.post(api.configmaps, body)
    assert reply.code == 201
    assert reply.meta["name"].startswith("g-")
    assert len(reply.meta["name"]) == 7


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({}, 422),
        ({"name": "Upper"}, 422),
        ({"name": "x" * 254}, 422),
        ({"name": "a", "namespace": "elsewhere"}, 400),
        ({"name": "a", "resourceVersion": "5"}, 500),
        ({"name": "a", "labels": {"bad key": "x"}}, 422),
        ({"name": "a", "labels": {"key": "bad value"}}, 422),
        ({"name": "a", "annotations": {"bad key": "x"}}, 422),
    ],
)
async def test_bad_metadata_is_refused(
    api: ContractApi, metadata: dict[str, object], code: int
) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    assert (await api.post(api.configmaps, body)).code == code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}', 400),
        (b'{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"a"}}', 400),
    ],
)
async def test_bad_body_is_refused(api: ContractApi, body: bytes, code: int) -> None:
    assert (await api.post(api.configmaps, body)).code == code


async def test_body_of_an_unknown_type_is_refused(api: ContractApi) -> None:
    reply = await api.call("POST", api.configmaps, b"x", content_type="text/csv")
    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")


async def test_yaml_body_is_read(api: ContractApi) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: from-yaml\n"
    reply = await api.call("POST", api.configmaps, body, content_type="application/yaml")
    assert reply.code == 201, reply.body
    body = b"metadata:\n  name: from-yaml\ndata: {at: '2026-01-01', k: \"1\", 7: x}\n"
    reply = await api.call("PUT", f"{api.configmaps}/from-yaml", body, "application/yaml")
    assert reply.body["data"] == {"at": "2026-01-01", "k": "1", "7": "x"}


async def test_yaml_time_stays_what_it_is(api: ContractApi) -> None:
    body = b"""apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: l}
spec: {renewTime: 2026-01-01T00:00:00.000000Z}
"""
    reply = await api.call("POST", api.leases, body, "application/yaml")
    assert reply.spec["renewTime"] == "2026-01-01T00:00:00.000000Z"


async def test_answer_in_an_unknown_form_is_refused(api: ContractApi) -> None:
    reply = await api.get(api.configmaps, accept="text/csv")
    assert reply.code == 406


async def test_metadata_alone_is_served(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x", {"labels": {"l": "1"}}))
    form = "as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
    listed = await api.get(api.foos, accept=f"application/json;{form.format('List')}")
    assert listed.body["kind"] == "PartialObjectMetadataList"
    [item] = listed.body["items"]
    one = await api.get(f"{api.foos}/x", accept=f"application/json;{form.format('')}")
    for found in (item, one.body):
        assert (found["kind"], found["metadata"]["labels"]) == ("PartialObjectMetadata", {"l": "1"})
        assert "spec" not in found
    path = f"{api.foos}?watch=true&timeoutSeconds=1"
    watched = await api.get(path, accept=f"application/json;{form.format('')}")
    event = watched.body if isinstance(watched.body, dict) else {}
    assert (event["type"], event["object"]["kind"]) == ("ADDED", "PartialObjectMetadata")


async def test_missing_namespace_is_not_found(api: ContractApi) -> None:
    reply = await api.post("/api/v1/namespaces/does-not-exist/configmaps", a_configmap("a"))
    assert (reply.code, reply.reason) == (404, "NotFound")


async def test_missing_object_is_not_found(api: ContractApi) -> None:
    reply = await api.get(f"{api.configmaps}/none")
    assert (reply.code, reply.reason) == (404, "NotFound")
    assert reply.body["details"] == {"name": "none", "kind": "configmaps"}


async def test_missing_resource_is_not_found(api: ContractApi) -> None:
    assert (await api.get(api.path("nothings"))).code == 404
    assert (await api.get("/apis/no.such.group/v1")).code == 404


async def test_dry_run_is_not_stored(api: ContractApi) -> None:
    reply = await api.post(f"{api.configmaps}?dryRun=All", a_configmap("dry"))
    assert reply.code == 201
    assert (await api.get(f"{api.configmaps}/dry")).code == 404


async def test_unknown_dry_run_is_refused(api: ContractApi) -> None:
    reply = await api.post(f"{api.configmaps}?dryRun=Some", a_configmap("dry"))
    assert (reply.code, reply.reason) == (422, "Invalid")


async def test_null_is_an_absent_field(api: ContractApi) -> None:
    body = {**a_configmap("n"), "data": None}
    body["metadata"]["creationTimestamp"] = None
    reply = await api.post(api.configmaps, body)
    assert reply.code == 201
    assert "data" not in reply.body


async def test_secret_takes_plain_text(api: ContractApi) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    reply = await api.post(api.path("secrets"), {**body, "stringData": {"k": "v"}})
    assert reply.body["data"] == {"k": "dg=="}
    assert reply.body["type"] == "Opaque"
    assert "stringData" not in reply.body


@pytest.mark.parametrize(
    ("containers", "code"),
    [
        ([], 422),
        ([{"name": "c"}], 422),
        ([{"image": "x"}], 422),
        ([{"name": "Upper", "image": "x"}], 422),
        ([{"name": "c", "image": "x"}], 201),
    ],
)
async def test_pod_needs_containers_with_name_and_image(
    api: ContractApi, containers: list[object], code: int
) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    reply = await api.post(api.pods, {**body, "spec": {"containers": containers}})
    assert reply.code == code


@pytest.mark.parametrize(
    ("home", "about", "code"),
    [("default", "", 201), ("own", "", 422), ("own", "own", 201), ("own", "other", 422)],
)
async def test_event_lives_where_its_object_lives(
    api: ContractApi, home: str, about: str, code: int
) -> None:
    namespace = {"own": api.ns}.get(home, home)
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{api.ns}.{home}", "namespace": namespace},
        "involvedObject": {
            "kind": "Node",
            "name": "n",
            "namespace": {"own": api.ns}.get(about, about),
        },
        "reason": "Because",
        "type": "Normal",
    }
    path = f"/api/v1/namespaces/{namespace}/events"
    reply = await api.post(path, body)
    await api.delete(f"{path}/{api.ns}.{home}")
    assert reply.code == code


async def test_event_with_a_time_of_its_own_says_who_reports_what(api: ContractApi) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": api.ns},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reason": "Because",
        "type": "Normal",
    }
    assert (await api.post(api.path("events"), body)).code == 422
    told = {"reportingComponent": "kubenode.io/x", "reportingInstance": "i", "action": "Look"}
    assert (await api.post(api.path("events"), {**body, **told})).code == 201


async def test_events_are_served_in_their_new_group(api: ContractApi) -> None:
    assert (await api.get(api.path("events", "events.k8s.io"))).code == 200


async def test_list_has_kind_version_and_order(api: ContractApi) -> None:
    for name in ("c", "a", "b"):
        await api.made(api.configmaps, a_configmap(name, labels={"mine": "1"}))
    reply = await api.get(f"{api.configmaps}?labelSelector=mine")
    assert reply.body["kind"] == "ConfigMapList"
    assert reply.body["apiVersion"] == "v1"
    assert reply.names == ["a", "b", "c"]
    assert reply.meta["resourceVersion"].isdigit()


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=a", ["one"]),
        ("app==a", ["one"]),
        ("app!=a", ["three", "two"]),
        ("app in (a, b)", ["one", "two"]),
        ("app notin (a)", ["three", "two"]),
        ("app", ["one", "two"]),
        ("!app", ["three"]),
        ("app,tier=x", ["one"]),
        ("n>4", ["two"]),
        ("example.com/k=v", ["three"]),
    ],
)
async def test_label_selector(api: ContractApi, selector: str, names: list[str]) -> None:
    for name, labels in {
        "one": {"app": "a", "tier": "x", "mine": "1"},
        "two": {"app": "b", "n": "5", "mine": "1"},
        "three": {"example.com/k": "v", "mine": "1"},
    }.items():
        await api.made(api.foos, a_foo(name, {"labels": labels}))
    query = selector.replace("%", "%25").replace("=", "%3D").replace(">", "%3E")
    reply = await api.get(f"{api.foos}?labelSelector={query},mine%3D1")
    assert reply.code == 200
    assert reply.names == names


@pytest.mark.parametrize("selector", ["a b", "a in b", "a=b c", "=x", "a in (b", "a,,b"])
async def test_bad_label_selector_is_refused(api: ContractApi, selector: str) -> None:
    query = selector.replace("=", "%3D")
    assert (await api.get(f"{api.foos}?labelSelector={query}")).code == 400


async def test_field_selector(api: ContractApi) -> None:
    await api.made(api.pods, a_pod(name="here", node="n1"))
    await api.made(api.pods, a_pod(name="there", node="n2"))
    for selector, names in (
        ("spec.nodeName%3Dn1", ["here"]),
        ("spec.nodeName!%3Dn1", ["there"]),
        ("metadata.name%3Dthere", ["there"]),
        ("status.phase%3DPending,spec.nodeName%3Dn2", ["there"]),
        ("spec.nodeName%3D", []),
    ):
        assert (await api.get(f"{api.pods}?fieldSelector={selector}")).names == names, selector


async def test_field_selector_of_cordoned_nodes_knows_absent_as_false(api: ContractApi) -> None:
    await api.made(
        "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": api.ns}}
    )
    reply = await api.get("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dfalse")
    await api.delete(f"/api/v1/nodes/{api.ns}")
    assert api.ns in reply.names


@pytest.mark.parametrize(
    ("plural", "selector"),
    [
        ("pods", "spec.containers%3Dx"),
        ("pods", "metadata.labels%3Dx"),
        ("configmaps", "data.x%3D1"),
        ("pods", "spec.nodeName"),
    ],
)
async def test_unsupported_field_selector_is_refused(
    api: ContractApi, plural: str, selector: str
) -> None:
    reply = await api.get(f"{api.path(plural)}?fieldSelector={selector}")
    assert (reply.code, reply.reason) == (400, "BadRequest")


async def test_field_selector_on_custom_resources_needs_a_declared_field(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x", node="n1"))
    await api.made(api.foos, a_foo("y", node="n2"))
    reply = await api.get(f"{api.foos}?fieldSelector=spec.node%3Dn2")
    assert reply.names == ["y"]
    assert (await api.get(f"{api.foos}?fieldSelector=spec.a%3D1")).code == 400


async def test_pages_are_one_snapshot(api: ContractApi) -> None:
    for name in ("a1", "a2", "a3", "b1"):
        await api.made(api.foos, a_foo(name))
    first = await api.get(f"{api.foos}?limit=1")
    assert first.names == ["a1"]
    assert first.meta["remainingItemCount"] == 3
    await api.made(api.foos, a_foo("a2-late"))
    await api.delete(f"{api.foos}/a3")
    await api.patch(f"{api.foos}/b1", {"spec": {"a": 9}})
    second = await api.get(f"{api.foos}?limit=2&continue={first.meta['continue']}")
    assert second.names == ["a2", "a3"]
    third = await api.get(f"{api.foos}?limit=2&continue={second.meta['continue']}")
    assert third.names == ["b1"]
    assert third.body["items"][0]["spec"]["a"] == 1
    assert not third.meta.get("continue")
    assert first.rv == second.rv == third.rv


async def test_bad_continue_is_refused(api: ContractApi) -> None:
    assert (await api.get(f"{api.foos}?limit=1&continue=nonsense")).code == 400


async def test_list_at_an_exact_version(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("first"))
    then = (await api.get(api.foos)).meta["resourceVersion"]
    await api.made(api.foos, a_foo("second"))
    path = f"{api.foos}?resourceVersion={then}&resourceVersionMatch=Exact"
    assert (await api.get(path)).names == ["first"]


async def test_list_at_a_future_version_is_refused(api: ContractApi) -> None:
    now = (await api.get(api.configmaps)).rv
    path = f"{api.configmaps}?limit=1&resourceVersion={now + 1_000_000}"
    reply = await api.get(f"{path}&resourceVersionMatch=NotOlderThan")
    assert reply.code == 504
    assert reply.causes == ["ResourceVersionTooLarge"]


async def test_table_of_a_built_in_kind(api: ContractApi) -> None:
    await api.made(api.leases, a_lease("l", "me"))
    reply = await api.get(api.leases, accept=TABLE)
    assert reply.body["kind"] == "Table"
    names = [column["name"] for column in reply.body["columnDefinitions"]]
    assert names == ["Name", "Holder", "Age"]
    [row] = reply.body["rows"]
    assert row["cells"][:2] == ["l", "me"]
    assert row["object"]["kind"] == "PartialObjectMetadata"


async def test_table_of_a_custom_resource_has_its_columns(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x", a=3))
    ready = {"conditions": [{"type": "Other", "status": "No"}, {"type": "Ready", "status": "True"}]}
    await api.patch(f"{api.foos}/x/status", {"status": ready})
    reply = await api.get(f"{api.foos}/x", accept=TABLE)
    columns = [(c["name"], c["type"]) for c in reply.body["columnDefinitions"]]
    assert columns == [("Name", "string"), ("A", "integer"), ("Ready", "string"), ("Age", "date")]
    assert reply.body["rows"][0]["cells"][:3] == ["x", 3, "True"]


def begun_long_ago(token: str) -> str:
    """A `continue` as it would be if its first page had been read at an early version."""
    content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    if isinstance(content, dict):
        content["rv"] = 2
    else:
        content[0] = 2
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


async def test_page_of_a_past_that_is_forgotten_is_410(api: ContractApi) -> None:
    for name in ("a", "b", "c"):
        await api.made(api.foos, a_foo(name))
    page = await api.get(f"{api.foos}?limit=1")
    await api.patch(f"{api.foos}/b", {"spec": {"a": 2}})
    api.compact()
    again = begun_long_ago(page.meta["continue"])
    reply = await api.get(f"{api.foos}?limit=1&continue={again}")
    assert (reply.code, reply.reason) == (410, "Expired")
    assert (await api.get(f"{api.foos}?limit=1")).names == ["a"], "a list that begins anew goes on"
