"""Changing objects: PUT, the patch types, status, conflicts, generations."""

import asyncio
from collections import Counter
from copy import deepcopy

import pytest
from support.contract_api import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    ContractApi,
    Obj,
    Reply,
    a_configmap,
    a_foo,
    a_lease,
    a_pod,
)

pytestmark = pytest.mark.integration


# ---- PUT


async def test_put_replaces(api: ContractApi) -> None:
    made = await api.made(api.configmaps, a_configmap("c", {"a": "1"}))
    reply = await api.put(f"{api.configmaps}/c", a_configmap("c", {"b": "2"}))
    assert reply.code == 200
    assert reply.body["data"] == {"b": "2"}
    assert reply.meta["uid"] == made.meta["uid"]
    assert reply.meta["creationTimestamp"] == made.meta["creationTimestamp"]
    assert reply.rv > made.rv


async def test_put_of_a_stale_version_conflicts(api: ContractApi) -> None:
    stale = (await api.made(api.configmaps, a_configmap("c"))).body
    await api.patch(f"{api.configmaps}/c", {"data": {"a": "1"}})
    reply = await api.put(f"{api.configmaps}/c", stale)
    assert (reply.code, reply.reason) == (409, "Conflict")


async def test_put_of_another_uid_conflicts(api: ContractApi) -> None:
    await api.made(api.configmaps, a_configmap("c"))
    body = a_configmap("c", uid="00000000-0000-0000-0000-000000000000")
    reply = await api.put(f"{api.configmaps}/c", body)
    assert (reply.code, reply.reason) == (409, "Conflict")


async def test_put_under_another_name_is_refused(api: ContractApi) -> None:
    await api.made(api.configmaps, a_configmap("c"))
    reply = await api.put(f"{api.configmaps}/c", a_configmap("d"))
    assert (reply.code, reply.reason) == (400, "BadRequest")


async def test_put_without_a_version_is_refused_where_it_could_lose_writes(
    api: ContractApi,
) -> None:
    await api.made(api.leases, a_lease("l", "a"))
    assert (await api.put(f"{api.leases}/l", a_lease("l", "b"))).code == 422
    await api.made(api.foos, a_foo("x"))
    assert (await api.put(f"{api.foos}/x", a_foo("x", a=2))).code == 422


async def test_put_to_a_missing_name(api: ContractApi) -> None:
    assert (await api.put(f"{api.configmaps}/c", a_configmap("c"))).code == 404
    assert (await api.put(f"{api.foos}/x", a_foo("x", {"resourceVersion": "1"}))).code == 404
    assert (await api.put(f"{api.leases}/l", a_lease("l", "a"))).code == 201


async def test_lease_is_taken_by_one(api: ContractApi) -> None:
    lease = (await api.made(api.leases, a_lease("l", "nobody"))).body
    codes = []
    for holder in ("a", "b"):
        lease["spec"]["holderIdentity"] = holder
        codes.append((await api.put(f"{api.leases}/l", lease)).code)
    assert codes == [200, 409]


async def test_twenty_writers_lose_no_count(api: ContractApi) -> None:
    path = f"{api.configmaps}/counter"
    await api.made(api.configmaps, a_configmap("counter", {"n": "0"}))

    async def add_one() -> int:
        for attempt in range(200):
            current = (await api.get(path)).body
            current["data"]["n"] = str(int(current["data"]["n"]) + 1)
            reply = await api.put(path, current)
            if reply.code == 200:
                return attempt
            assert reply.code == 409
        raise AssertionError("never won")

    async with asyncio.TaskGroup() as writers:
        for _ in range(20):
            writers.create_task(add_one())
    assert (await api.get(path)).body["data"]["n"] == "20"


async def test_one_of_twenty_takes_a_version(api: ContractApi) -> None:
    lease = (await api.made(api.leases, a_lease("l", "nobody"))).body

    async def take(holder: int) -> Reply:
        mine = deepcopy(lease)
        mine["spec"]["holderIdentity"] = f"holder-{holder}"
        return await api.put(f"{api.leases}/l", mine)

    replies = await asyncio.gather(*(take(n) for n in range(20)))
    assert Counter(reply.code for reply in replies) == {200: 1, 409: 19}
    [won] = [reply for reply in replies if reply.code == 200]
    assert (await api.get(f"{api.leases}/l")).spec == won.spec


# ---- merge patch


async def test_merge_patch_removes_by_null_and_replaces_lists(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x", labels={"a": "1", "b": "2"}, conditions=[{"type": "A"}]))
    patch = {"spec": {"labels": {"a": None, "c": "3"}, "conditions": [{"type": "B"}]}}
    reply = await api.patch(f"{api.foos}/x", patch)
    assert reply.spec["labels"] == {"b": "2", "c": "3"}
    assert reply.spec["conditions"] == [{"type": "B"}]


async def test_patch_with_a_stale_version_conflicts(api: ContractApi) -> None:
    made = await api.made(api.configmaps, a_configmap("c"))
    await api.patch(f"{api.configmaps}/c", {"data": {"a": "1"}})
    stale = {"metadata": {"resourceVersion": made.meta["resourceVersion"]}, "data": {"a": "2"}}
    reply = await api.patch(f"{api.configmaps}/c", stale)
    assert (reply.code, reply.reason) == (409, "Conflict")


async def test_patch_of_a_missing_object_is_not_found(api: ContractApi) -> None:
    assert (await api.patch(f"{api.configmaps}/c", {"data": {"a": "1"}})).code == 404


async def test_patch_cannot_change_identity(api: ContractApi) -> None:
    made = await api.made(api.configmaps, a_configmap("c"))
    assert (await api.patch(f"{api.configmaps}/c", {"metadata": {"name": "d"}})).code == 400
    await api.made(api.foos, a_foo("x"))
    for change in ({"kind": "Secret"}, {"apiVersion": "v2"}):
        assert (await api.patch(f"{api.configmaps}/c", change)).code == 422, change
        assert (await api.patch(f"{api.foos}/x", change)).code in (400, 422), change
    reply = await api.patch(f"{api.configmaps}/c", {"metadata": {"uid": "other"}})
    assert reply.code == 422
    assert (await api.get(f"{api.configmaps}/c")).meta["uid"] == made.meta["uid"]


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
async def test_unknown_patch_type_is_refused(api: ContractApi, content_type: str) -> None:
    await api.made(api.configmaps, a_configmap("c"))
    reply = await api.patch(f"{api.configmaps}/c", {"data": {"a": "1"}}, content_type)
    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")


async def test_a_write_that_changes_nothing_keeps_the_version(api: ContractApi) -> None:
    made = await api.made(api.foos, a_foo("x"))
    patched = await api.patch(f"{api.foos}/x", {"spec": {"a": 1}})
    put = await api.put(f"{api.foos}/x", made.body)
    assert made.rv == patched.rv == put.rv


async def test_dry_run_of_a_patch_is_not_stored(api: ContractApi) -> None:
    made = await api.made(api.configmaps, a_configmap("c"))
    reply = await api.patch(f"{api.configmaps}/c?dryRun=All", {"data": {"a": "1"}})
    assert reply.body["data"] == {"a": "1"}
    after = await api.get(f"{api.configmaps}/c")
    assert after.rv == made.rv
    assert "data" not in after.body


# ---- JSON patch


async def test_json_patch_operations(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x", conditions=[{"type": "A"}, {"type": "B"}]))
    patch = [
        {"op": "test", "path": "/spec/a", "value": 1},
        {"op": "replace", "path": "/spec/a", "value": 2},
        {"op": "add", "path": "/spec/conditions/1", "value": {"type": "M"}},
        {"op": "add", "path": "/spec/conditions/-", "value": {"type": "Z"}},
        {"op": "remove", "path": "/spec/conditions/0"},
        {"op": "add", "path": "/metadata/labels", "value": {"a.b/c": "abc"}},
        {"op": "copy", "from": "/metadata/labels/a.b~1c", "path": "/spec/node"},
        {"op": "move", "from": "/spec/node", "path": "/spec/word"},
    ]
    reply = await api.patch(f"{api.foos}/x", patch, JSON_PATCH)
    assert reply.code == 200, reply.body
    assert (reply.spec["a"], reply.spec["word"]) == (2, "abc")
    assert "node" not in reply.spec
    assert [c["type"] for c in reply.spec["conditions"]] == ["M", "B", "Z"]
    assert reply.meta["labels"] == {"a.b/c": "abc"}


async def test_json_patch_replaces_an_absent_field(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x"))
    patch = [{"op": "replace", "path": "/spec/node", "value": "n1"}]
    reply = await api.patch(f"{api.foos}/x", patch, JSON_PATCH)
    assert (reply.code, reply.spec.get("node")) == (200, "n1")


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ([{"op": "test", "path": "/spec/a", "value": 5}], 422),
        ([{"op": "replace", "path": "/spec/none/deeper", "value": 5}], 422),
        ([{"op": "replace", "path": "/spec/conditions/0", "value": 5}], 422),
        ([{"op": "test", "path": "/spec/none", "value": 5}], 422),
        ([{"op": "unknown", "path": "/spec/a"}], 422),
        ([{"op": "remove", "path": "/spec/none"}], 422),
        ([{"op": "add", "path": "/spec/none/deeper", "value": 5}], 422),
        ({"op": "add"}, 400),
    ],
)
async def test_json_patch_that_does_not_fit_is_refused(
    api: ContractApi, patch: object, code: int
) -> None:
    made = await api.made(api.foos, a_foo("x"))
    reply = await api.patch(f"{api.foos}/x", patch, JSON_PATCH)
    assert reply.code == code, reply.body
    assert (await api.get(f"{api.foos}/x")).rv == made.rv


# ---- strategic merge patch


async def test_strategic_merge_joins_containers_by_name(api: ContractApi) -> None:
    await api.made(api.pods, a_pod(name="p"))
    patch = {"spec": {"containers": [{"name": "c1", "image": "x:2"}]}}
    reply = await api.patch(f"{api.pods}/p", patch, STRATEGIC)
    assert [(c["name"], c["image"]) for c in reply.spec["containers"]] == [
        ("c1", "x:2"),
        ("c2", "y:1"),
    ]


async def test_strategic_merge_joins_conditions_by_type_and_obeys_directives(
    api: ContractApi,
) -> None:
    await api.made(api.pods, a_pod(name="p"))
    for kind in ("A", "B"):
        patch = {"status": {"conditions": [{"type": kind, "status": "True"}]}}
        await api.patch(f"{api.pods}/p/status", patch, STRATEGIC)
    order = {"$setElementOrder/conditions": [{"type": "B"}, {"type": "A"}]}
    reply = await api.patch(f"{api.pods}/p/status", {"status": order}, STRATEGIC)
    assert [c["type"] for c in reply.status["conditions"]] == ["B", "A"]
    gone = {"conditions": [{"type": "B", "$patch": "delete"}]}
    reply = await api.patch(f"{api.pods}/p/status", {"status": gone}, STRATEGIC)
    assert [c["type"] for c in reply.status["conditions"]] == ["A"]


async def test_strategic_merge_of_taints_replaces_them(api: ContractApi) -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": api.ns}}
    path = f"/api/v1/nodes/{api.ns}"
    await api.made("/api/v1/nodes", {**body, "spec": {"taints": [taint]}})
    patch = {"spec": {"taints": [{"key": "b", "effect": "NoExecute", "value": "v"}]}}
    reply = await api.patch(path, patch, STRATEGIC)
    await api.delete(path)
    assert [taint["key"] for taint in reply.spec["taints"]] == ["b"]


async def test_strategic_merge_of_finalizers_is_a_union(api: ContractApi) -> None:
    await api.made(api.configmaps, a_configmap("c", finalizers=["a.b/one"]))
    path = f"{api.configmaps}/c"
    reply = await api.patch(path, {"metadata": {"finalizers": ["a.b/two"]}}, STRATEGIC)
    assert sorted(reply.meta["finalizers"]) == ["a.b/one", "a.b/two"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/one", "a.b/two"]}}
    assert "finalizers" not in (await api.patch(path, patch, STRATEGIC)).meta


async def test_strategic_merge_of_a_custom_resource_is_refused(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x"))
    reply = await api.patch(f"{api.foos}/x", {"spec": {"a": 7}}, STRATEGIC)
    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")


# ---- status, generation, spec of pods and nodes


async def test_status_endpoint_writes_status_alone(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x"))
    patch = {"status": {"n": 1}, "spec": {"a": 9}, "metadata": {"labels": {"l": "1"}}}
    reply = await api.patch(f"{api.foos}/x/status", patch)
    assert (reply.status, reply.spec["a"]) == ({"n": 1}, 1)
    assert "labels" not in reply.meta


async def test_main_endpoint_leaves_status_alone(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x"))
    await api.patch(f"{api.foos}/x/status", {"status": {"n": 1}})
    reply = await api.patch(f"{api.foos}/x", {"status": {"n": 2}, "spec": {"a": 9}})
    assert (reply.status, reply.spec["a"]) == ({"n": 1}, 9)
    reply = await api.put(f"{api.foos}/x", a_foo("x", reply.meta))
    assert reply.status == {"n": 1}


async def test_status_of_a_built_in_kind_may_carry_labels(api: ContractApi) -> None:
    await api.made(api.pods, a_pod(name="p"))
    patch = {"status": {"phase": "Running"}, "metadata": {"labels": {"l": "1"}}}
    reply = await api.patch(f"{api.pods}/p/status", patch)
    assert reply.status["phase"] == "Running"
    assert reply.meta["labels"] == {"l": "1"}


async def test_status_can_be_put_and_read(api: ContractApi) -> None:
    body = (await api.made(api.foos, a_foo("x"))).body
    reply = await api.put(f"{api.foos}/x/status", {**body, "status": {"n": 3}})
    assert reply.status == {"n": 3}
    assert (await api.get(f"{api.foos}/x/status")).status == {"n": 3}
    assert (await api.put(f"{api.foos}/x/status", {**body, "status": {"n": 4}})).code == 409


async def test_status_of_a_kind_without_one_is_not_found(api: ContractApi) -> None:
    await api.made(api.configmaps, a_configmap("c"))
    assert (await api.patch(f"{api.configmaps}/c/status", {"status": {}})).code == 404


async def test_only_a_change_of_spec_counts_as_a_generation(api: ContractApi) -> None:
    made = await api.made(api.foos, a_foo("x"))
    path = f"{api.foos}/x"
    status = await api.patch(f"{path}/status", {"status": {"n": 1}})
    label = await api.patch(path, {"metadata": {"labels": {"l": "1"}}})
    spec = await api.patch(path, {"spec": {"a": 2}})
    assert [r.meta["generation"] for r in (made, status, label, spec)] == [1, 1, 1, 2]


async def test_deletion_counts_as_a_generation(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x", {"finalizers": ["a.b/c"]}))
    await api.delete(f"{api.foos}/x")
    reply = await api.get(f"{api.foos}/x")
    assert reply.meta["generation"] == 2
    await api.patch(f"{api.foos}/x", {"metadata": {"finalizers": None}})


async def test_pod_spec_changes_in_image_and_tolerations_alone(api: ContractApi) -> None:
    await api.made(api.pods, a_pod(name="p"))
    path = f"{api.pods}/p"
    image = [{"name": "c1", "image": "x:9"}]
    assert (await api.patch(path, {"spec": {"containers": image}}, STRATEGIC)).code == 200
    current = (await api.get(path)).spec.get("tolerations", [])
    added = [*current, {"key": "k", "operator": "Exists"}]
    assert (await api.patch(path, {"spec": {"tolerations": added}})).code == 200
    changes: list[Obj] = [{"nodeName": "n"}, {"restartPolicy": "Never"}, {"tolerations": []}]
    for change in changes:
        reply = await api.patch(path, {"spec": change})
        assert (reply.code, reply.reason) == (422, "Invalid"), change


@pytest.mark.parametrize(
    "taints",
    [
        [{"key": "k", "effect": "Nothing"}],
        [{"key": "bad key", "effect": "NoSchedule"}],
        [{"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "NoSchedule"}],
    ],
)
async def test_bad_taints_are_refused(api: ContractApi, taints: list[object]) -> None:
    name = f"{api.ns}-taints"
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    await api.made("/api/v1/nodes", body)
    reply = await api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})
    await api.delete(f"/api/v1/nodes/{name}")
    assert (reply.code, reply.reason) == (422, "Invalid")


@pytest.mark.parametrize("how", ["create", "put", MERGE, STRATEGIC, JSON_PATCH])
async def test_unknown_field_is_refused_told_or_dropped_as_asked(
    api: ContractApi, how: str
) -> None:
    await api.made(api.configmaps, a_configmap("c", {"k": "v"}))

    async def write(validation: str) -> Reply:
        query = f"?dryRun=All&fieldValidation={validation}"
        body: object = {**a_configmap("c", {"k": "v"}), "dada": 1}
        match how:
            case "create":
                made = {**a_configmap("d"), "dada": 1}
                return await api.post(f"{api.configmaps}{query}", made)
            case "put":
                return await api.put(f"{api.configmaps}/c{query}", body)
            case "application/json-patch+json":
                body = [{"op": "add", "path": "/dada", "value": 1}]
            case _:
                pass
        return await api.patch(f"{api.configmaps}/c{query}", body, how)

    strict, warned, ignored = [await write(word) for word in ("Strict", "Warn", "Ignore")]
    assert strict.code == (400 if how in ("create", "put") else 422)
    assert 'unknown field "dada"' in strict.body["message"]
    assert 'unknown field \\"dada\\"' in warned.headers["Warning"]
    assert "Warning" not in ignored.headers
    for reply in (warned, ignored):
        assert (reply.code < 300, "dada" in reply.body) == (True, False)


async def test_unknown_fields_are_named_by_their_paths(api: ContractApi) -> None:
    body = a_pod(name="p", zz=1)
    body["spec"]["containers"][1]["imagee"] = "x"
    reply = await api.post(f"{api.pods}?fieldValidation=Strict", body)
    for path in ("metadata.zz", "spec.containers[1].imagee"):
        assert f'unknown field "{path}"' in reply.body["message"]
    reply = await api.post(f"{api.foos}?fieldValidation=Strict", a_foo("x", {"zz": 1}))
    assert 'unknown field "metadata.zz"' in reply.body["message"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.labels", {"k": 1}),
        ("metadata.labels", ["k"]),
        ("metadata.finalizers", "a.b/c"),
        ("spec.terminationGracePeriodSeconds", "5"),
        ("spec.terminationGracePeriodSeconds", 1.5),
        ("spec.hostNetwork", 1),
        ("spec.containers", "x"),
        ("spec.containers", [{"name": "c", "image": "x", "resources": {"limits": {"cpu": "a"}}}]),
        ("spec.nodeName", True),
        ("spec", "x"),
    ],
)
async def test_value_of_another_type_cannot_be_read(
    api: ContractApi, path: str, value: object
) -> None:
    body = a_pod(name="p")
    *way, last = path.split(".")
    for key in way:
        body = body[key]
    body[last] = value
    whole = a_pod(name="p") if way else body
    if way:
        whole[way[0]] = body
    reply = await api.post(api.pods, whole)
    assert (reply.code, reply.reason) == (400, "BadRequest"), reply.body
    await api.made(api.pods, a_pod(name="p"))
    patched = await api.patch(f"{api.pods}/p", {way[0]: {last: value}} if way else {path: value})
    assert (patched.code, patched.reason) == (422, "Invalid"), patched.body


async def test_binding_places_a_pod_once(api: ContractApi) -> None:
    await api.made(api.pods, a_pod(name="p", node=""))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n9"},
    }
    assert (await api.post(f"{api.pods}/p/binding", binding)).code == 201
    assert (await api.get(f"{api.pods}/p")).spec["nodeName"] == "n9"
    reply = await api.post(f"{api.pods}/p/binding", binding)
    assert (reply.code, reply.reason) == (409, "Conflict")


async def test_empty_fields_of_built_in_kinds_are_absent(api: ContractApi) -> None:
    await api.made(api.configmaps, a_configmap("c", {"k": "v"}))
    reply = await api.patch(f"{api.configmaps}/c", {"data": {"k": None}})
    assert (reply.code, "data" in reply.body) == (200, False)
    name = f"node-{api.ns}"
    cordoned = {"unschedulable": True, "taints": [{"key": "ill", "effect": "NoSchedule"}]}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": cordoned}
    await api.made("/api/v1/nodes", body)
    reply = await api.patch(
        f"/api/v1/nodes/{name}", {"spec": {"unschedulable": False, "taints": []}}
    )
    assert reply.code == 200
    assert not {"unschedulable", "taints"} & reply.spec.keys()
    await api.delete(f"/api/v1/nodes/{name}")
