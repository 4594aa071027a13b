"""Writes simulation/apiserver/builtin.txt: the fields of the built-in kinds, as a real server says.

    PYTHONPATH=tests .venv/bin/python -m support.builtin_fields

The contract suite compares the file with the server it runs. Descriptions are left out.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from support.control_plane import ControlPlane

from simulation.apiserver import builtin
from simulation.apiserver.registry import Registry, ServedResource

Obj = dict[str, Any]
REFERENCE = "#/components/schemas/"
SHORT = (
    ("io.k8s.apimachinery.pkg.apis.", ""),
    ("io.k8s.apiextensions-apiserver.pkg.apis.", ""),
    ("io.k8s.api.", ""),
)
LEAVES = {
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "time",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps": "any",
}
"""JSONSchemaProps is a language of its own, which contains itself: taken as it comes."""
TYPES = {"string": "string", "boolean": "bool", "integer": "int", "number": "number"}


def text_of(documents: Iterable[Obj], resources: Iterable[ServedResource]) -> str:
    """The file for what `documents` (OpenAPI v3) say of `resources`, one definition a line."""
    definitions: Obj = {}
    for document in documents:
        definitions |= document["components"].get("schemas", {})
    wanted = {(r.group, r.version, r.kind) for r in resources if not r.crd}
    todo = [name for name, found in definitions.items() if wanted & _kinds(found)]
    lines: dict[str, str] = {}
    while todo:
        name = todo.pop()
        if _short(name) not in lines:
            used: list[str] = []
            lines[_short(name)] = _line(name, definitions[name], used)
            todo += used
    return "".join(lines[name] + "\n" for name in sorted(lines))


def _kinds(found: Obj) -> set[tuple[str, str, str]]:
    told = found.get("x-kubernetes-group-version-kind", ())
    return {(kind["group"], kind["version"], kind["kind"]) for kind in told if len(told) == 1}


def _short(name: str) -> str:
    for prefix, short in SHORT:
        if name.startswith(prefix):
            return short + name.removeprefix(prefix)
    return name


def _line(name: str, found: Obj, used: list[str]) -> str:
    required = found.get("required") or ()
    mark = "~" if found.get("x-kubernetes-map-type") == "atomic" else ""
    fields = (
        f"{field}{'!' if field in required else ''}:{_type(part, used)}"
        for field, part in sorted(found.get("properties", {}).items())
    )
    return " ".join([mark + _short(name), *fields])


def _type(part: Obj, used: list[str]) -> str:
    [reference] = part.get("allOf") or [part]
    if target := str(reference.get("$ref", "")).removeprefix(REFERENCE):
        if target in LEAVES:
            return LEAVES[target]
        used.append(target)
        return _short(target) + _whole(part) + _merged(part)
    match part.get("type"):
        case "array":
            return f"[{_type(part['items'], used)}]{_listed(part)}{_merged(part)}"
        case "object" if isinstance(extra := part.get("additionalProperties"), Mapping):
            return f"{{{_type(dict(extra), used)}}}{_whole(part)}"
        case "object":
            return "any"
        case "integer":
            return "int64" if part.get("format") == "int64" else "int"
        case "string" if part.get("format") == "byte":
            return "bytes"
        case "string" if part.get("enum"):
            return "string=" + "|".join(part["enum"]).replace(" ", "%20")
        case type_:
            return TYPES.get(str(type_), "any")


def _whole(part: Obj) -> str:
    return "~" if part.get("x-kubernetes-map-type") == "atomic" else ""


def _listed(part: Obj) -> str:
    match part.get("x-kubernetes-list-type"):
        case "map":
            return "@" + ",".join(part["x-kubernetes-list-map-keys"])
        case "set":
            return "*"
        case _:
            return ""


def _merged(part: Obj) -> str:
    """How a strategic merge patch treats it."""
    strategy = part.get("x-kubernetes-patch-strategy", "")
    if not strategy:
        return ""
    if strategy == "replace":
        return "^="
    key = part.get("x-kubernetes-patch-merge-key", "")
    return f"^{key}{'!' if 'retainKeys' in strategy else ''}"


def main() -> None:
    with ControlPlane(controllers=False, scheduler=False) as plane:
        index = plane.get("/openapi/v3")["paths"]
        documents = [plane.get(found["serverRelativeURL"]) for found in index.values()]
    builtin.FILE.write_text(text_of(documents, Registry()))


if __name__ == "__main__":
    main()
