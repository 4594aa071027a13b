"""Fields of the built-in kinds, from builtin.txt, which is generated from a real server's OpenAPI.

Each line is one definition: its name, then `field:type` for each field.

`!` after a field: the field is required.
`~`: the object is owned as a whole.
`[type]@keys`: a list whose items are identified by these fields.
`[type]*`: a set.
`{type}`: a map.
`string=A|B`: a string with these allowed values.
`^key` after a type: a strategic merge patch merges items by this field.
`^` after a type: a strategic merge patch merges plain values.
`!` after `^key` or `^`: a strategic merge patch keeps only the fields that it names.
`^=` after a type: a strategic merge patch replaces the whole value.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from simulation.apiserver.errors import Obj
from simulation.apiserver.shape import ANY, Fields, Shape

FILE = Path(__file__).with_name("builtin.txt")
METADATA = "meta.v1.ObjectMeta"
REFERENCE = "#/components/schemas/"
LEAVES: dict[str, Obj] = {
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "int": {"type": "integer", "format": "int32"},
    "int-or-string": {"x-kubernetes-int-or-string": True},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "string": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
}
"""Types of plain values, in OpenAPI."""
PROTOCOL = Shape("string", whole=True, default="TCP")
"""The only key field of built-in lists with a default."""
GROUPS = {
    "rbac.authorization.k8s.io": "rbac",
    "apiextensions.k8s.io": "apiextensions",
    "admissionregistration.k8s.io": "admissionregistration",
    "certificates.k8s.io": "certificates",
    "coordination.k8s.io": "coordination",
    "events.k8s.io": "events",
    "storage.k8s.io": "storage",
    "": "core",
}


def name_of(group: str, version: str, kind: str) -> str:
    """Return the name of a kind's definition, such as "core.v1.Pod"."""
    return f"{GROUPS.get(group, group)}.{version}.{kind}"


@cache
def shape(name: str) -> Shape:
    """Return the shape of a definition. Its fields are read on first use."""
    whole, fields = _lines()[name]
    return Shape("object", whole=whole, load=lambda: _fields(fields))


def schemas(names: Iterator[str]) -> Obj:
    """Return the OpenAPI schemas of the definitions and of all that they refer to, by name."""
    definitions: Obj = {}
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in definitions:
            definitions[name] = _schema(name, todo)
    return definitions


@cache
def _lines() -> dict[str, tuple[bool, list[str]]]:
    """Return name to (whether it is owned as a whole, its fields as written)."""
    entries: dict[str, tuple[bool, list[str]]] = {}
    for line in FILE.read_text().splitlines():
        name, *fields = line.split()
        entries[name.removeprefix("~")] = (name.startswith("~"), fields)
    return entries


def _split(field: str) -> tuple[str, bool, str]:
    """Return (name, whether it is required, type)."""
    name, _, type_ = field.partition(":")
    return name.removesuffix("!"), name.endswith("!"), type_


def _fields(fields: list[str]) -> Fields:
    return {
        name: PROTOCOL if name == "protocol" else _shape(type_)
        for name, _, type_ in map(_split, fields)
    }


def _shape(type_: str) -> Shape:
    type_ = type_.partition("^")[0]
    if type_.endswith("~"):
        return _shape(type_[:-1]).as_whole()
    if type_.startswith("{"):
        return Shape("object", element=_shape(type_[1:-1]))
    if type_.startswith("["):
        item, _, mark = type_[1:].rpartition("]")
        keys = tuple(mark[1:].split(",")) if mark.startswith("@") else ()
        return Shape("array", whole=not mark, element=_shape(item), keys=keys)
    if type_ == "any":
        return ANY
    type_ = type_.partition("=")[0]
    return _leaf(type_) if type_ in LEAVES else shape(type_)


@cache
def _leaf(type_: str) -> Shape:
    return Shape(type_, whole=True)


def _schema(name: str, used: list[str]) -> Obj:
    whole, fields = _lines()[name]
    split = [_split(field) for field in fields]
    schema: Obj = {
        "type": "object",
        "properties": {field: _source(type_, used) for field, _, type_ in split},
    }
    if required := [field for field, needed, _ in split if needed]:
        schema["required"] = required
    if whole:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def _source(type_: str, used: list[str]) -> Obj:
    type_, merged, key = type_.partition("^")
    if not merged:
        return _plain_source(type_, used)
    if key == "=":
        return {**_plain_source(type_, used), "x-kubernetes-patch-strategy": "replace"}
    steps = [*(["merge"] if type_.startswith("[") else []), *(["retainKeys"] * key.endswith("!"))]
    source = {**_plain_source(type_, used), "x-kubernetes-patch-strategy": ",".join(steps)}
    if key := key.removesuffix("!"):
        source["x-kubernetes-patch-merge-key"] = key
    return source


def _plain_source(type_: str, used: list[str]) -> Obj:
    if type_.endswith("~"):
        return {**_source(type_[:-1], used), "x-kubernetes-map-type": "atomic"}
    if type_.startswith("{"):
        return {"type": "object", "additionalProperties": _source(type_[1:-1], used)}
    if type_.startswith("["):
        item, _, mark = type_[1:].rpartition("]")
        listed: Obj = {"type": "array", "items": _source(item, used)}
        if mark.startswith("@"):
            keys = mark[1:].split(",")
            return {**listed, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
        return {**listed, "x-kubernetes-list-type": "set" if mark else "atomic"}
    if type_.startswith("string="):
        choices = type_.removeprefix("string=").replace("%20", " ")
        return {"type": "string", "enum": choices.split("|")}
    if type_ in LEAVES:
        return LEAVES[type_]
    used.append(type_)
    return {"allOf": [{"$ref": REFERENCE + type_}]}
