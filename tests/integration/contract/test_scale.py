"""The scale subresource: what `kubectl scale` and autoscalers speak to."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.contract_api import GROUP, JSON_PATCH, ContractApi, a_crd, a_pod

pytestmark = pytest.mark.integration

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
INTEGER = {"type": "integer", "minimum": 0, "maximum": 9}
PATHS = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


@pytest.fixture
async def path(api: ContractApi) -> AsyncIterator[str]:
    """Path of a new kind that is scaled, with one object `x` of 2."""
    plural = f"s{uuid.uuid4().hex[:8]}"
    selector = {"type": "string"}
    schema = {"type": "object", "properties": {"replicas": INTEGER, "selector": selector}}
    crd = a_crd(plural, plural.title(), schema)
    version = crd["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = schema
    version["subresources"] = {"status": {}, "scale": PATHS}
    await api.made(CRDS, crd)
    path = api.path(plural, GROUP)
    await api.until(path, lambda reply: reply.code == 200)
    kind = {"apiVersion": f"{GROUP}/v1", "kind": plural.title()}
    await api.made(path, {**kind, "metadata": {"name": "x"}, "spec": {"replicas": 2}})
    await api.until(f"{path}/x/scale", lambda reply: reply.code == 200)
    yield path
    await api.delete(f"{CRDS}/{plural}.{GROUP}")


async def test_a_crd_with_the_subresource_is_scaled(api: ContractApi, path: str) -> None:
    scale = await api.get(f"{path}/x/scale")
    assert (scale.body["kind"], scale.body["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale.spec, scale.status) == ({"replicas": 2}, {"replicas": 0})
    assert scale.meta.keys() <= {
        *("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }
    body: dict[str, Any] = {**scale.body, "spec": {"replicas": 5}}
    put = await api.put(f"{path}/x/scale", body)
    assert put.code == 200 and put.spec == {"replicas": 5}
    found = await api.get(f"{path}/x")
    assert found.spec["replicas"] == 5 and found.meta["generation"] == 2
    assert put.rv == found.rv
    assert (await api.put(f"{path}/x/scale", body)).code == 409

    status = {"status": {"replicas": 4, "selector": "set=x"}}
    await api.patch(f"{path}/x/status", status)
    assert (await api.get(f"{path}/x/scale")).status == {"replicas": 4, "selector": "set=x"}


async def test_a_scale_is_patched_down_to_nothing(api: ContractApi, path: str) -> None:
    merged = await api.patch(f"{path}/x/scale", {"spec": {"replicas": 3}})
    assert merged.spec == {"replicas": 3}
    ops = [{"op": "replace", "path": "/spec/replicas", "value": 0}]
    none = await api.patch(f"{path}/x/scale", ops, JSON_PATCH)
    assert none.code == 200 and none.spec == {}
    assert (await api.get(f"{path}/x")).spec["replicas"] == 0


async def test_a_scale_that_makes_no_sense_is_refused(api: ContractApi, path: str) -> None:
    assert (await api.patch(f"{path}/x/scale", {"spec": {"replicas": -1}})).code == 422
    # The kind's own schema has its say too.
    assert (await api.patch(f"{path}/x/scale", {"spec": {"replicas": 10}})).code == 422
    assert (await api.get(f"{path}/y/scale")).code == 404
    assert (await api.get(f"{api.foos}/x/scale")).code == 404


async def test_scale_is_told_of_in_discovery(api: ContractApi, path: str) -> None:
    plural = path.rsplit("/", 1)[-1]
    found = await api.get(f"/apis/{GROUP}/v1")
    entry = next(r for r in found.body["resources"] if r["name"] == f"{plural}/scale")
    assert (entry["group"], entry["version"], entry["kind"]) == ("autoscaling", "v1", "Scale")
    assert sorted(entry["verbs"]) == ["get", "patch", "update"]


async def test_a_workload_is_scaled(api: ContractApi) -> None:
    """A StatefulSet: its controller creates pods, which the server refuses or keeps; the count
    that is wished for is its own."""
    selector = {
        "matchLabels": {"app": "a"},
        "matchExpressions": [
            {"key": "tier", "operator": "NotIn", "values": ["x", "b"]},
            {"key": "old", "operator": "DoesNotExist"},
        ],
    }
    template = {"metadata": {"labels": {"app": "a"}}, "spec": a_pod(node="")["spec"]}
    spec = {"replicas": 0, "serviceName": "s", "selector": selector, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "x"}, "spec": spec}
    path = api.path("statefulsets", "apps")
    await api.made(path, body)
    scale = await api.get(f"{path}/x/scale")
    assert (scale.body["kind"], scale.spec) == ("Scale", {})
    assert scale.status["selector"] == "app=a,!old,tier notin (b,x)"
    patched = await api.patch(f"{path}/x/scale", {"spec": {"replicas": 1}})
    assert (patched.code, patched.spec) == (200, {"replicas": 1})
    found = await api.get(f"{path}/x")
    assert (found.spec["replicas"], found.meta["generation"]) == (1, 2)
