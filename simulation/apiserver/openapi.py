"""OpenAPI, as much as kubectl reads: schemas by kind, and that field validation is supported.

Version 3 has one document for each group and version, version 2 one for all. Descriptions of the
built-in kinds are left out, since builtin.txt has fields only.
"""

import zlib
from collections.abc import Callable
from typing import Any

from simulation.apiserver import builtin
from simulation.apiserver.errors import Obj, unsupported
from simulation.apiserver.registry import Registry, ServedResource
from simulation.apiserver.store import encode

PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
METADATA: Obj = {"allOf": [{"$ref": builtin.REFERENCE + builtin.METADATA}]}
Schema = Callable[[str], Obj]
"""Returns the reference from a response to the schema of its content."""
OF_V2 = "#/definitions/"


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def index(registry: Registry) -> Obj:
    """Return the response of /openapi/v3."""
    return {
        "paths": {
            _path(*gv): {"serverRelativeURL": f"/openapi/v3/{_path(*gv)}?hash={_hash(resources)}"}
            for gv, resources in registry.versions().items()
        }
    }


def _hash(resources: list[ServedResource]) -> str:
    """Return a hash of the schemas, by which clients cache a document even across restarts."""
    sources = [
        (resource.plural, resource.schema and resource.schema.source) for resource in resources
    ]
    return f"{zlib.crc32(encode(sources)):08X}"


def document(registry: Registry, parts: list[str]) -> Obj:
    """Return the response of /openapi/v3/apis/GROUP/VERSION. Raises ApiError 404.

    parts: the path after v3.
    """
    for gv, resources in registry.versions().items():
        if _path(*gv).split("/") == parts:
            return {
                "openapi": "3.0.0",
                "info": {"title": "KubeNode embedded API server", "version": "v1"},
                "paths": _paths(resources, _parameters_v3(), _schema_v3),
                "components": {"schemas": _schemas(resources)},
            }
    raise unsupported(404, f"OpenAPI of {'/'.join(parts)!r}", "see /openapi/v3 for what is served")


def swagger(registry: Registry) -> Obj:
    """Return the response of /openapi/v2."""
    resources = list(registry)
    return {
        "swagger": "2.0",
        "info": {"title": "KubeNode embedded API server", "version": "v1"},
        "paths": _paths(resources, _parameters_v2(), _schema_v2),
        "definitions": _of_v2(_schemas(resources)),
    }


def _paths(resources: list[ServedResource], parameters: list[Obj], content: Schema) -> Obj:
    paths: Obj = {}
    for resource in resources:
        gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        scope = "/namespaces/{namespace}" if resource.namespaced else ""
        base = f"/{_path(resource.group, resource.version)}{scope}/{resource.plural}"
        writes = (("post", base), ("put", f"{base}/{{name}}"), ("patch", f"{base}/{{name}}"))
        for method, where in writes:
            paths.setdefault(where, {})[method] = {
                "parameters": parameters,
                "x-kubernetes-action": method,
                "x-kubernetes-group-version-kind": gvk,
                "responses": {"200": {"description": "OK"}},
            }
        # `kubectl explain` finds the schema through the response of a GET.
        paths[f"{base}/{{name}}"]["get"] = {
            "x-kubernetes-action": "get",
            "x-kubernetes-group-version-kind": gvk,
            "responses": {"200": {"description": "OK", **content(_name(resource))}},
        }
    return paths


def _schema_v3(name: str) -> Obj:
    return {"content": {"application/json": {"schema": {"$ref": builtin.REFERENCE + name}}}}


def _schema_v2(name: str) -> Obj:
    return {"schema": {"$ref": OF_V2 + name}}


def _parameters_v3() -> list[Obj]:
    schema = {"type": "string", "uniqueItems": True}
    return [{"name": name, "in": "query", "schema": schema} for name in PARAMETERS]


def _parameters_v2() -> list[Obj]:
    return [
        {"name": name, "in": "query", "type": "string", "uniqueItems": True} for name in PARAMETERS
    ]


def _schemas(resources: list[ServedResource]) -> Obj:
    typed = (_name(resource) for resource in resources if resource.schema is None)
    schemas = builtin.schemas(iter([builtin.METADATA, *typed]))
    for resource in resources:
        name = _name(resource)
        if resource.schema is not None:
            schemas[name] = _custom(resource.schema.source)
        gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        schemas[name] = {**schemas[name], "x-kubernetes-group-version-kind": [gvk]}
    return schemas


def _custom(source: Obj) -> Obj:
    """Return the schema of a CRD with the fields of every object."""
    text = {"type": "string"}
    head = {"apiVersion": text, "kind": text, "metadata": METADATA}
    return {**source, "properties": {**(source.get("properties") or {}), **head}}


def _name(resource: ServedResource) -> str:
    if resource.schema is None:
        return builtin.name_of(resource.group, resource.version, resource.kind)
    return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])


def _of_v2(part: Any) -> Any:
    """Convert to version 2, which keeps definitions elsewhere and refers to one without `allOf`."""
    if isinstance(part, list):
        return [_of_v2(item) for item in part]
    if not isinstance(part, dict):
        return part
    if (parents := part.get("allOf")) and "$ref" in parents[0]:
        reference = parents[0]["$ref"].replace(builtin.REFERENCE, OF_V2)
        return {**{key: item for key, item in part.items() if key != "allOf"}, "$ref": reference}
    return {key: _of_v2(item) for key, item in part.items()}
