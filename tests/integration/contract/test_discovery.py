"""Discovery, OpenAPI, health and version: what kubectl and clients ask before they begin."""

import pytest
from support.builtin_fields import text_of
from support.contract_api import AGGREGATED, GROUP, ContractApi

from simulation.apiserver import builtin
from simulation.apiserver.registry import Registry

pytestmark = pytest.mark.integration


async def test_core_group_is_served(api: ContractApi) -> None:
    reply = await api.get("/api/v1")
    assert reply.body["groupVersion"] == "v1"
    served = {r["name"]: r for r in reply.body["resources"]}
    assert served["pods"]["shortNames"] == ["po"]
    assert served["pods"]["namespaced"] is True
    assert served["nodes"]["namespaced"] is False
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(
        served["nodes"]["verbs"]
    )
    assert served["pods/eviction"]["kind"] == "Eviction"
    assert (served["pods/eviction"]["group"], served["pods/eviction"]["version"]) == (
        "policy",
        "v1",
    )
    assert {"nodes/status", "pods/status", "pods/binding"} <= served.keys()
    assert "configmaps/status" not in served


@pytest.mark.parametrize(
    ("group", "plurals"),
    [
        ("apps", {"daemonsets", "deployments", "replicasets", "statefulsets"}),
        ("batch", {"jobs"}),
        ("policy", {"poddisruptionbudgets"}),
        ("coordination.k8s.io", {"leases"}),
        ("storage.k8s.io", {"volumeattachments"}),
        ("certificates.k8s.io", {"certificatesigningrequests"}),
        ("apiextensions.k8s.io", {"customresourcedefinitions"}),
        (
            "rbac.authorization.k8s.io",
            {"clusterroles", "clusterrolebindings", "roles", "rolebindings"},
        ),
        (
            "admissionregistration.k8s.io",
            {
                "mutatingwebhookconfigurations",
                "validatingadmissionpolicies",
                "validatingadmissionpolicybindings",
                "validatingwebhookconfigurations",
            },
        ),
        (GROUP, {"foos"}),
    ],
)
async def test_group_is_served(api: ContractApi, group: str, plurals: set[str]) -> None:
    groups = (await api.get("/apis")).body["groups"]
    assert group in [g["name"] for g in groups]
    resources = (await api.get(f"/apis/{group}/v1")).body["resources"]
    assert plurals <= {r["name"] for r in resources}
    for plural in plurals:
        namespaced = next(r["namespaced"] for r in resources if r["name"] == plural)
        path = api.path(plural, group) if namespaced else f"/apis/{group}/v1/{plural}"
        assert (await api.get(path)).code == 200, plural


async def test_aggregated_discovery(api: ContractApi) -> None:
    reply = await api.get("/api", accept=AGGREGATED)
    assert reply.headers["Content-Type"] == AGGREGATED
    core = reply.body
    assert core["kind"] == "APIGroupDiscoveryList"
    [version] = core["items"][0]["versions"]
    pods = next(r for r in version["resources"] if r["resource"] == "pods")
    assert pods["responseKind"]["kind"] == "Pod"
    assert {"status", "eviction"} <= {s["subresource"] for s in pods["subresources"]}
    groups = (await api.get("/apis", accept=AGGREGATED)).body
    assert GROUP in [item["metadata"]["name"] for item in groups["items"]]


async def test_openapi_v3_knows_the_schema_of_a_custom_resource(api: ContractApi) -> None:
    path = f"apis/{GROUP}/v1"
    index = await api.until("/openapi/v3", lambda reply: path in reply.body["paths"])
    document = (await api.get(index.body["paths"][path]["serverRelativeURL"])).body
    [schema] = [
        s
        for s in document["components"]["schemas"].values()
        if any(k["kind"] == "Foo" for k in s.get("x-kubernetes-group-version-kind", ()))
    ]
    assert schema["properties"]["spec"]["properties"]["a"]["maximum"] == 10


async def test_openapi_v2_is_served(api: ContractApi) -> None:
    document = (await api.get("/openapi/v2")).body
    kinds = {
        kind["kind"]: name
        for name, schema in document["definitions"].items()
        for kind in schema.get("x-kubernetes-group-version-kind", ())
    }
    pod = document["definitions"][kinds["Pod"]]["properties"]["spec"]
    spec = document["definitions"][pod["$ref"].removeprefix("#/definitions/")]["properties"]
    assert spec["containers"]["x-kubernetes-list-map-keys"] == ["name"]
    assert spec["containers"]["x-kubernetes-patch-strategy"] == "merge"


async def test_the_fields_of_the_built_in_kinds_are_those_of_the_real_server(
    api: ContractApi,
) -> None:
    """builtin.txt is up to date; the embedded server's own answer says what the file says."""
    index = (await api.get("/openapi/v3")).body["paths"]
    served = {f"apis/{r.gv}" if r.group else f"api/{r.gv}" for r in Registry()}
    documents = [(await api.get(index[path]["serverRelativeURL"])).body for path in sorted(served)]
    told = text_of(documents, Registry())
    if not api.embedded:
        assert told == builtin.FILE.read_text(), "run python -m support.builtin_fields"
    assert told.count("\n") == builtin.FILE.read_text().count("\n")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health(api: ContractApi, path: str) -> None:
    reply = await api.get(path)
    assert (reply.code, reply.body) == (200, "ok")


async def test_version_names_the_embedded_server(api: ContractApi) -> None:
    reply = await api.get("/version")
    assert (reply.body["major"], reply.body["minor"]) == ("1", "37")
    assert reply.body["gitVersion"].endswith("+embedded") is api.embedded
