"""Server-side apply: who owns which field, what an apply takes away, and what it must refuse."""

import json
import random
from typing import Any

import pytest
from support.contract_api import (
    APPLY,
    MERGE,
    ContractApi,
    Obj,
    Reply,
    a_configmap,
    a_foo,
    a_pod,
)

pytestmark = pytest.mark.integration


async def apply(api: ContractApi, path: str, body: Obj, manager: str, query: str = "") -> Reply:
    return await api.patch(f"{path}?fieldManager={manager}{query}", body, APPLY)


def owners(reply: Reply) -> list[tuple[str, str, str, Any]]:
    """(manager, operation, subresource, fields) of each entry."""
    return [
        (e["manager"], e["operation"], e.get("subresource", ""), e["fieldsV1"])
        for e in reply.meta.get("managedFields", ())
    ]


async def test_apply_creates(api: ContractApi) -> None:
    reply = await apply(api, f"{api.configmaps}/c", a_configmap("c", {"a": "1"}), "t")
    assert reply.code == 201
    assert owners(reply) == [("t", "Apply", "", {"f:data": {"f:a": {}}})]
    again = await apply(api, f"{api.configmaps}/c", a_configmap("c", {"a": "1"}), "t")
    assert (again.code, again.rv) == (200, reply.rv), "nothing changed"


async def test_apply_reads_yaml(api: ContractApi) -> None:
    body = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c, namespace: {api.ns}}}\n".encode()
    path = f"{api.configmaps}/c?fieldManager=t"
    assert (await api.call("PATCH", path, body, APPLY)).code == 201


@pytest.mark.parametrize(
    ("change", "query", "code"),
    [
        ({}, "fieldManager=", 422),
        ({}, "fieldManager=t&force=true", 201),
        ({"kind": "Bar"}, "fieldManager=t", 400),
        ({"apiVersion": "x/v1"}, "fieldManager=t", 400),
        ({"metadata": {}}, "fieldManager=t", 400),
        ({"metadata": {"name": "y"}}, "fieldManager=t", 400),
        ({"metadata": {"name": "x", "managedFields": [{"manager": "t"}]}}, "fieldManager=t", 400),
        ({"spec": {"a": 1, "zzz": 1}}, "fieldManager=t", 500),
        ({"spec": {"a": "1"}}, "fieldManager=t", 500),
        ({"spec": {"a": 99}}, "fieldManager=t", 422),
        ({"spec": {"a": 1, "byType": [{"type": "A"}, {"type": "A"}]}}, "fieldManager=t", 500),
        ({"spec": {"a": 1, "byType": [{"status": "A"}]}}, "fieldManager=t", 500),
    ],
)
async def test_apply_says_who_and_what_it_is(
    api: ContractApi, change: Obj, query: str, code: int
) -> None:
    reply = await api.patch(f"{api.foos}/x?{query}", {**a_foo("x"), **change}, APPLY)
    assert reply.code == code, reply.body


async def test_only_an_apply_may_force(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x"))
    reply = await api.patch(f"{api.foos}/x?force=true", {"spec": {"a": 2}})
    assert (reply.code, reply.reason) == (422, "Invalid")


async def test_field_of_another_is_a_conflict_unless_it_is_forced(api: ContractApi) -> None:
    path = f"{api.foos}/x"
    await apply(api, path, a_foo("x", node="n1"), "m1")
    await api.patch(f"{path}?fieldManager=m2", {"spec": {"mode": "On"}})
    wanted = a_foo("x", node="n2", mode="Off")
    refused = await apply(api, path, wanted, "m3")
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert set(refused.causes) == {"FieldManagerConflict"}
    told = refused.body["message"]
    assert 'conflicts with "m1":\n- .spec.node' in told
    assert 'conflicts with "m2" using contract.kubenode.test/v1:\n- .spec.mode' in told
    same = await apply(api, path, a_foo("x", node="n1"), "m3")
    assert same.code == 200, "the same value is no conflict: both own it"
    forced = await apply(api, path, wanted, "m3", "&force=true")
    assert (forced.code, forced.spec["node"], forced.spec["mode"]) == (200, "n2", "Off")
    assert [(name, fields) for name, _, _, fields in owners(forced)] == [
        ("m1", {"f:spec": {"f:a": {}}}),
        ("m3", {"f:spec": {"f:a": {}, "f:mode": {}, "f:node": {}}}),
    ]


async def test_apply_treats_a_list_without_type_as_atomic(api: ContractApi) -> None:
    await apply(api, f"{api.foos}/x", a_foo("x", conditions=[{"type": "A"}]), "m1")
    reply = await apply(api, f"{api.foos}/x", a_foo("x", conditions=[{"type": "B"}]), "m2")
    assert reply.code == 409
    assert "FieldManagerConflict" in reply.causes


async def test_apply_joins_a_list_by_its_keys(api: ContractApi) -> None:
    path = f"{api.foos}/x"
    await apply(api, path, a_foo("x", byType=[{"type": "A"}, {"type": "B"}]), "m1")
    reply = await apply(api, path, a_foo("x", byType=[{"type": "C"}, {"type": "B"}]), "m2")
    assert [item["type"] for item in reply.spec["byType"]] == ["A", "C", "B"]
    reply = await apply(api, path, a_foo("x", byType=[{"type": "B", "status": "1"}]), "m1")
    assert reply.spec["byType"] == [{"type": "C"}, {"type": "B", "status": "1"}]


async def test_apply_joins_lists_of_built_in_kinds(api: ContractApi) -> None:
    pod = a_pod(name="p")
    await apply(api, f"{api.pods}/p", pod, "m1")
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]
    one = {**pod, "spec": {"containers": [{"name": "c1", "image": "x:1"}]}}
    reply = await apply(api, f"{api.pods}/p", one, "m2")
    assert [c["name"] for c in reply.spec["containers"]] == ["c1", "c2"]
    service: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"}}
    service["spec"] = {"containers": [{"name": "c", "image": "x", "ports": ports}]}
    reply = await apply(api, f"{api.pods}/q", service, "m1")
    [(_, _, _, fields)] = owners(reply)
    keys = fields["f:spec"]["f:containers"]['k:{"name":"c"}']["f:ports"].keys()
    assert keys == {
        'k:{"containerPort":80,"protocol":"TCP"}',
        'k:{"containerPort":80,"protocol":"UDP"}',
    }


async def test_apply_removes_a_field_that_is_no_longer_applied(api: ContractApi) -> None:
    path = f"{api.foos}/x"
    both = a_foo("x", {"labels": {"l": "1"}}, b="mine", deep={"y": "1"}, labels={"k": "v"})
    await apply(api, path, both, "m1")
    await apply(api, path, a_foo("x", labels={"k": "v"}), "m2")
    reply = await apply(api, path, a_foo("x"), "m1")
    assert (reply.code, reply.spec["b"]) == (200, "dflt")
    assert (reply.spec["labels"], "deep" in reply.spec) == ({"k": "v"}, False)
    assert not reply.meta.get("labels")


async def test_status_is_applied_to_its_own_endpoint(api: ContractApi) -> None:
    path = f"{api.foos}/x"
    body = {**a_foo("x"), "status": {"n": 1}}
    assert (await apply(api, f"{path}/status", body, "m1")).code == 404
    made = await apply(api, path, body, "m1")
    assert (made.code, made.status) == (201, {})
    reply = await apply(api, f"{path}/status", {**body, "spec": {"a": 9}}, "m1")
    assert (reply.code, reply.status, reply.spec["a"]) == (200, {"n": 1}, 1)
    assert [(operation, sub) for _, operation, sub, _ in owners(reply)] == [
        ("Apply", ""),
        ("Apply", "status"),
    ]


async def test_managed_fields_tell_who_wrote(api: ContractApi) -> None:
    reply = await api.post(f"{api.configmaps}?fieldManager=me", a_configmap("c", {"a": "1"}))
    [entry] = reply.meta["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("me", "Update", "v1")
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}
    reply = await api.patch(f"{api.configmaps}/c?fieldManager=you", {"data": {"a": "2", "b": "3"}})
    assert owners(reply) == [
        ("me", "Update", "", {"f:data": {}}),
        ("you", "Update", "", {"f:data": {"f:a": {}, "f:b": {}}}),
    ]


async def test_managed_fields_may_be_cleared_and_not_forged(api: ContractApi) -> None:
    path = f"{api.configmaps}/c"
    made = await api.post(f"{api.configmaps}?fieldManager=me", a_configmap("c", {"a": "1"}))
    bad = {"metadata": {"managedFields": [{"manager": "x", "operation": "Sideways"}]}}
    reply = await api.patch(f"{path}?fieldManager=me", bad)
    assert reply.code != 200 or owners(reply) == owners(made)
    reply = await api.patch(path, {"metadata": {"managedFields": [{}]}})
    assert (reply.code, owners(reply)) == (200, [])


async def test_first_apply_to_an_object_names_its_earlier_writers(api: ContractApi) -> None:
    await api.made(api.configmaps, a_configmap("c", {"a": "1"}))
    await api.patch(f"{api.configmaps}/c", {"metadata": {"managedFields": [{}]}})
    reply = await apply(api, f"{api.configmaps}/c", a_configmap("c", {"a": "2"}), "m1")
    assert reply.code == 409
    assert "before-first-apply" in reply.body["message"]


async def test_apply_takes_over_what_was_applied_on_the_client_side(api: ContractApi) -> None:
    path = f"{api.configmaps}/c"
    note = "kubectl.kubernetes.io/last-applied-configuration"
    given = a_configmap("c", {"a": "1", "b": "2"})
    noted = a_configmap("c", {"a": "1", "b": "2"}, annotations={note: json.dumps(given)})
    await api.post(f"{api.configmaps}?fieldManager=kubectl-client-side-apply", noted)
    await api.patch(f"{path}?fieldManager=other", {"data": {"b": "3"}})
    wanted = a_configmap("c", {"a": "9", "b": "9"})
    assert (await apply(api, path, wanted, "someone")).code == 409
    refused = await apply(api, path, wanted, "kubectl")
    assert refused.body["message"].endswith('conflict with "other" using v1: .data.b')
    reply = await apply(api, path, a_configmap("c", {"a": "9"}), "kubectl")
    assert (reply.code, reply.body["data"]) == (200, {"a": "9", "b": "3"})
    assert json.loads(reply.meta["annotations"][note])["data"] == {"a": "9"}


async def test_dry_run_of_an_apply_is_not_stored(api: ContractApi) -> None:
    path = f"{api.foos}/x"
    assert (await apply(api, path, a_foo("x"), "m1", "&dryRun=All")).code == 201
    assert (await api.get(path)).code == 404


# ---- the same on both, at random

STEPS = 60


def a_step(draw: random.Random) -> tuple[str, str, Any, str]:
    """(name of a patch type or "status", manager, body, query) of a write."""
    how = draw.choices((APPLY, MERGE, "status", "put"), (6, 3, 1, 1))[0]
    spec: Obj = {"a": draw.choice((1, 1, 2))}
    for name, values in (
        ("node", ("n1", "n2")),
        ("b", ("x", "y")),
        ("labels", ({"k": "1"}, {"k": "2"}, {"l": "1"}, {})),
        ("deep", ({"y": "1"}, {"x": 3}, {})),
        ("conditions", ([{"type": "A"}], [{"type": "B"}], [])),
        ("byType", ([{"type": "A", "status": "1"}], [{"type": "B"}, {"type": "A"}], [])),
        ("free", ({"p": {"q": 1}}, {"p": {"r": [1]}}, {"s": 1})),
    ):
        if draw.random() < 0.35:
            spec[name] = draw.choice(values)
    metadata: Obj = draw.choice(({}, {}, {"labels": {"w": draw.choice("12")}}))
    body = a_foo("x", metadata)
    body["spec"] = spec
    if how == "status":
        body["status"] = {"n": draw.choice((1, 2)), "conditions": [{"type": draw.choice("AB")}]}
    force = "&force=true" if how == APPLY and draw.random() < 0.5 else ""
    return how, draw.choice(("m1", "m2", "m3")), body, force


async def play(api: ContractApi, how: str, manager: str, body: Any, query: str) -> Reply:
    path = f"{api.foos}/x"
    asked = f"?fieldManager={manager}{query}"
    if how == "status":
        return await api.patch(f"{path}/status{asked}", body, MERGE)
    if how == "put":
        stored = (await api.get(path)).body
        stored["spec"] = body["spec"]
        return await api.put(f"{path}{asked}", stored)
    return await api.patch(f"{path}{asked}", body, how)


def outcome(reply: Reply) -> Any:
    if reply.code >= 300:
        return reply.code, reply.reason, sorted(reply.causes), reply.body["message"]
    entries = sorted(owners(reply), key=json.dumps)
    rest = (reply.meta.get("labels"), reply.meta["generation"])
    return reply.code, reply.spec, reply.status, rest, entries


@pytest.mark.parametrize("seed", range(3))
async def test_random_applies_come_to_the_same_on_both(
    both: tuple[ContractApi, ContractApi], seed: int
) -> None:
    embedded, real = both
    draw = random.Random(seed)
    for api in both:
        await api.made(f"{api.foos}?fieldManager=m1", a_foo("x"))
    for number in range(STEPS):
        step = a_step(draw)
        ours, theirs = outcome(await play(embedded, *step)), outcome(await play(real, *step))
        assert ours == theirs, f"seed {seed}, step {number}: {step}"
