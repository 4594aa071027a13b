"""Discovery: the served groups, versions and resources, unaggregated and aggregated.

Source: apiserver `pkg/endpoints/discovery`. kubectl 1.37 requests the aggregated form first.
"""

from collections.abc import Iterator

from simulation.apiserver.errors import Obj, no_such_path
from simulation.apiserver.registry import VERBS, Registry, ServedResource

VERSION = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.2+embedded",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
ROOT_PATHS = (
    "/api",
    "/apis",
    "/healthz",
    "/livez",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/version",
)
AGGREGATED = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
AGGREGATED_TYPE = f"application/json;{AGGREGATED}"
SUBRESOURCE_VERBS = {"status": ("get", "patch", "update"), "eviction": ("create",)}


def _subresources(resource: ServedResource) -> Iterator[tuple[str, Obj, tuple[str, ...]]]:
    """Yield (name, responseKind, verbs) of each subresource."""
    own = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    if resource.status:
        yield "status", own, SUBRESOURCE_VERBS["status"]
    if resource.scale is not None:
        kind = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        yield "scale", kind, SUBRESOURCE_VERBS["status"]
    if "eviction" in resource.subresources:
        kind = {"group": "policy", "version": "v1", "kind": "Eviction"}
        yield "eviction", kind, SUBRESOURCE_VERBS["eviction"]
    if "binding" in resource.subresources:
        yield "binding", {"group": "", "version": "v1", "kind": "Binding"}, ("create",)


def api_versions() -> Obj:
    """Return the response of /api."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group(registry: Registry, name: str) -> Obj:
    """Return the response of /apis/GROUP. Raises ApiError 404."""
    versions = [version for group_, version in registry.versions() if group_ == name]
    if not versions or not name:
        raise no_such_path()
    served = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": served,
        "preferredVersion": served[0],
    }


def groups(registry: Registry) -> Obj:
    """Return the response of /apis."""
    names = dict.fromkeys(name for name, _ in registry.versions() if name)
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [group(registry, name) for name in names],
    }


def resources(registry: Registry, name: str, version: str) -> Obj:
    """Return the response of /api/v1 or /apis/GROUP/VERSION. Raises ApiError 404."""
    served = registry.versions().get((name, version))
    if served is None:
        raise no_such_path()
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{name}/{version}" if name else version,
        "resources": [entry for resource in served for entry in _entries(resource)],
    }


def _entries(resource: ServedResource) -> Iterator[Obj]:
    yield {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": VERBS,
        "shortNames": resource.short,
        "categories": resource.categories,
    }
    for name, kind, verbs in _subresources(resource):
        yield {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **(kind if name in ("eviction", "scale") else {"kind": kind["kind"]}),
            "verbs": verbs,
        }


def aggregated(registry: Registry, core: bool) -> Obj:
    """Return the apidiscovery.k8s.io/v2 response of /api (`core`) or /apis."""
    items: dict[str, list[Obj]] = {}
    for (name, version), served in registry.versions().items():
        if (name == "") is core:
            entries = [_aggregated_entry(resource) for resource in served]
            items.setdefault(name, []).append(
                {"version": version, "resources": entries, "freshness": "Current"}
            )
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {"metadata": {"name": name} if name else {}, "versions": versions}
            for name, versions in items.items()
        ],
    }


def _aggregated_entry(resource: ServedResource) -> Obj:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": VERBS,
        "shortNames": resource.short,
        "categories": resource.categories,
        "subresources": [
            {"subresource": name, "responseKind": kind, "verbs": verbs}
            for name, kind, verbs in _subresources(resource)
        ],
    }
