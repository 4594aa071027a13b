"""OpenAPI v3, as much as kubectl reads: schemas by kind, and that field validation is supported.

Schemas of CRDs are complete; built-in kinds are open objects, so `kubectl explain` knows only ours.
OpenAPI v2 is not served.
"""

from kubenode.apiserver.errors import Obj, unsupported
from kubenode.apiserver.registry import Registry, Resource

PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
OPEN: Obj = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def index(registry: Registry) -> Obj:
    """The answer of /openapi/v3."""
    return {
        "paths": {
            _path(*gv): {"serverRelativeURL": f"/openapi/v3/{_path(*gv)}?hash={_hash(found)}"}
            for gv, found in registry.versions().items()
        }
    }


def _hash(found: list[Resource]) -> int:
    """Clients cache a document by it; a changed CRD has a new Schema object."""
    return hash(tuple((resource.plural, id(resource.schema)) for resource in found)) & 0xFFFFFFFF


def document(registry: Registry, parts: list[str]) -> Obj:
    """The answer of /openapi/v3/apis/GROUP/VERSION (`parts` after v3). Raises ApiError 404."""
    for gv, found in registry.versions().items():
        if _path(*gv).split("/") == parts:
            return _document(_path(*gv), found)
    raise unsupported(404, f"OpenAPI of {'/'.join(parts)!r}", "see /openapi/v3 for what is served")


def _document(path: str, found: list[Resource]) -> Obj:
    paths: Obj = {}
    schemas: Obj = {}
    for resource in found:
        gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        schema = resource.schema.source if resource.schema is not None else OPEN
        schemas[_schema_name(resource)] = {**schema, "x-kubernetes-group-version-kind": [gvk]}
        scope = "/namespaces/{namespace}" if resource.namespaced else ""
        base = f"/{path}{scope}/{resource.plural}"
        writes = (("post", base), ("put", f"{base}/{{name}}"), ("patch", f"{base}/{{name}}"))
        for method, where in writes:
            paths.setdefault(where, {})[method] = {
                "parameters": PARAMETERS,
                "x-kubernetes-action": method,
                "x-kubernetes-group-version-kind": gvk,
                "responses": {"200": {"description": "OK"}},
            }
        paths[f"{base}/{{name}}"]["get"] = _reading(resource, gvk)
    return {
        "openapi": "3.0.0",
        "info": {"title": "KubeNode embedded API server", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _reading(resource: Resource, gvk: Obj) -> Obj:
    """`kubectl explain` finds the schema through the answer of a GET."""
    reference = {"$ref": f"#/components/schemas/{_schema_name(resource)}"}
    content = {"application/json": {"schema": reference}}
    return {
        "x-kubernetes-action": "get",
        "x-kubernetes-group-version-kind": gvk,
        "responses": {"200": {"description": "OK", "content": content}},
    }


def _schema_name(resource: Resource) -> str:
    group = reversed(resource.group.split(".")) if resource.group else ("io", "k8s", "api", "core")
    return ".".join([*group, resource.version, resource.kind])
