"""CRDs: installation, schemas, and what becomes of objects that do not fit."""

from typing import Any

import pytest
from support.contract_api import GROUP, ContractApi, a_crd, a_foo

pytestmark = pytest.mark.integration
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_defaults_are_filled_and_unknown_fields_pruned(api: ContractApi) -> None:
    reply = await api.post(api.foos, a_foo("x", zzz=1, deep={"y": "1", "zzz": 1}, free={"any": 1}))
    assert reply.code == 201
    assert reply.spec == {"a": 1, "b": "dflt", "deep": {"x": 7, "y": "1"}, "free": {"any": 1}}
    assert "zzz" in reply.headers.get("Warning", "")


async def test_null_takes_the_default_or_stays_if_nullable(api: ContractApi) -> None:
    reply = await api.post(api.foos, a_foo("x", b=None, maybe=None))
    assert reply.code == 201, reply.body
    assert reply.spec["b"] == "dflt"
    assert reply.spec["maybe"] is None


@pytest.mark.parametrize(
    "spec",
    [
        {"a": 99},
        {"a": -1},
        {"a": "1"},
        {"a": 1.5},
        {"a": None},
        {"a": True},
        {"mode": "Maybe"},
        {"word": "UPPER"},
        {"word": "toolong"},
        {"share": 1.5},
        {"labels": {"k": 1}},
        {"labels": []},
        {"conditions": [{"status": "True"}]},
        {"conditions": [{"type": str(n)} for n in range(4)]},
        {"byType": [{"type": "A"}, {"type": "A"}]},
        {"deep": {"x": "1"}},
    ],
)
async def test_object_that_does_not_fit_is_invalid(api: ContractApi, spec: dict[str, Any]) -> None:
    reply = await api.post(api.foos, a_foo("x", **spec))
    assert (reply.code, reply.reason) == (422, "Invalid"), reply.body
    [field] = spec
    causes = reply.body["details"]["causes"]
    assert any(cause["field"].startswith(f"spec.{field}") for cause in causes), causes


async def test_required_field_is_named(api: ContractApi) -> None:
    body = a_foo("x")
    del body["spec"]["a"]
    reply = await api.post(api.foos, body)
    assert reply.code == 422
    [cause] = reply.body["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("spec.a", "FieldValueRequired")


@pytest.mark.parametrize("share", [3, "5%"])
async def test_int_or_string_takes_both(api: ContractApi, share: object) -> None:
    assert (await api.post(api.foos, a_foo("x", share=share))).code == 201


async def test_strict_validation_refuses_unknown_fields(api: ContractApi) -> None:
    path = f"{api.foos}?fieldValidation=Strict"
    reply = await api.post(path, a_foo("x", zzz=1))
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert 'unknown field "spec.zzz"' in reply.body["message"]
    await api.made(path, a_foo("x"))
    reply = await api.patch(f"{api.foos}/x?fieldValidation=Strict", {"spec": {"zzz": 1}})
    assert reply.code in (400, 422)


async def test_kind_must_be_told(api: ContractApi) -> None:
    body = a_foo("x")
    del body["kind"]
    assert (await api.post(api.foos, body)).code == 400


async def test_patch_is_validated_and_keeps_defaults(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x", b="mine"))
    assert (await api.patch(f"{api.foos}/x", {"spec": {"a": 99}})).code == 422
    reply = await api.patch(f"{api.foos}/x", {"spec": {"b": None}})
    assert reply.spec["b"] == "dflt"


async def test_new_crd_is_established_and_served_until_it_is_deleted(api: ContractApi) -> None:
    group = f"{api.ns}.example.com"
    spec = {"type": "object", "properties": {"a": {"type": "integer"}}}
    crd = a_crd("bars", "Bar", spec, group)
    await api.made(CRDS, crd)
    item = f"{CRDS}/bars.{group}"
    await api.until(
        item,
        lambda reply: any(
            c["type"] == "Established" and c["status"] == "True"
            for c in reply.status.get("conditions") or ()
        ),
    )
    bars = api.path("bars", group)
    await api.until(bars, lambda reply: reply.code == 200)
    discovered = await api.until(
        f"/apis/{group}/v1",
        lambda reply: reply.code == 200 and bool(reply.body["resources"]),
    )
    assert [r["name"] for r in discovered.body["resources"]] == ["bars", "bars/status"]
    bar = {
        "apiVersion": f"{group}/v1",
        "kind": "Bar",
        "metadata": {"name": "x", "finalizers": ["a.b/c"]},
    }
    await api.made(bars, bar)
    assert (await api.delete(item)).code == 200
    await api.until(f"{bars}/x", lambda reply: "deletionTimestamp" in reply.meta)
    assert (await api.get(item)).code == 200  # it waits for its objects
    await api.patch(f"{bars}/x", {"metadata": {"finalizers": None}})
    await api.until(item, lambda reply: reply.code == 404)
    await api.until(bars, lambda reply: reply.code == 404)


@pytest.mark.parametrize("broken", ["name", "schema", "group"])
async def test_broken_crd_is_refused(api: ContractApi, broken: str) -> None:
    crd = a_crd("bars", "Bar", {"type": "object"}, f"{api.ns}.example.com")
    if broken == "name":
        crd["metadata"]["name"] = f"others.{api.ns}.example.com"
    elif broken == "schema":
        del crd["spec"]["versions"][0]["schema"]
    else:
        del crd["spec"]["group"]
    reply = await api.post(CRDS, crd)
    assert (reply.code, reply.reason) == (422, "Invalid")


async def test_crd_is_listed_in_the_group(api: ContractApi) -> None:
    reply = await api.get(f"/apis/{GROUP}")
    assert reply.body["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}
